"""`spark.readStream.format("jetstream")`: a stream as an unbounded table.

An offset is `{"ORDERS": {"id": "1f…", "seq": 42}}`: everything up to sequence 42 was handed out. The id is the stream's
own; a stream that is deleted and made anew has another one, so that a checkpoint is never continued on other messages.
The segments are read by the tasks, as for a batch; this class only plans, in one process for the life of a query.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from jetbroker.errors import StoreReadError
from jetbroker.store.offline.reader import MAX_SEQ, NewestSegment, Query, StreamSnapshot
from spark_jobs.options import check_role, count, flag, query_of, sequence, time_ns
from spark_jobs.source import StreamAndColumns, lost_error
from spark_jobs.workers import in_one_sentence

_Limits: Any = None  # before Spark 4.2 a query cannot limit its batches
_AvailableNow: Any = object
try:
    from pyspark.sql.streaming import datasource as _Limits

    _AvailableNow = _Limits.SupportsTriggerAvailableNow
except ImportError:
    pass

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

log = logging.getLogger(__name__)

Offset = dict[str, dict[str, Any]]
EARLIEST, LATEST = "earliest", "latest"
NEWEST = MAX_SEQ  # as from_seq: only the newest segment is opened


@in_one_sentence
class JetStreamStreamReader(DataSourceStreamReader, _AvailableNow):  # type: ignore[misc]
    """See the module's text."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        check_role(options, "readStream")
        self.source = StreamAndColumns(options, schema)
        self.present = Present(self.source)
        self.checked: tuple[StreamSnapshot, int] | None = None  # nothing is lost behind this sequence
        if "*" in self.source.stream:
            raise StoreReadError("readStream reads one stream: name it, and bring several together with union")
        self.start = Start(options)
        self.query = replace(query_of(options), start_seq=0, start_ns=Query.start_ns)
        self.fail_on_loss = flag(options, "failOnDataLoss", True)
        self.max_messages = count(options, "maxMessagesPerTrigger", None)
        if self.max_messages is not None and _Limits is None:
            raise StoreReadError("option maxMessagesPerTrigger needs Spark 4.2 or later")
        self.target: int | None = None  # of a query that ends with what is available now

    def initialOffset(self) -> Offset:
        snapshot = self.present.open(from_seq=NEWEST if self.start.latest else 1)
        return self._offset(snapshot, self.start.before(snapshot))

    def getDefaultReadLimit(self) -> Any:
        if self.max_messages is None:
            return _Limits.ReadAllAvailable()
        return _Limits.ReadMaxRows(self.max_messages)

    def prepareForTriggerAvailableNow(self) -> None:
        self.target = self.present.open(from_seq=NEWEST).last_seq

    def latestOffset(self, start: Offset | None = None, limit: Any = None) -> Offset:
        """Where the next batch ends. Spark 4.1 calls it without arguments."""
        if start is None:
            return self.reportLatestOffset()
        done = self._done(start)
        snapshot = self._open(start, done)
        end = snapshot.last_seq if self.target is None else min(snapshot.last_seq, self.target)
        if end <= done:
            return start
        self._check_start(snapshot, done, end)
        most = getattr(limit, "max_rows", None)
        if most is not None:
            last = snapshot.nth_seq(replace(self.query, start_seq=done + 1, end_seq=end), most)
            end = end if last is None else last
        return self._offset(snapshot, end)

    def reportLatestOffset(self) -> Offset:
        """`latestOffset` of the query's progress: what `spark_jobs.progress.lag` measures against."""
        snapshot = self.present.open(from_seq=NEWEST)
        return self._offset(snapshot, snapshot.last_seq)

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        done, last = self._done(start), self._done(end)
        if last <= done:
            return []
        snapshot = self._open(start, done)
        self._check_start(snapshot, done, last)
        lost = [(max(low, done + 1), min(high, last)) for low, high in snapshot.damaged if low <= last and high > done]
        if lost:
            self._tell(lost, "cannot be read")
        return self.source.partitions(snapshot, replace(self.query, start_seq=done + 1, end_seq=last))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self.source.read(partition, self.fail_on_loss)

    def _offset(self, snapshot: StreamSnapshot, seq: int) -> Offset:
        return {self.source.stream: {"id": f"{snapshot.stream_id:016x}", "seq": seq}}

    def _done(self, offset: Offset) -> int:
        """The last sequence that an offset has behind it. Raises StoreReadError for a checkpoint of another stream."""
        mine = offset.get(self.source.stream)
        if mine is None:
            raise StoreReadError(
                f"the checkpoint is of stream {', '.join(map(repr, offset))}, not of {self.source.stream!r}: "
                "use another checkpointLocation"
            )
        return int(mine["seq"])

    def _open(self, start: Offset, done: int) -> StreamSnapshot:
        """The stream behind `done`; raises StoreReadError when it is not the stream that the offset is of."""
        snapshot = self.present.open(from_seq=done + 1)
        if f"{snapshot.stream_id:016x}" != start[self.source.stream]["id"]:
            raise StoreReadError(
                f"stream {self.source.stream!r} was deleted and made anew since the checkpoint was written: "
                "start with a new checkpointLocation"
            )
        if snapshot.last_seq < done:
            raise StoreReadError(
                f"stream {self.source.stream!r} ends at sequence {snapshot.last_seq}, before {done} where the "
                "checkpoint is: the store is an older copy; start with a new checkpointLocation"
            )
        return snapshot

    def _check_start(self, snapshot: StreamSnapshot, done: int, last: int) -> None:
        """Tells when retention or a purge has removed what was to come next.

        Single messages may go anywhere in a stream. It is a loss only when nothing older is left either.
        """
        if self.checked is not None and self.checked[0] is snapshot and self.checked[1] == done:
            return
        self.checked = snapshot, done
        following = snapshot.nth_seq(Query(start_seq=done + 1), 1)
        if following == done + 1 or any(low <= done + 1 <= high for low, high in snapshot.damaged):
            return
        self.checked = None
        oldest = self.source.open().nth_seq(Query(), 1)
        if oldest is None or oldest > done + 1:
            until = last if oldest is None else min(oldest - 1, last)
            self._tell([(done + 1, until)], "were removed before this query read them (retention, purge or deletion)")

    def _tell(self, lost: list[tuple[int, int]], why: str) -> None:
        error = lost_error(self.source.stream, lost, why)
        if self.fail_on_loss:
            raise error
        log.warning("%s", error)


