"""The Spark data source "jetstream": streams of a store as a DataFrame, read from the store's files.

    spark.read.format("jetstream").option("stream", "ORDERS").load("/var/lib/jetbroker")

The state of the stream is fixed when Spark plans the query; each task then reads its segments.  Options and columns
are described in docs/SPARK.md.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from jetbroker.errors import StoreReadError
from jetbroker.store.offline.reader import NewestSegment, Query, StreamSnapshot, read_part
from spark_jobs.columns import arrow_schema, chosen_schema
from spark_jobs.filters import narrowed
from spark_jobs.options import check_names, check_role, count, flag, query_of
from spark_jobs.partitions import SegmentsPartition, joined
from spark_jobs.plan_text import plan_text
from spark_jobs.streams import Streams
from spark_jobs.typed_options import TypedColumns
from spark_jobs.workers import in_one_sentence, keep_loaded

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
        Filter,
    )
    from pyspark.sql.types import StructType

    from spark_jobs.views import ViewReader

log = logging.getLogger(__name__)


@in_one_sentence
class JetStreamDataSource(DataSource):
    """Spark's entry point; see the module's text."""

    @classmethod
    def name(cls) -> str:
        return "jetstream"

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)  # type: ignore[arg-type]
        keep_loaded()
        check_names(options)

    def schema(self) -> StructType:
        """The columns asked for, in their order; all by default."""
        if "view" in self.options:
            from spark_jobs.views import view_schema

            return view_schema(self.options)
        typed = TypedColumns(self.options)
        return chosen_schema(self.options.get("columns", ""), typed.types, typed.defaults)

    def reader(self, schema: StructType) -> JetStreamReader | ViewReader:
        if "view" in self.options:
            from spark_jobs.views import ViewReader

            return ViewReader(self.options, schema)
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


class StreamAndColumns(Streams):
    """Which streams are read, which of their columns, and how both are opened and read: batch and streaming alike."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options)
        self.typed = TypedColumns(options)
        self.typed.check(schema)
        self.schema = arrow_schema(schema, self.typed.types)
        self.stored = self.typed.stored(self.schema)
        self.log_plan = flag(options, "logPlan", False)
        self.most = count(options, "maxMessagesPerPartition", None)

    def open(self, from_seq: int = 1, stream: str = "", newest: NewestSegment | None = None) -> StreamSnapshot:
        """The stream's present state, see open_stream."""
        snapshot = super().open(from_seq, stream, newest)
        if snapshot.domain is None and any(field.name == "domain" and not field.nullable for field in self.schema):
            raise StoreReadError(f"column 'domain' is NOT NULL, but store {self.path!r} names no domain")
        return snapshot

    def partitions(self, snapshot: StreamSnapshot, query: Query, why: str = "") -> list[InputPartition]:
        """What tasks have to read; says so on stderr where `logPlan` is set."""
        planned = snapshot.plan(query)
        text = plan_text(snapshot, planned, query, self.stored.names, why)
        log.info("%s", text)
        if self.log_plan:
            print(f"jetstream: {text}", file=sys.stderr, flush=True)
        return list(joined(planned, query, self.most))

    def read(self, partition: InputPartition, fail_on_loss: bool) -> Iterator[pa.RecordBatch]:
        """The batches of one partition; with `fail_on_loss` a damaged record is an error once the rest is read."""
        keep_loaded()
        damaged: list[tuple[int, int]] = []
        if not isinstance(partition, SegmentsPartition):
            return  # an empty list of partitions reaches us as one InputPartition(None)
        for segment in partition.segments:
            for batch in read_part(segment, partition.query, self.stored, damaged=damaged):
                decoded = self.typed.decoded(batch, self.schema, segment.stream)
                if decoded.num_rows:
                    yield decoded
            if damaged and fail_on_loss:
                raise lost_error(segment.stream, damaged, f"are damaged in {segment.path}")


def lost_error(stream: str, ranges: Iterable[tuple[int, int]], why: str) -> StoreReadError:
    """Says which sequences a query does not get."""
    named = ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in ranges)
    return StoreReadError(
        f"stream {stream!r}: the messages {named} {why}; the option failOnDataLoss=false reads on without them"
    )


@in_one_sentence
class JetStreamReader(DataSourceReader):
    """Plans and reads. Pickled to the tasks after planning; what they read is fixed by their partition."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        check_role(options, "read")
        self.source = StreamAndColumns(options, schema)
        keep_loaded()
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

        consumer = stored_consumer(snapshot, self.source.consumer_logs(snapshot), self.consumer)
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
        if snapshot.missing_end and self.fail_on_loss and self.query.end_seq > snapshot.last_seq:
            raise StoreReadError(f"{snapshot.missing_end}; the option failOnDataLoss=false reads what is there")

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
            exact = False
            if getattr(pushed, "attribute", ("",))[0] not in self.reader.source.typed.names:
                self.reader.query, exact = narrowed(self.reader.query, pushed)
            if not exact:
                left.append(pushed)
        return left
