"""The messages that are measured: a stream of them, and the same as Parquet."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds

import jetbroker
from tests.support.stores import StreamWriter

STREAM = "BENCH"
SUBJECTS = 3000
PAYLOAD_BYTES = 128
SEGMENT_MESSAGES = 300_000  # about the 64 MiB at which a broker begins another
FILE_ROWS = 1_000_000


def payload(number: int) -> bytes:
    """JSON of PAYLOAD_BYTES. Its filler is the same in all, which Parquet stores in next to nothing."""
    text = b'{"id":%d,"amount":%d.25,"item":{"name":"item %d"},"note":"' % (number, number, number)
    return text + b"x" * (PAYLOAD_BYTES - 2 - len(text)) + b'"}'


def subject(number: int) -> bytes:
    return b"orders.%d.new" % (number % SUBJECTS)


def write(folder: Path, messages: int) -> StreamWriter:
    """The stream; all segments but the last are sealed, as a broker leaves them. What is returned appends to it."""
    writer = StreamWriter(folder, STREAM)
    for number in range(messages):
        writer.append(subject(number), payload(number))
        if (number + 1) % SEGMENT_MESSAGES == 0:
            writer.seal()
    writer.flush()
    return writer


def write_parquet(store: Path, folder: Path) -> None:
    """Every column of every message, as pyarrow writes it."""
    reader = jetbroker.scan(store, STREAM)
    ds.write_dataset(reader, folder, format="parquet", max_rows_per_file=FILE_ROWS, max_rows_per_group=FILE_ROWS // 4,
                     min_rows_per_group=FILE_ROWS // 4)  # fmt: skip
