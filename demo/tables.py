"""The same question asked of the stream with Spark and of the source with pandas, and whether the answers agree."""

from __future__ import annotations

import math
from pathlib import Path

from rich.console import Console
from rich.table import Table

from spark_jobs.session import local_session

Delays = dict[tuple[str, int], tuple[int, float | None]]
PAYLOAD = "carrier string, month int, dep_delay double"


def spark_delays(store: Path, stream: str) -> Delays:
    """Flights and mean departure delay by carrier and month, from the store's files."""
    from pyspark.sql import functions as f

    session = local_session("flights")
    messages = session.read.format("jetstream").option("stream", stream).option("columns", "data").load(str(store))
    flights = messages.select(f.from_json(f.col("data").cast("string"), PAYLOAD).alias("flight")).select("flight.*")
    grouped = flights.groupBy("carrier", "month").agg(f.count("*").alias("flights"), f.avg("dep_delay").alias("delay"))
    rows = grouped.collect()
    session.stop()
    return {(row["carrier"], row["month"]): (row["flights"], row["delay"]) for row in rows}


def same(left: tuple[int, float | None] | None, right: tuple[int, float | None] | None) -> bool:
    """Counts are equal; means too, but for the order in which floating point adds up."""
    if left is None or right is None or left[0] != right[0] or (left[1] is None) != (right[1] is None):
        return False
    return left[1] is None or right[1] is None or math.isclose(left[1], right[1], rel_tol=1e-9, abs_tol=1e-9)


def show(console: Console, spark: Delays, pandas: Delays) -> int:
    """Prints both side by side; returns the number of rows that differ."""
    table = Table(title="Flights and mean departure delay (min) by carrier and month")
    table.add_column("carrier")
    table.add_column("month", justify="right")
    for source in ("Spark, from the stream", "pandas, from the source"):
        table.add_column(f"flights\n{source}", justify="right")
        table.add_column(f"delay\n{source}", justify="right")
    table.add_column("")
    differing = 0
    for key in sorted(spark.keys() | pandas.keys()):
        agree = same(spark.get(key), pandas.get(key))
        differing += not agree
        table.add_row(key[0], str(key[1]), *cells(spark.get(key)), *cells(pandas.get(key)), "" if agree else "DIFFERS")
    console.print(table)
    return differing


def cells(value: tuple[int, float | None] | None) -> tuple[str, str]:
    if value is None:
        return "-", "-"
    return f"{value[0]:,}", "-" if value[1] is None else f"{value[1]:.3f}"
