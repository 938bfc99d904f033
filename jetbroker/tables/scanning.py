"""`jetbroker.scan`: a stream as a pyarrow.RecordBatchReader."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from jetbroker.errors import StoreReadError
from jetbroker.limits import READER_BATCH_ROWS
from jetbroker.store.offline.reader import (
    MAX_SEQ,
    MAX_TIME_NS,
    MIN_TIME_NS,
    Query,
    StreamSnapshot,
    read_part,
)
from jetbroker.store.offline.stores import open_stream
from jetbroker.tables.asked import moment_ns
from jetbroker.tables.typed import TypedPayloads

if TYPE_CHECKING:
    import pyarrow as pa
    from pydantic import BaseModel

MISSING_ARROW = "this needs pyarrow: pip install 'jetbroker[arrow]'"


def scan(
    store: str | os.PathLike[str],
    stream: str,
    *,
    columns: str | Sequence[str] | None = None,
    subject: str = "",
    start_seq: int = 0,
    end_seq: int = MAX_SEQ,
    start_time: str | int | datetime | None = None,
    end_time: str | int | datetime | None = None,
    json: str = "",
    msgpack: str = "",
    model: str | type[BaseModel] = "",
    mode: str = "permissive",
    form: str = "json",
    account: str = "$G",
    domain: str = "",
    verify: bool = False,
    fail_on_data_loss: bool = False,
    batch_rows: int = READER_BATCH_ROWS,
) -> pa.RecordBatchReader:
    """The live messages of a stream, in order, read from the files of a store: for pandas, Polars, DuckDB, Arrow.

    The broker may be running or not, and is not asked. The state of the stream is that of this call. The reader holds
    one batch at a time, of at most `batch_rows` rows and about 16 MiB; a row's columns are those of docs/TABLES.md.

    Args:
        store: the broker's `store_dir`, or its `jetstream` folder.
        stream: its name.
        columns: names in the order wanted, as a list or with commas between them; all by default. Name what you need:
            the rest is not read.
        subject: only subjects that match this NATS pattern.
        start_seq, end_seq: sequences, both inclusive.
        start_time, end_time: from (inclusive) and to (exclusive): a datetime, ISO 8601 (UTC unless it says otherwise),
            or milliseconds since 1970.
        json, msgpack: typed columns out of payloads: "amount double, item.name string".
        model: the same from a pydantic model: the class, or "package.module:Class". `form` ("json", "msgpack") is what
            its payloads are.
        mode: payloads that do not validate are null and stand in `_corrupt` (permissive), are left out (dropping), or
            are an error that names their sequence (failing).
        account: who owns the stream.
        domain: only the store of this JetStream domain will do.
        verify: check every record's CRC, also where footers alone answer.
        fail_on_data_loss: a damaged message, or a missing newest segment, is an error, not a warning in the log.

    Raises StoreReadError for a store, stream, column or value that makes no sense (reading raises it, too), and
    StoreVersionError for a store of a newer release.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise StoreReadError(f"jetbroker.scan: {MISSING_ARROW}") from None
    if batch_rows < 1:
        raise StoreReadError(f"batch_rows: {batch_rows!r} is not a number from 1 on")
    asked = Query(
        start_seq=_sequence(start_seq, "start_seq"),
        end_seq=_sequence(end_seq, "end_seq"),
        start_ns=MIN_TIME_NS if start_time is None else moment_ns(start_time, "start_time"),
        end_ns=MAX_TIME_NS if end_time is None else moment_ns(end_time, "end_time") - 1,
        subject=subject,
        verify=verify,
    )
    typed = (
        TypedPayloads(json=json, msgpack=msgpack, model=model, mode=mode, form=form)
        if json or msgpack or model
        else None
    )
    schema = schema_of(columns, typed)
    rows = Rows(open_stream(store, stream, account, domain), asked, schema, typed, fail_on_data_loss, batch_rows)
    return pa.RecordBatchReader.from_batches(schema, rows.batches())


def schema_of(columns: str | Sequence[str] | None, typed: TypedPayloads | None) -> pa.Schema:
    """The columns asked for; by default all of the stream, or all but the payload and what it is decoded to."""
    import pyarrow as pa

    from jetbroker.store.offline.arrow import METADATA_TYPES, TYPES

    added = typed.schema if typed is not None else pa.schema([])
    by_default = [name for name in (*TYPES, *added.names) if typed is None or name != "data"]
    there = {**TYPES, **METADATA_TYPES, **{field.name: field.type for field in added}}
    if isinstance(columns, str):
        columns = [name.strip() for name in columns.split(",") if name.strip()]
    chosen = columns or by_default
    for name in chosen:
        if name not in there:
            raise StoreReadError(f"no column {name!r}; there are {', '.join(there)}")
    if len(set(chosen)) != len(chosen):
        raise StoreReadError(f"a column is named twice: {', '.join(chosen)}")
    return pa.schema([(name, there[name]) for name in chosen])


@dataclass(frozen=True)
class Rows:
    """What a scan reads. `damaged` lists the (first, last) sequences it did not get: complete once all is read."""

    snapshot: StreamSnapshot
    query: Query
    schema: pa.Schema
    typed: TypedPayloads | None = None
    fail_on_data_loss: bool = False
    batch_rows: int = READER_BATCH_ROWS
    damaged: list[tuple[int, int]] = field(default_factory=list)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """In order, one at a time."""
        from jetbroker.store.offline.arrow import schema_of as stored

        damaged = self.damaged
        damaged += [pair for pair in self.snapshot.damaged if self._asked(*pair)]
        self._lost(damaged)
        if self.misses_end and self.fail_on_data_loss:
            raise StoreReadError(f"{self.snapshot.missing_end}; fail_on_data_loss=False reads what is there")
        read = self.schema if self.typed is None else stored(self.typed.needed(self.schema.names))
        # subjects are looked for in each segment once, when it is read
        for part in self.snapshot.plan(replace(self.query, subject="")):
            for batch in read_part(part, self.query, read, self.batch_rows, damaged):
                decoded = batch if self.typed is None else self.typed.decode(batch, self.schema, self.snapshot.stream)
                if decoded.num_rows:
                    yield decoded
            self._lost(damaged)

    @property
    def misses_end(self) -> bool:
        """Are messages missing behind the last one, of those that are asked for?"""
        return bool(self.snapshot.missing_end) and self.query.end_seq > self.snapshot.last_seq

    def _asked(self, first: int, last: int) -> bool:
        return first <= self.query.end_seq and last >= self.query.start_seq

    def _lost(self, damaged: list[tuple[int, int]]) -> None:
        if damaged and self.fail_on_data_loss:
            named = ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in damaged[:10])
            raise StoreReadError(
                f"stream {self.snapshot.stream!r}: the messages {named} cannot be read; fail_on_data_loss=False reads "
                "on without them"
            )


def _sequence(value: int, what: str) -> int:
    if type(value) is not int:
        raise StoreReadError(f"{what}: {value!r} is not a sequence number")
    return min(max(value, 0), MAX_SEQ)
