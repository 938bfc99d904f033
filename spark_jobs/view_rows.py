"""What is known of a stream without reading its records: by footers, the walk of the active segment, consumers' logs.

Each function gives rows in the order of its columns (see views.py); times in ns since 1970.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from jetbroker.errors import StoreReadError
from jetbroker.store.offline.arrow import header_values, schema_of
from jetbroker.store.offline.reader import Query, StreamSnapshot, file_bytes, only_sequences, part_columns, read_part
from spark_jobs.consumers import PlacedConsumer, ahead, messages_of, stored_consumers
from spark_jobs.patterns import intersection

Row = tuple[Any, ...]
KV_STREAM = "KV_"
# what took a key away when no client did: the header Nats-Marker-Reason
MARKED = {"MaxAge": "PURGE", "Purge": "PURGE", "Remove": "DEL"}


def segment_rows(snapshot: StreamSnapshot) -> Iterator[Row]:
    """(stream, segment, first_seq, last_seq, messages, bytes, removed, file_bytes, sealed, first_time, last_time)"""
    for part in sorted([*snapshot.parts, *snapshot.dead_parts], key=lambda part: part.first_seq):
        removed = part.last_seq - part.first_seq + 1 - part.messages
        times = (part.first_ns, part.last_ns) if part.messages else (None, None)
        yield (snapshot.stream, part.path, part.first_seq, part.last_seq, part.messages, part.size, removed,
               file_bytes(part), part.limit is None, *times)  # fmt: skip


def subject_rows(snapshot: StreamSnapshot, query: Query) -> Iterator[Row]:
    """(stream, subject, messages, bytes, first_seq, last_seq, first_time, last_time)"""
    totals: dict[bytes, list[int]] = {}
    for part in snapshot.plan(query):
        for subject, messages, size, first_seq, last_seq, first_ns, last_ns in part_columns(
            part, query
        ).subject_totals():
            total = totals.setdefault(subject, [0, 0, first_seq, last_seq, first_ns, last_ns])
            total[0] += messages
            total[1] += size
            total[3], total[5] = last_seq, last_ns
    for subject, total in totals.items():
        yield (snapshot.stream, subject.decode(errors="replace"), *total)


def consumer_rows(snapshot: StreamSnapshot, logs: Sequence[Path]) -> Iterator[Row]:
    """(stream, consumer, ack_policy, deliver_policy, filters, created, delivered_seq, ack_floor_seq, deliveries,
    ack_pending, redelivered, pending, given_up, waiting_since)"""
    for consumer in stored_consumers(snapshot, logs):
        state = consumer.state
        waiting = {seq: state.pending[seq] for seq in consumer.waiting}
        yield (
            snapshot.stream,
            consumer.name,
            _text(consumer, "ack_policy", "explicit"),
            _text(consumer, "deliver_policy", "all"),
            [pattern for pattern in consumer.patterns if pattern],
            consumer.created_ns,
            state.delivered_seq,
            state.floor_seq,
            state.delivered_cseq,
            only_sequences(snapshot, waiting).messages,
            sum(entry.count > 1 for entry in waiting.values()),
            messages_of(ahead(snapshot, consumer)),
            len(consumer.given_up),
            min((entry.delivered_ns for entry in waiting.values()), default=None),
        )


def lost_rows(snapshot: StreamSnapshot, verify: bool) -> Iterator[Row]:
    """(stream, first_seq, last_seq, messages, segment); with `verify` every record is read and checked.

    What is missing behind the last message has no last one.
    """
    damaged = set(snapshot.damaged)
    found: list[tuple[int, int]] = []
    if verify:
        schema = schema_of(["data"])
        for part in snapshot.parts:
            for _ in read_part(part, Query(verify=True), schema, damaged=found):
                pass  # reading finds them
    for first, last in sorted(damaged.union(found)):
        holding = (part for part in [*snapshot.parts, *snapshot.dead_parts] if part.first_seq <= first <= part.last_seq)
        segment = next((part.path for part in holding), None)
        yield snapshot.stream, first, last, last - first + 1, segment
    if snapshot.missing_end:
        yield snapshot.stream, snapshot.last_seq + 1, None, None, None


def key_value_batches(snapshot: StreamSnapshot, query: Query) -> Iterator[pa.RecordBatch]:
    """(bucket, key, value, revision, time, operation) of each key's last message; only those are read.

    Raises StoreReadError for a stream that is no bucket.
    """
    if not snapshot.stream.startswith(KV_STREAM):
        raise StoreReadError(f"stream {snapshot.stream!r} is no key-value bucket: their streams begin with {KV_STREAM}")
    subject = intersection(query.subject, "$KV.>")
    if subject is None:
        return
    bucket = snapshot.stream.removeprefix(KV_STREAM)
    last = [row[5] for row in subject_rows(snapshot, Query(subject=subject))]
    schema = schema_of(["subject", "data", "seq", "time", "headers"])
    for part in only_sequences(snapshot, last).parts:
        for batch in read_part(part, Query(), schema):
            subjects, data, seqs, times, headers = batch.columns
            keys = pc.replace_substring_regex(subjects, r"^\$KV\.[^.]*\.", "", max_replacements=1)
            yield pa.RecordBatch.from_arrays(
                [pa.repeat(bucket, len(seqs)), keys, data, seqs, times, _operations(headers)],
                ["bucket", "key", "value", "revision", "time", "operation"],
            )


def _operations(headers: pa.MapArray) -> pa.Array:
    """PUT, DEL or PURGE, as clients see it."""
    marker = header_values(headers, "Nats-Marker-Reason")
    known = pa.array(list(MARKED)), pa.array(list(MARKED.values()))
    by_marker = known[1].take(pc.index_in(marker, known[0]))
    return pc.coalesce(header_values(headers, "KV-Operation"), by_marker, pa.scalar("PUT"))


def _text(consumer: PlacedConsumer, key: str, default: str) -> str:
    value = consumer.config.get(key)
    return value if isinstance(value, str) else default
