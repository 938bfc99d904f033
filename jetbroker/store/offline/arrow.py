"""Arrow record batches out of decoded segment columns; the only module of the store that imports pyarrow."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from jetbroker.errors import StoreReadError
from jetbroker.store.offline.columns import WANT_DATA, WANT_HEADERS, WANT_SUBJECT, clip_ranges

if TYPE_CHECKING:
    from jetbroker.store.offline.reader import SegmentPart

TYPES: dict[str, pa.DataType] = {
    "stream": pa.string(),
    "seq": pa.int64(),
    "time": pa.timestamp("us", tz="UTC"),
    "subject": pa.string(),
    "headers": pa.map_(pa.string(), pa.list_(pa.string())),
    "data": pa.binary(),
    "size": pa.int32(),
    "domain": pa.string(),
}
# about a message, but not of it: what only comes when it is asked for
METADATA_TYPES: dict[str, pa.DataType] = {
    "account": pa.string(),
    "segment": pa.string(),
    "deleted": pa.bool_(),
    "source_stream": pa.string(),
    "source_seq": pa.int64(),
}
ALL_TYPES = TYPES | METADATA_TYPES
SOURCE_HEADER = "Nats-Stream-Source"  # `<stream> <sequence> ...`, see docs of mirrors and sources
WANT = {"subject": WANT_SUBJECT, "headers": WANT_HEADERS, "data": WANT_DATA,
        "source_stream": WANT_HEADERS, "source_seq": WANT_HEADERS}  # fmt: skip


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """The schema of these columns; raises StoreReadError for one that there is not."""
    for name in columns:
        if name not in ALL_TYPES:
            raise StoreReadError(f"no column {name!r}; there are {', '.join(ALL_TYPES)}")
    return pa.schema([(name, ALL_TYPES[name]) for name in columns])


def wanted(schema: pa.Schema) -> int:
    """The WANT_ flags of the columns that have to be decoded for a schema."""
    flags = 0
    for name in schema.names:
        flags |= WANT.get(name, 0)
    return flags


def record_batch(schema: pa.Schema, part: SegmentPart, decoded: tuple[Any, ...]) -> pa.RecordBatch:
    """A batch of exactly this schema from what SegmentColumns.batch returned."""
    _, rows, seqs, times, sizes, subjects, headers, (data_ends, data) = decoded
    fixed = {"seq": seqs, "time": times, "size": sizes}
    same = {"stream": part.stream, "domain": part.domain, "account": part.account, "segment": part.path}
    arrays = []
    for field in schema:
        if field.name in fixed:
            arrays.append(_array(field.type, rows, fixed[field.name]))
        elif field.name == "subject":
            arrays.append(_array(field.type, rows, *subjects))
        elif field.name == "data":
            arrays.append(_array(field.type, rows, data_ends, data))
        elif field.name == "headers":
            arrays.append(_headers(field.type, rows, headers))
        elif field.name == "deleted":
            arrays.append(within(part.deleted, _array(pa.int64(), rows, seqs)))
        elif field.name in ("source_stream", "source_seq"):
            arrays.append(_source_of(_headers(TYPES["headers"], rows, headers), field.name).cast(field.type))
        else:
            arrays.append(pa.repeat(pa.scalar(same[field.name], field.type), rows))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def header_values(headers: pa.MapArray, name: str) -> pa.Array:
    """The first value of this header in each row, null without one."""
    return pc.list_element(pc.map_lookup(headers, name, "first"), 0)


def within(merged: bytes, seqs: pa.Int64Array) -> pa.BooleanArray:
    """For each of these ascending sequences: is it in one of the merged ranges?"""
    flags = bytearray(len(seqs))
    if len(seqs):
        rows = memoryview(seqs.buffers()[1]).cast("q")[seqs.offset : seqs.offset + len(seqs)]
        ends = memoryview(clip_ranges(merged, rows[0], rows[-1])).cast("Q")
        for at in range(0, len(ends), 2):
            low, high = bisect_left(rows, ends[at]), bisect_right(rows, ends[at + 1])
            flags[low:high] = b"\1" * (high - low)
    return pa.Array.from_buffers(pa.uint8(), len(seqs), [None, pa.py_buffer(bytes(flags))]).cast(pa.bool_())


def _source_of(headers: pa.MapArray, column: str) -> pa.Array:
    """Of the messages that a source has copied: its stream, and the sequence there."""
    found = pc.extract_regex(header_values(headers, SOURCE_HEADER), r"^(?P<stream>[^ ]+) (?P<seq>[0-9]{1,18})(?: |$)")
    return pc.struct_field(found, "stream" if column == "source_stream" else "seq")


def _array(kind: pa.DataType, rows: int, *buffers: bytes) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, *(pa.py_buffer(buffer) for buffer in buffers)], null_count=0)


def _headers(kind: pa.MapType, rows: int, buffers: tuple[bytes, ...]) -> pa.Array:
    map_ends, name_ends, names, list_ends, value_ends, values = buffers
    fields = len(name_ends) // 4 - 1
    value_count = len(value_ends) // 4 - 1
    entry = pa.struct([kind.key_field, kind.item_field])
    keys = _array(kind.key_type, fields, name_ends, names)
    texts = _array(kind.item_type.value_type, value_count, value_ends, values)
    lists = pa.Array.from_buffers(kind.item_type, fields, [None, pa.py_buffer(list_ends)], 0, children=[texts])
    entries = pa.Array.from_buffers(entry, fields, [None], 0, children=[keys, lists])
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(map_ends)], 0, children=[entries])
