"""Streams as tables, beside what they must reach: `python -m benchmarks.tables [--messages N] [--spark]`.

Without --spark one core's scans and a nats-py consumer are measured; with it Spark's batches and streams are, too.
The exit code is 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from benchmarks.tables import messages
from benchmarks.tables.figures import Figure, Figures
from tests.support.stores import StreamWriter

ROWS_OUT = 1_000_000
RETRIED = {"spark.master": "local[2,4]"}  # a task may fail three times: one of them is killed
DEFAULTS = {
    "spark.python.unix.domain.socket.enabled": "false",
    "spark.sql.python.filterPushdown.enabled": "false",
    "spark.driver.defaultJavaOptions": "",
}


def in_spark(store: Path, parquet: Path, writer: StreamWriter, figures: Figures) -> None:
    from benchmarks.tables import batch, streaming
    from spark_jobs.session import local_session

    messages.write_parquet(store, parquet)
    figures.add_all(apart(store, parquet))
    there = writer.last_seq
    spark = local_session("benchmark", RETRIED)
    try:
        frames = batch.Frames(spark, store, parquet)
        figures.add_all(batch.measured(frames, there))
        figures.add_all(streaming.backlog(frames))
        figures.add_all(streaming.rows_out(frames, min(there, ROWS_OUT)))
        figures.add_all(streaming.latency(frames, writer))
    finally:
        spark.stop()


def apart(store: Path, parquet: Path) -> Iterator[Figure]:
    """In a process of its own: a JVM keeps the options of its start."""
    from benchmarks.tables import batch

    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield from pool.submit(batch.by_default, store, parquet, DEFAULTS).result()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tables", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000, help="of 128 bytes on 3,000 subjects: %(default)s")
    parser.add_argument("--spark", action="store_true", help="measure Spark, too")
    args = parser.parse_args()
    began, figures = time.perf_counter(), Figures()
    with tempfile.TemporaryDirectory() as made:
        store, parquet = Path(made, "store"), Path(made, "parquet")
        writer = messages.write(store, args.messages)
        from benchmarks.tables import one_core

        figures.add_all(one_core.measured(store))
        if args.spark:
            in_spark(store, parquet, writer, figures)
        writer.close()
    taken = time.perf_counter() - began
    figures.print(f"{args.messages:,} messages of {messages.PAYLOAD_BYTES} bytes; all of it took {taken:.0f} s")
    return int(bool(figures.missed))


if __name__ == "__main__":
    raise SystemExit(main())
