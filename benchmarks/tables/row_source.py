"""What a Spark source in plain Python looks like: it takes records apart with struct, and yields a tuple for each."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

RECORD = struct.Struct("<3xB4xIHHIQq")  # kind, lengths of record and subject, flags, length of headers, sequence, time
TRAILER = struct.Struct("<QQII8s")
SEALED = b"JBFOOTER"
PADDING = 8  # at most, before the footer
HEADER_LENGTH_AT = 12


class RowSource(DataSource):
    """Reads the segments below one folder, as far as they hold nothing but messages."""

    @classmethod
    def name(cls) -> str:
        return "rows"

    def schema(self) -> str:
        return "seq long, time timestamp, subject string, data binary"

    def reader(self, schema: Any) -> RowReader:
        return RowReader(self.options["path"])


class RowReader(DataSourceReader):
    """One task for each segment."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(str(path)) for path in sorted(Path(self.folder).rglob("*.seg"))]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, datetime, str, bytes]]:
        with open(partition.value, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        position = int.from_bytes(data[HEADER_LENGTH_AT : HEADER_LENGTH_AT + 4], "little")
        footer_at, _, _, _, magic = TRAILER.unpack_from(data, len(data) - TRAILER.size)
        end = footer_at - PADDING if magic == SEALED else len(data)
        while position < end:
            _, length, subject_length, _, headers, seq, time_ns = RECORD.unpack_from(data, position)
            subject_at = position + RECORD.size
            payload_at = subject_at + subject_length
            yield (
                seq,
                datetime.fromtimestamp(time_ns / 1e9, UTC),
                data[subject_at:payload_at].decode(),
                data[payload_at + headers : position + length],
            )
            position += length
