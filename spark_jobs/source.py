"""The Spark data source "jetstream": one stream of a store as a DataFrame, read from the store's files.

    spark.read.format("jetstream").option("stream", "ORDERS").load("/var/lib/jetbroker")

The state of the stream is fixed when Spark plans the query; each task then reads its segments.  Options and columns
are described in docs/SPARK.md.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
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
    MAX_SEQ,
    MAX_TIME_NS,
    MIN_TIME_NS,
    Query,
    SegmentPart,
    is_literal,
    open_stream,
    read_part,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

SPARK_TYPES: dict[str, DataType] = {
    "stream": StringType(),
    "seq": LongType(),
    "time": TimestampType(),
    "subject": StringType(),
    "headers": MapType(StringType(), ArrayType(StringType())),
    "data": BinaryType(),
    "size": IntegerType(),
    "domain": StringType(),
}
OPTIONS = (
    *("stream", "account", "domain", "columns", "subject"),
    *("startSeq", "endSeq", "startTime", "endTime", "verify", "path"),
)
PARTITION_BYTES = 32 * 1024 * 1024  # smaller segments are joined up to this: a task costs about 16 ms of a core
MESSAGE_OVERHEAD_BYTES = 64  # what a message weighs besides its headers and payload


@dataclass
class SegmentsPartition(InputPartition):
    """Consecutive segments that one task reads."""

    segments: tuple[SegmentPart, ...]

    def __init__(self, segments: Iterable[SegmentPart]) -> None:
        super().__init__(None)
        self.segments = tuple(segments)


class JetStreamDataSource(DataSource):
    """Spark's entry point; see the module's text."""

    @classmethod
    def name(cls) -> str:
        return "jetstream"

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)  # type: ignore[arg-type]
        known = {name.lower() for name in OPTIONS}
        unknown = sorted(name for name in options if name.lower() not in known)
        if unknown:
            raise StoreReadError(f"unknown option {', '.join(unknown)}; there are {', '.join(OPTIONS[:-1])}")

    def schema(self) -> StructType:
        """The columns asked for, in their order; all by default."""
        chosen = [name.strip() for name in self.options.get("columns", "").split(",") if name.strip()] or COLUMNS
        for name in chosen:
            if name not in SPARK_TYPES:
                raise StoreReadError(f"no column {name!r}; there are {', '.join(COLUMNS)}")
        return StructType([StructField(name, SPARK_TYPES[name]) for name in chosen])

    def reader(self, schema: StructType) -> JetStreamReader:
        return JetStreamReader(self.options, schema)


class JetStreamReader(DataSourceReader):
    """Plans and reads. Pickled to the tasks after planning; what they read is fixed by their partition."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.path = _local_path(options.get("path"))
        self.stream = options.get("stream", "")
        self.account = options.get("account") or "$G"
        self.domain = options.get("domain", "")
        if not self.stream:
            raise StoreReadError('the option "stream" is missing: the name of the stream to read')
        self.query = query_of(options)
        self.schema = _arrow_schema(schema)

    @property
    def pushFilters(self) -> _PushFilters:
        """Spark calls it like a method, see _PushFilters."""
        return _PushFilters(self)

    def partitions(self) -> list[InputPartition]:
        snapshot = open_stream(self.path, self.stream, self.account, self.domain)
        if snapshot.domain is None and any(field.name == "domain" and not field.nullable for field in self.schema):
            raise StoreReadError(f"column 'domain' is NOT NULL, but store {self.path!r} names no domain")
        return list(joined(snapshot.plan(self.query)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # an empty list of partitions reaches us as one InputPartition(None)
        for segment in getattr(partition, "segments", ()):
            yield from read_part(segment, self.query, self.schema)


class _PushFilters:
    """`pushFilters` that works whatever spark.sql.python.filterPushdown.enabled says.

    Spark refuses every reader that overrides the method while that setting is off, which is its default; it finds out
    by comparing `__func__` with the base class's function. Filters only narrow what is read: all are handed back, so
    that Spark checks each row itself.
    """

    def __init__(self, reader: JetStreamReader) -> None:
        self.reader = reader
        self.__func__ = getattr(DataSourceReader, "pushFilters", None)

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        for pushed in filters:
            self.reader.query = narrowed(self.reader.query, pushed)
        return filters


def joined(parts: Iterable[SegmentPart]) -> Iterator[SegmentsPartition]:
    """One partition per segment, but small neighbours together."""
    gathered: list[SegmentPart] = []
    weight = 0
    for part in parts:
        part_weight = part.size + part.messages * MESSAGE_OVERHEAD_BYTES
        if gathered and weight + part_weight > PARTITION_BYTES:
            yield SegmentsPartition(gathered)
            gathered, weight = [], 0
        gathered.append(part)
        weight += part_weight
    if gathered:
        yield SegmentsPartition(gathered)


def query_of(options: Mapping[str, str]) -> Query:
    """The options that choose rows. Raises StoreReadError for a value that makes no sense."""
    return Query(
        start_seq=_sequence(options, "startSeq", 0),
        end_seq=_sequence(options, "endSeq", MAX_SEQ),
        start_ns=_time_ns(options, "startTime", MIN_TIME_NS),
        end_ns=_time_ns(options, "endTime", MAX_TIME_NS + 1) - 1,
        subject=options.get("subject", "").strip(),
        verify=_flag(options, "verify"),
    )


def _sequence(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        raise StoreReadError(f"option {name}: {text!r} is not a sequence number") from None
    return min(max(value, 0), MAX_SEQ)


def _time_ns(options: Mapping[str, str], name: str, default: int) -> int:
    """ISO 8601 (UTC unless it says otherwise), or milliseconds since 1970."""
    text = options.get(name)
    if text is None:
        return default
    text = text.strip()
    try:
        if text.lstrip("-").isdecimal():
            return int(text) * 1_000_000
        return _microseconds(datetime.fromisoformat(text)) * 1000
    except ValueError:
        raise StoreReadError(
            f"option {name}: {text!r} is neither an ISO 8601 time (2026-01-31T12:00:00Z) nor milliseconds since 1970"
        ) from None


def _flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "false").strip().lower()
    if text not in ("true", "false"):
        raise StoreReadError(f"option {name}: {text!r} is neither true nor false")
    return text == "true"


def _microseconds(moment: datetime) -> int:
    """Since 1970, exactly: a float would round."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    passed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


def _local_path(path: str | None) -> str:
    if not path:
        raise StoreReadError('no store is given: .load("/path/of/store_dir")')
    if path.startswith("file:"):
        path = unquote(urlparse(path).path)
    return os.path.abspath(path)


def _arrow_schema(schema: StructType) -> pa.Schema:
    """Spark's own Arrow schema of these columns: batches have to equal it to the last detail."""
    from pyspark.sql.pandas.types import to_arrow_schema

    for field in schema.fields:
        if field.name not in SPARK_TYPES:
            raise StoreReadError(f"no column {field.name!r}; there are {', '.join(COLUMNS)}")
        expected, given = SPARK_TYPES[field.name].simpleString(), field.dataType.simpleString()
        if expected != given:
            raise StoreReadError(f"column {field.name!r} is {expected}, not {given}")
    if "timezone" in inspect.signature(to_arrow_schema).parameters:  # since Spark 4.2; before, UTC was the default
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)


def narrowed(query: Query, pushed: Filter) -> Query:
    """The query, no wider than one pushed filter allows; unchanged for filters that say nothing useful here."""
    kind = type(pushed).__name__
    column = getattr(pushed, "attribute", ("",))[0]
    value = getattr(pushed, "value", None)
    if column == "seq":
        low, high = _bounds(kind, value)
        return replace(
            query,
            start_seq=query.start_seq if low is None else max(low, query.start_seq),
            end_seq=query.end_seq if high is None else max(0, min(high, query.end_seq)),  # there is no sequence 0
        )
    if column == "time":
        low, high = _bounds(kind, _as_microseconds(value))
        return replace(
            query,
            start_ns=query.start_ns if low is None else max(low * 1000, query.start_ns),
            end_ns=query.end_ns if high is None else min(high * 1000 + 999, query.end_ns),
        )
    if column == "domain":
        return replace(query, domains=_domains(kind, value, query.domains))
    if column == "subject" and not query.subject:
        return replace(query, subject=_subject_pattern(kind, value))
    return query


def _as_microseconds(value: Any) -> Any:
    if isinstance(value, datetime):
        return _microseconds(value)
    if isinstance(value, (list, tuple)):
        return [_as_microseconds(item) for item in value]
    return None


def _bounds(kind: str, value: Any) -> tuple[int | None, int | None]:
    """(lowest, highest) integer that a comparison leaves over; None: unbounded."""
    if kind == "In" and isinstance(value, (list, tuple)):
        there = [item for item in value if isinstance(item, int)]
        return (min(there), max(there)) if there else (None, None)
    if not isinstance(value, int):
        return None, None
    return {
        "EqualTo": (value, value),
        "EqualNullSafe": (value, value),
        "GreaterThan": (value + 1, None),
        "GreaterThanOrEqual": (value, None),
        "LessThan": (None, value - 1),
        "LessThanOrEqual": (None, value),
    }.get(kind, (None, None))


def _domains(kind: str, value: Any, wanted: frozenset[str | None] | None) -> frozenset[str | None] | None:
    """Those of the wanted domains (None: all) that a comparison leaves over."""
    if kind in ("EqualTo", "EqualNullSafe"):
        left = frozenset([value])
    elif kind == "In" and isinstance(value, (list, tuple)):
        left = frozenset(value)
    elif kind == "IsNull":
        left = frozenset([None])
    else:
        return wanted
    return left if wanted is None else left & wanted


def _subject_pattern(kind: str, value: Any) -> str:
    """A pattern that every subject passing the filter matches, "" when there is none to be had."""
    # where text was not UTF-8 the column shows U+FFFD, which is not what the record holds
    if not isinstance(value, str) or "\ufffd" in value:
        return ""
    if kind in ("EqualTo", "EqualNullSafe"):
        return value if is_literal(value) else ""
    if kind == "StringStartsWith" and "." in value:
        tokens = value.rpartition(".")[0]
        return f"{tokens}.>" if is_literal(tokens) else ""
    return ""
