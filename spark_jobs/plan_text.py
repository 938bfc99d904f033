"""What a planned read reads, and why, in one line: Spark's `explain` has no room for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jetbroker.store.offline.reader import MAX_SEQ, MAX_TIME_NS, MIN_TIME_NS, Query, SegmentPart, StreamSnapshot

NAMES = 3  # segments that are named
OF_RECORDS = ("headers", "data", "source_stream", "source_seq")


def plan_text(
    snapshot: StreamSnapshot, planned: Sequence[SegmentPart], query: Query, columns: Sequence[str], more: str = ""
) -> str:
    """`stream 'ORDERS' of account '$G': reads 1 of 3 segments (...), up to 100 of 289 messages, because ...`."""
    because = " and ".join(filter(None, (reasons(query), more))) or "nothing narrows it"
    names = [Path(part.path).name for part in planned[:NAMES]]
    if len(planned) > NAMES:
        names.append(f"{len(planned) - NAMES} more")
    listed = f" ({', '.join(names)})" if names else ""
    sealed = query.verify or query.include_deleted or any(name in OF_RECORDS for name in columns)
    where = "records" if sealed else "footers alone where segments are sealed"
    return (
        f"stream {snapshot.stream!r} of account {snapshot.account!r}: reads {len(planned)} of {len(snapshot.parts)} "
        f"segments{listed}, with {sum(part.messages for part in planned):,} of {snapshot.messages:,} messages, because "
        f"{because}; columns {', '.join(columns)}, from {where}"
    )


def reasons(query: Query) -> str:
    """What narrows the query, "" for nothing."""
    found = []
    if query.start_seq > 0 or query.end_seq < MAX_SEQ:
        found.append(f"seq is {_between(query.start_seq or None, query.end_seq if query.end_seq < MAX_SEQ else None)}")
    if query.start_ns > MIN_TIME_NS or query.end_ns < MAX_TIME_NS:
        start = query.start_ns if query.start_ns > MIN_TIME_NS else None
        end = query.end_ns if query.end_ns < MAX_TIME_NS else None
        found.append(f"time is {_between(start, end)} ns")
    if query.subject:
        found.append(f"subject matches {query.subject!r}")
    if query.domains is not None:
        found.append(f"domain is {' or '.join(sorted(str(domain) for domain in query.domains)) or 'impossible'}")
    if query.include_deleted:
        found.append("removed messages count, too")
    return " and ".join(found)


def _between(low: int | None, high: int | None) -> str:
    if low is not None and high is not None:
        return f"{low} to {high}"
    return f"{low} or more" if low is not None else f"{high} or less"
