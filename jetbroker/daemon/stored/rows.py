"""Which rows and columns `cat` and `export` read, and how rows are written as text."""

from __future__ import annotations

import argparse
import base64
import csv
import os
import sys
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any

from jetbroker.errors import StoreReadError
from jetbroker.store.offline.reader import MAX_SEQ, MAX_TIME_NS, MIN_TIME_NS, Query
from jetbroker.store.offline.stores import open_stream
from jetbroker.tables.asked import add_typed, since_ns
from jetbroker.tables.scanning import MISSING_ARROW, Rows, schema_of
from jetbroker.tables.typed import TypedPayloads

if TYPE_CHECKING:
    import pyarrow as pa


def add_rows(parser: argparse.ArgumentParser) -> None:
    """The arguments that choose a stream, its rows and columns."""
    parser.add_argument("store", metavar="STORE", help="the broker's store_dir, or its jetstream folder")
    parser.add_argument("stream", metavar="STREAM")
    chosen = parser.add_argument_group("rows")
    chosen.add_argument("--subject", default="", metavar="PATTERN", help="only subjects that match (orders.eu.>)")
    when = "ISO 8601 (UTC unless it says otherwise), or a duration before now (90s, 2h, 7d)"
    chosen.add_argument("--since", default="", metavar="TIME", help=f"from this time on: {when}")
    chosen.add_argument("--until", default="", metavar="TIME", help="before this time")
    chosen.add_argument("--start-seq", type=int, default=0, metavar="SEQ", help="from this sequence on")
    chosen.add_argument("--end-seq", type=int, default=MAX_SEQ, metavar="SEQ", help="up to this sequence")
    chosen.add_argument("--limit", type=int, default=None, metavar="N", help="no more than N messages")
    chosen.add_argument("--account", default="$G", help="the account that owns STREAM (default: %(default)s)")
    columns = parser.add_argument_group("columns")
    columns.add_argument("--columns", default="", metavar="NAMES", help="seq,subject,… in the order wanted")
    add_typed(columns)


def rows_of(asked: argparse.Namespace, default_columns: str = "") -> Rows:
    """What was asked for. Raises StoreReadError."""
    need_arrow()
    if asked.limit is not None and asked.limit < 0:
        raise StoreReadError(f"--limit: {asked.limit} is not a number from 0 on")
    typed = None
    if asked.decode and asked.model:
        raise StoreReadError("give --decode or --model, not both")
    if asked.decode or asked.model:
        sys.path.insert(0, os.getcwd())  # where people keep the module that --model names
        words = {asked.form: asked.decode} if asked.decode else {}
        typed = TypedPayloads(**words, model=asked.model, mode=asked.mode, form=asked.form)
        kept = [name for name in default_columns.split(",") if name and name != "data"]
        default_columns = ",".join([*kept, *typed.schema.names]) if kept else ""
    query = Query(
        start_seq=min(max(asked.start_seq, 0), MAX_SEQ),
        end_seq=min(max(asked.end_seq, 0), MAX_SEQ),
        start_ns=since_ns(asked.since, "--since") if asked.since else MIN_TIME_NS,
        end_ns=since_ns(asked.until, "--until") - 1 if asked.until else MAX_TIME_NS,
        subject=asked.subject,
    )
    schema = schema_of(asked.columns or default_columns, typed)
    return Rows(open_stream(asked.store, asked.stream, asked.account), query, schema, typed)


def need_arrow() -> None:
    """Raises StoreReadError when pyarrow is not there."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise StoreReadError(MISSING_ARROW) from None


def limited(rows: Rows, limit: int | None) -> Iterator[pa.RecordBatch]:
    """The batches, no more than `limit` rows of them."""
    left = limit
    for batch in rows.batches() if left != 0 else ():
        if left is not None:
            batch = batch.slice(0, left)
            left -= batch.num_rows
        yield batch
        if left == 0:
            return


def values_of(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Rows as JSON has them: bytes that are no UTF-8 under a name of their own, `data_base64`."""
    import pyarrow as pa

    maps = {field.name for field in batch.schema if pa.types.is_map(field.type)}
    for row in batch.to_pylist():
        pairs = ((name, dict(value) if name in maps and value is not None else value) for name, value in row.items())
        yield {key: plain for name, value in pairs for key, plain in _plain(name, value)}


def _plain(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, bytes):
        try:
            yield name, value.decode()
        except UnicodeDecodeError:
            yield f"{name}_base64", base64.b64encode(value).decode()
    else:
        yield name, _json_value(value)


def _json_value(value: Any) -> Any:
    """What JSON can hold: times as ISO 8601, decimals as text (no digit is lost), bytes as base64."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key: _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    return value


def text_writer(form: str, file: IO[bytes], schema: pa.Schema) -> Callable[[pa.RecordBatch], None]:
    """Writes batches as ndjson or csv; the head of a CSV is written at once."""
    import orjson

    if form == "ndjson":
        return lambda batch: void(
            file.write(b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in values_of(batch)))
        )
    # each binary column has one of base64 beside it: a cell says what it is
    names = [
        name
        for field in schema
        for name in ([field.name, f"{field.name}_base64"] if str(field.type) == "binary" else [field.name])
    ]
    lines = _Lines(file)
    writer = csv.DictWriter(lines, names, restval="", lineterminator="\n")
    writer.writeheader()

    def write(batch: pa.RecordBatch) -> None:
        for row in values_of(batch):
            writer.writerow({name: _cell(value) for name, value in row.items()})

    return write


def _cell(value: Any) -> Any:
    import orjson

    if isinstance(value, dict | list):
        return orjson.dumps(value).decode() if value else ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def void(_: object) -> None:
    """For a function whose answer nobody needs."""


class _Lines:
    """Text lines to a file of bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        return self._file.write(text.encode())
