"""Views of streams: the option `view` of the source asks for one instead of the messages.

`segments`, `subjects`, `consumers` and `lost` read no record of a sealed segment; `kv` reads the last one of each key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from jetbroker.errors import StoreReadError
from jetbroker.limits import READER_BATCH_ROWS
from jetbroker.store.offline.reader import StreamSnapshot
from spark_jobs import view_rows
from spark_jobs.columns import arrow_schema, chosen_schema
from spark_jobs.options import OF_SPARK, check_role, query_of
from spark_jobs.streams import Streams
from spark_jobs.workers import in_one_sentence

if TYPE_CHECKING:
    from jetbroker.store.offline.reader import Query

TEXT, NUMBER, TIME = StringType(), LongType(), TimestampType()
VIEWS: dict[str, dict[str, DataType]] = {
    "segments": {
        "stream": TEXT, "segment": TEXT, "first_seq": NUMBER, "last_seq": NUMBER, "messages": NUMBER, "bytes": NUMBER,
        "removed": NUMBER, "file_bytes": NUMBER, "sealed": BooleanType(), "first_time": TIME, "last_time": TIME,
    },
    "subjects": {
        "stream": TEXT, "subject": TEXT, "messages": NUMBER, "bytes": NUMBER, "first_seq": NUMBER, "last_seq": NUMBER,
        "first_time": TIME, "last_time": TIME,
    },
    "consumers": {
        "stream": TEXT, "consumer": TEXT, "ack_policy": TEXT, "deliver_policy": TEXT, "filters": ArrayType(TEXT),
        "created": TIME, "delivered_seq": NUMBER, "ack_floor_seq": NUMBER, "deliveries": NUMBER, "ack_pending": NUMBER,
        "redelivered": NUMBER, "pending": NUMBER, "given_up": NUMBER, "waiting_since": TIME,
    },
    "kv": {
        "bucket": TEXT, "key": TEXT, "value": BinaryType(), "revision": NUMBER, "time": TIME, "operation": TEXT,
    },
    "lost": {
        "stream": TEXT, "first_seq": NUMBER, "last_seq": NUMBER, "messages": NUMBER, "segment": TEXT,
    },
}  # fmt: skip
OF_ALL = ("path", "stream", "account", "domain", "columns", "view", *OF_SPARK)
OF_ONE = {
    "subjects": ("subject", "startSeq", "endSeq", "startTime", "endTime", "includeDeleted"),
    "kv": ("subject",),
    "lost": ("verify",),
}


@dataclass
class ViewPartition(InputPartition):
    """A view of one stream."""

    snapshot: StreamSnapshot

    def __init__(self, snapshot: StreamSnapshot) -> None:
        super().__init__(None)
        self.snapshot = snapshot


def view_schema(options: Mapping[str, str]) -> StructType:
    """The columns of the view that the options ask for. Raises StoreReadError for one that there is not."""
    types = _types(options)
    return chosen_schema(options.get("columns", ""), types, tuple(types))


def _types(options: Mapping[str, str]) -> dict[str, DataType]:
    view = options.get("view", "")
    if view not in VIEWS:
        raise StoreReadError(f"no view {view!r}; there are {', '.join(VIEWS)}")
    return VIEWS[view]


@in_one_sentence
class ViewReader(DataSourceReader):
    """One task for each stream."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        check_role(options, "read")
        self.types = _types(options)
        self.view = options["view"]
        mine = {name.lower() for name in (*OF_ALL, *OF_ONE.get(self.view, ()))}
        for name in options:
            if name.lower() not in mine:
                raise StoreReadError(f"option {name} means nothing for the view {self.view}")
        if not all(field.nullable for field in schema.fields):
            raise StoreReadError("the columns of a view may be null: leave NOT NULL out")
        self.schema = arrow_schema(schema, self.types)
        self.streams = Streams(options)
        self.query = query_of(options)

    def partitions(self) -> list[InputPartition]:
        return [ViewPartition(snapshot) for snapshot in self.streams.open_all()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, ViewPartition):
            return
        for batch in self._batches(partition.snapshot, self.query):
            arrays = [_as(batch.column(field.name), field.type) for field in self.schema]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _batches(self, snapshot: StreamSnapshot, query: Query) -> Iterator[pa.RecordBatch]:
        if self.view == "kv":
            yield from view_rows.key_value_batches(snapshot, query)
            return
        if self.view == "segments":
            rows = view_rows.segment_rows(snapshot)
        elif self.view == "subjects":
            rows = view_rows.subject_rows(snapshot, query)
        elif self.view == "consumers":
            rows = view_rows.consumer_rows(snapshot, self.streams.consumer_logs(snapshot))
        else:
            rows = view_rows.lost_rows(snapshot, query.verify)
        there = list(rows)
        for start in range(0, len(there), READER_BATCH_ROWS):
            columns = zip(*there[start : start + READER_BATCH_ROWS], strict=True)
            yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], list(self.types))


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Times come in nanoseconds as numbers."""
    if pa.types.is_timestamp(kind) and not pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("ns", "UTC")).cast(kind, safe=False)
    return column.cast(kind)
