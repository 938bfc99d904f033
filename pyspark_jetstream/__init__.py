"""Spark imports every top-level package named `pyspark_*` by itself and registers its DefaultSource: with this package
installed, `spark.read.format("jetstream")` works without a call to register anything."""

from spark_jobs.source import JetStreamDataSource as DefaultSource

__all__ = ["DefaultSource"]
