"""The Spark data source "jetstream": streams of a store as a DataFrame, read from the store's files.

    spark.read.format("jetstream").option("stream", "ORDERS").load("/var/lib/jetbroker")

The state of the stream is fixed when Spark plans the query; each task then reads its segments.  Options and columns
are described in docs/SPARK.md.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from jetbroker.errors import StoreReadError
from jetbroker.store.offline.reader import (
    COLUMNS,
    Query,
    StreamSnapshot,
    list_streams,
    open_stream,
    read_part,
    stream_folder,
)
from spark_jobs.filters import narrowed
from spark_jobs.options import check_names, check_role, count, flag, local_path, query_of
from spark_jobs.partitions import SegmentsPartition, joined
from spark_jobs.patterns import named_by
from spark_jobs.plan_text import plan_text

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
        Filter,
    )

log = logging.getLogger(__name__)

SPARK_TYPES: dict[str, DataType] = {
    "stream": StringType(),
    "seq": LongType(),
    "time": TimestampType(),
    "subject": StringType(),
    "headers": MapType(StringType(), ArrayType(StringType())),
    "data": BinaryType(),
    "size": IntegerType(),
    "domain": StringType(),
    # these only come when they are asked for
    "account": StringType(),
    "segment": StringType(),
    "deleted": BooleanType(),
    "source_stream": StringType(),
    "source_seq": LongType(),
}
DEFAULT_COLUMNS = "*"


class JetStreamDataSource(DataSource):
    """Spark's entry point; see the module's text."""

    @classmethod
    def name(cls) -> str:
        return "jetstream"

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)  # type: ignore[arg-type]
        check_names(options)

    def schema(self) -> StructType:
        """The columns asked for, in their order; all by default."""
        asked = [name.strip() for name in self.options.get("columns", "").split(",") if name.strip()]
        chosen: list[str] = []
        for name in asked or [DEFAULT_COLUMNS]:
            chosen += COLUMNS if name == DEFAULT_COLUMNS else [name]
        for name in chosen:
            _check_column(name)
        return StructType([StructField(name, SPARK_TYPES[name]) for name in chosen])

    def reader(self, schema: StructType) -> JetStreamReader:
        return JetStreamReader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from spark_jobs.stream_source import JetStreamStreamReader

        return JetStreamStreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from spark_jobs.sink import JetStreamWriter

        return JetStreamWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from spark_jobs.sink import JetStreamStreamWriter

        return JetStreamStreamWriter(self.options, schema, overwrite)


class StreamAndColumns:
    """Which streams are read, which of their columns, and how both are opened and read: batch and streaming alike."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.path = local_path(options)
        self.stream = options.get("stream", "")
        self.account = options.get("account") or "$G"
        self.domain = options.get("domain", "")
        if not self.stream:
            raise StoreReadError('the option "stream" is missing: the name of the stream to read')
        self.schema = _arrow_schema(schema)
        self.log_plan = flag(options, "logPlan", False)
        self.most = count(options, "maxMessagesPerPartition", None)

    def open_all(self) -> list[StreamSnapshot]:
        """The present states of the streams that the option `stream` means, see named_by."""
        if not set(self.stream) & {"*", ","}:
            return [self.open()]
        there = [name for account, name in list_streams(self.path) if account == self.account]
        names = named_by(self.stream, there)
        if not names:
            known = f"there is {', '.join(there)}" if there else "this account has no stream on disk"
            raise StoreReadError(f"no stream of account {self.account!r} is called {self.stream!r}; {known}")
        return [self.open(stream=name) for name in names]

    def folder(self, snapshot: StreamSnapshot) -> Path:
        """Where its files are."""
        return stream_folder(self.path, snapshot.stream, self.account)

    def open(self, from_seq: int = 1, stream: str = "") -> StreamSnapshot:
        """The stream's present state, see open_stream."""
        snapshot = open_stream(self.path, stream or self.stream, self.account, self.domain, from_seq)
        if snapshot.domain is None and any(field.name == "domain" and not field.nullable for field in self.schema):
            raise StoreReadError(f"column 'domain' is NOT NULL, but store {self.path!r} names no domain")
        return snapshot

    def partitions(self, snapshot: StreamSnapshot, query: Query, why: str = "") -> list[InputPartition]:
        """What tasks have to read; says so on stderr where `logPlan` is set."""
        planned = snapshot.plan(query)
        text = plan_text(snapshot, planned, query, self.schema.names, why)
        log.info("%s", text)
        if self.log_plan:
            print(f"jetstream: {text}", file=sys.stderr, flush=True)
        return list(joined(planned, query, self.most))

    def read(self, partition: InputPartition, fail_on_loss: bool) -> Iterator[pa.RecordBatch]:
        """The batches of one partition; with `fail_on_loss` a damaged record is an error once the rest is read."""
        damaged: list[tuple[int, int]] = []
        if not isinstance(partition, SegmentsPartition):
            return  # an empty list of partitions reaches us as one InputPartition(None)
        for segment in partition.segments:
            yield from read_part(segment, partition.query, self.schema, damaged=damaged)
            if damaged and fail_on_loss:
                raise lost_error(segment.stream, damaged, f"are damaged in {segment.path}")


