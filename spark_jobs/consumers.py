"""Consumers by their logs on disk: where each stands in its stream, and what it has not acked yet.

A log holds the state as of the broker's last write, which comes right behind each delivery and ack.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jetbroker.errors import StoreReadError
from jetbroker.jetstream.consumers.state import ConsumerState, replay
from jetbroker.store.offline.consumers import read_consumers
from jetbroker.store.offline.reader import Query, StreamSnapshot, only_sequences, part_columns
from spark_jobs.patterns import intersection


@dataclass(frozen=True)
class PlacedConsumer:
    """A consumer by its log. `waiting` were delivered and wait for their ack, `given_up` reached max_deliver."""

    name: str
    config: dict[str, Any]
    created_ns: int
    state: ConsumerState

    @property
    def waiting(self) -> list[int]:
        return [seq for seq, entry in self.state.pending.items() if not entry.exhausted]

    @property
    def given_up(self) -> list[int]:
        return [seq for seq, entry in self.state.pending.items() if entry.exhausted]

    @property
    def patterns(self) -> list[str]:
        """The subjects that it takes, `[""]`: all."""
        several = self.config.get("filter_subjects") or [self.config.get("filter_subject") or ""]
        return [pattern if isinstance(pattern, str) else "" for pattern in several]

    @property
    def first_pass_to(self) -> int:
        """Up to here it gives out each subject's last message only."""
        return self.state.resume if self.config.get("deliver_policy") == "last_per_subject" else 0


@dataclass(frozen=True)
class Selection:
    """What to read of a stream: the messages that a query takes of a snapshot."""

    snapshot: StreamSnapshot
    query: Query


def stored_consumers(snapshot: StreamSnapshot, logs: Sequence[Path]) -> Iterator[PlacedConsumer]:
    """The consumers of a stream that are on disk, by name; those with memory storage are not.

    Raises StoreReadError for a log that cannot be followed.
    """
    slots = max(snapshot.last_seq - snapshot.first_seq + 1, 0)
    for stored in read_consumers(logs, snapshot.stream_id)[0]:
        head = stored.head
        try:
            state = replay(stored.entries, snapshot.first_seq, slots=slots)
        except ValueError as error:
            raise StoreReadError(f"the state of consumer {head['name']!r} is damaged: {error}") from None
        yield PlacedConsumer(head["name"], head["config"], head["created"], state)


def stored_consumer(snapshot: StreamSnapshot, logs: Sequence[Path], name: str) -> PlacedConsumer:
    """One consumer. Raises StoreReadError, which names those there are."""
    there = []
    for consumer in stored_consumers(snapshot, logs):
        if consumer.name == name:
            return consumer
        there.append(consumer.name)
    known = f"there is {', '.join(there)}" if there else "it has none on disk"
    raise StoreReadError(
        f"no consumer {name!r} of stream {snapshot.stream!r} of account {snapshot.account!r}; {known} "
        "(consumers with memory storage are never on disk)"
    )


def ahead(snapshot: StreamSnapshot, consumer: PlacedConsumer, query: Query | None = None) -> list[Selection]:
    """What was not delivered to it yet, as far as a query takes it."""
    query = query or Query()
    behind = max(consumer.state.delivered_seq, consumer.first_pass_to) + 1
    found = []
    for pattern in consumer.patterns:
        subject = intersection(query.subject, pattern)
        if subject is not None:
            later = replace(query, start_seq=max(query.start_seq, behind), subject=subject)
            found.append(Selection(snapshot, later))
    if consumer.state.delivered_seq < consumer.first_pass_to:
        found.append(Selection(only_sequences(snapshot, _first_pass(snapshot, consumer)), query))
    return found


def unacked(snapshot: StreamSnapshot, consumer: PlacedConsumer, query: Query) -> list[Selection]:
    """What it has not acked yet, as far as a query takes it: delivered and waiting, or still ahead.

    Messages that it has given up (max_deliver) are not among them.
    """
    return [Selection(only_sequences(snapshot, consumer.waiting), query), *ahead(snapshot, consumer, query)]


def messages_of(selections: Sequence[Selection]) -> int:
    """How many messages these take, by footers where segments are sealed."""
    return sum(
        part_columns(part, selection.query).row_count
        for selection in selections
        for part in selection.snapshot.plan(selection.query)
    )


def _first_pass(snapshot: StreamSnapshot, consumer: PlacedConsumer) -> list[int]:
    """The last message of each subject up to where the first pass ends, of those that were not delivered."""
    last: dict[bytes, int] = {}
    for pattern in consumer.patterns:
        query = Query(end_seq=consumer.first_pass_to, subject=pattern)
        for part in snapshot.plan(query):
            for subject, _, _, _, last_seq, _, _ in part_columns(part, query).subject_totals():
                last[subject] = last_seq
    return [seq for seq in last.values() if seq > consumer.state.delivered_seq]
