"""Rows a second that one core scans, groups by subject and decodes: `python -m benchmarks.tables [--messages N]`.

CPU time counts, of one thread, so that other work on the machine does not; the best of the rounds is shown.
"""

from __future__ import annotations

import argparse
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=500_000)
    messages = parser.parse_args().messages
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write(folder, messages)
        measure("scan: group by subject", lambda: group_by_subject(folder))
        measure(
            "scan: seq, time, subject, data, every CRC checked",
            lambda: rows(folder, columns="seq,time,subject,data", verify=True),
        )
        measure(f"scan: json={TEXT!r}", lambda: rows(folder, columns="amount,item_name", json=TEXT))


if __name__ == "__main__":
    main()
