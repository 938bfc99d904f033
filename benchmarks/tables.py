"""Rows a second that one core scans, groups by subject and decodes: `python -m benchmarks.tables [--messages N]`.

`--spark` compares instead the sum of a JSON field in Spark: as a typed column of the stream, and by get_json_object
over the same messages as Parquet.

CPU time counts, of one thread, so that other work on the machine does not; the best of the rounds is shown.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import jetbroker
from tests.support.stores import StreamWriter

SUBJECTS = 3000
SEGMENT_MESSAGES = 100_000
ROUNDS = 5
STREAM = "BENCH"
TEXT = "amount double, item.name string"


def write(folder: Path, messages: int) -> None:
    """Messages of about 128 bytes of JSON; all but the last segment are sealed."""
    writer = StreamWriter(folder, STREAM)
    for number in range(messages):
        payload = b'{"id":%d,"amount":%d.25,"item":{"name":"item %d"},"note":"%s"}' % (
            number,
            number,
            number,
            b"x" * 60,
        )
        writer.append(b"orders.%d.new" % (number % SUBJECTS), payload)
        if (number + 1) % SEGMENT_MESSAGES == 0:
            writer.seal()
    writer.close()


def group_by_subject(folder: Path) -> int:
    """Messages of each subject: counted batch by batch, and then together."""
    reader = jetbroker.scan(folder, STREAM, columns="subject", batch_rows=65_536)
    counted = [pa.RecordBatch.from_struct_array(batch.column(0).value_counts()) for batch in reader]
    table = pa.Table.from_batches(counted).group_by("values").aggregate([("counts", "sum")])
    return sum(table.column("counts_sum").to_pylist())


def rows(folder: Path, **asked: Any) -> int:
    return sum(batch.num_rows for batch in jetbroker.scan(folder, STREAM, **asked))


def measure(name: str, work: Callable[[], int]) -> None:
    best = 0.0
    for _ in range(ROUNDS):
        began = time.process_time()
        done = work()
        best = max(best, done / (time.process_time() - began))
    print(f"{name:55} {best / 1e6:6.2f} million rows/s")


def compare_in_spark(folder: Path) -> None:
    """Seconds of both, in turn, the first round left out; they have to come to the same sum."""
    from pyspark.sql import functions as f

    from spark_jobs import export_table
    from spark_jobs.session import local_session

    parquet = folder / "parquet"
    if export_table.main([str(folder), STREAM, str(parquet)]):
        raise SystemExit("the stream could not be exported")
    spark = local_session("benchmark")
    field = f.get_json_object(f.col("data").cast("string"), "$.amount").cast("double")
    typed = {"stream": STREAM, "json": "amount double", "columns": "amount"}
    frames = {
        "Parquet, get_json_object": spark.read.parquet(str(parquet)).select(field.alias("amount")),
        "stream, typed column": spark.read.format("jetstream").options(**typed).load(str(folder)),
    }
    seconds: dict[str, list[float]] = {name: [] for name in frames}
    sums = set()
    for _ in range(ROUNDS + 1):
        for name, frame in frames.items():
            began = time.perf_counter()
            sums.add(frame.agg(f.sum("amount")).collect()[0][0])
            seconds[name].append(time.perf_counter() - began)
    spark.stop()
    if len(sums) != 1:
        raise SystemExit(f"the sums differ: {sums}")
    medians = {name: statistics.median(taken[1:]) for name, taken in seconds.items()}
    for name, median in medians.items():
        print(f"{name:30} {median:6.2f} s")
    first, second = medians.values()
    print(f"the stream takes {second / first:.2f} times as long as Parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=500_000)
    parser.add_argument("--spark", action="store_true", help="compare with Spark over Parquet")
    args = parser.parse_args()
    messages = args.messages
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write(folder, messages)
        if args.spark:
            compare_in_spark(folder)
            return
        pa.set_cpu_count(1)
        measure("scan: group by subject", lambda: group_by_subject(folder))
        measure(
            "scan: seq, time, subject, data, every CRC checked",
            lambda: rows(folder, columns="seq,time,subject,data", verify=True),
        )
        measure(f"scan: json={TEXT!r}", lambda: rows(folder, columns="amount,item_name", json=TEXT))


if __name__ == "__main__":
    main()
