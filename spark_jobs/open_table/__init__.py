"""A table of another format that follows a stream: Parquet files, Iceberg, Delta. `spark_jobs.export_table` runs it.

A table holds the stream's messages up to its *position*, a sequence. Position and files change in one atomic commit.
"""