class Present:
    """The stream's state, opened anew only when its files have changed.

    Spark asks a hundred times a second whether there is something new, and several times in each batch. Opening walks
    what is new in the segment that is being written.
    """

    def __init__(self, source: StreamAndColumns) -> None:
        self.source = source
        self._files: Hashable = None
        self._from_seq = 0
        self._snapshot: StreamSnapshot | None = None
        self._newest = NewestSegment()

    def open(self, from_seq: int) -> StreamSnapshot:
        """As the source opens it; it may begin with an earlier sequence."""
        files = self.source.files()  # first: what comes while it is opened is seen the next time
        if self._snapshot is None or files is None or files != self._files or from_seq < self._from_seq:
            self._snapshot = self.source.open(from_seq, newest=self._newest)
            self._files, self._from_seq = files, from_seq
        return self._snapshot


class Start:
    """Where a new query begins: `startingOffsets` (earliest, latest, a sequence), `startSeq` or `startTime`."""

    def __init__(self, options: Mapping[str, str]) -> None:
        given = [name for name in ("startingOffsets", "startSeq", "startTime") if options.get(name) is not None]
        if len(given) > 1:
            raise StoreReadError(f"options {' and '.join(given)} both say where to start: give one")
        word = options.get("startingOffsets", EARLIEST).strip().lower()
        self.latest = word == LATEST
        if word in (EARLIEST, LATEST):
            self.seq = sequence(options, "startSeq", 0)
        elif word.isdecimal():
            self.seq = sequence(options, "startingOffsets", 0)
        else:
            raise StoreReadError(
                f"option startingOffsets: {word!r} is neither earliest nor latest nor a sequence number"
            )
        self.time_ns = time_ns(options, "startTime", Query.start_ns)

    def before(self, snapshot: StreamSnapshot) -> int:
        """The sequence before the first that is read."""
        if self.latest:
            return snapshot.last_seq
        first = snapshot.nth_seq(Query(start_seq=self.seq, start_ns=self.time_ns), 1)
        return snapshot.last_seq if first is None else first - 1