def lost_error(stream: str, ranges: Iterable[tuple[int, int]], why: str) -> StoreReadError:
    """Says which sequences a query does not get."""
    named = ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in ranges)
    return StoreReadError(
        f"stream {stream!r}: the messages {named} {why}; the option failOnDataLoss=false reads on without them"
    )


class JetStreamReader(DataSourceReader):
    """Plans and reads. Pickled to the tasks after planning; what they read is fixed by their partition."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        check_role(options, "read")
        self.source = StreamAndColumns(options, schema)
        self.query = query_of(options)
        self.fail_on_loss = flag(options, "failOnDataLoss", False)
        self.consumer = options.get("unackedBy", "")
        if self.consumer and self.query.include_deleted:
            raise StoreReadError(
                "options unackedBy and includeDeleted exclude each other: nobody acks removed messages"
            )

    @property
    def pushFilters(self) -> _PushFilters:
        """Spark calls it like a method, see _PushFilters."""
        return _PushFilters(self)

    def partitions(self) -> list[InputPartition]:
        found: list[InputPartition] = []
        for snapshot in self.source.open_all():
            self._check_damage(snapshot)
            if self.consumer:
                found += self._unacked(snapshot)
            else:
                found += self.source.partitions(snapshot, self.query)
        return found

    def _unacked(self, snapshot: StreamSnapshot) -> Iterator[InputPartition]:
        from spark_jobs.consumers import stored_consumer, unacked

        consumer = stored_consumer(snapshot, self.source.folder(snapshot), self.consumer)
        for selection in unacked(snapshot, consumer, self.query):
            why = f"consumer {self.consumer!r} has not acked them"
            yield from self.source.partitions(selection.snapshot, selection.query, why)

    def _check_damage(self, snapshot: StreamSnapshot) -> None:
        lost = [
            (first, last)
            for first, last in snapshot.damaged
            if first <= self.query.end_seq and last >= self.query.start_seq
        ]
        if lost and self.fail_on_loss:
            raise lost_error(snapshot.stream, lost, "cannot be read")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self.source.read(partition, self.fail_on_loss)


class _PushFilters:
    """`pushFilters` that works whatever spark.sql.python.filterPushdown.enabled says.

    Spark refuses every reader that overrides the method while that setting is off, which is its default; it finds out
    by comparing `__func__` with the base class's function. Filters narrow what is read. Those that the source fulfils
    to the row stay here, and `explain("formatted")` names them; the others go back, and Spark checks each row itself.
    """

    def __init__(self, reader: JetStreamReader) -> None:
        self.reader = reader
        self.__func__ = getattr(DataSourceReader, "pushFilters", None)

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        left = []
        for pushed in filters:
            self.reader.query, exact = narrowed(self.reader.query, pushed)
            if not exact:
                left.append(pushed)
        return left


def _check_column(name: str) -> None:
    if name not in SPARK_TYPES:
        raise StoreReadError(f"no column {name!r}; there are {', '.join(SPARK_TYPES)}")


def _arrow_schema(schema: StructType) -> pa.Schema:
    """Spark's own Arrow schema of these columns: batches have to equal it to the last detail."""
    from pyspark.sql.pandas.types import to_arrow_schema

    for field in schema.fields:
        _check_column(field.name)
        if field.name in ("source_stream", "source_seq") and not field.nullable:
            raise StoreReadError(f"column {field.name!r} is NOT NULL, but only messages that a source copied have it")
        expected, given = SPARK_TYPES[field.name].simpleString(), field.dataType.simpleString()
        if expected != given:
            raise StoreReadError(f"column {field.name!r} is {expected}, not {given}")
    if "timezone" in inspect.signature(to_arrow_schema).parameters:  # since Spark 4.2; before, UTC was the default
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)
