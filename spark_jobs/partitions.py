"""What each task reads: small segments together, large ones in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pyspark.sql.datasource import InputPartition

from jetbroker.store.offline.reader import Query, SegmentPart, part_columns

PARTITION_BYTES = 32 * 1024 * 1024  # smaller segments are joined up to this: a task costs about 16 ms of a core
PIECE_BYTES = 128 * 1024 * 1024  # larger segments are cut, so that no task is much longer than the others
MESSAGE_OVERHEAD_BYTES = 64  # what a message weighs besides its headers and payload


@dataclass
class SegmentsPartition(InputPartition):
    """Consecutive segments that one task reads, and what it takes of them."""

    segments: tuple[SegmentPart, ...]
    query: Query

    def __init__(self, segments: Iterable[SegmentPart], query: Query) -> None:
        super().__init__(None)
        self.segments = tuple(segments)
        self.query = query


def joined(parts: Iterable[SegmentPart], query: Query, most: int | None = None) -> Iterator[SegmentsPartition]:
    """One partition per segment, but small neighbours together, and large ones in pieces; `most` messages in each."""
    gathered: list[SegmentPart] = []
    weight = messages = 0
    for part in parts:
        if _per_piece(part, query, most) is not None:
            if gathered:
                yield SegmentsPartition(gathered, query)
            gathered, weight, messages = [], 0, 0
            yield from (SegmentsPartition([part], piece) for piece in _pieces(part, query, most))
            continue
        more = _weight(part)
        if gathered and (weight + more > PARTITION_BYTES or (most is not None and messages + part.messages > most)):
            yield SegmentsPartition(gathered, query)
            gathered, weight, messages = [], 0, 0
        gathered.append(part)
        weight += more
        messages += part.messages
    if gathered:
        yield SegmentsPartition(gathered, query)


def _weight(part: SegmentPart) -> int:
    return part.size + part.messages * MESSAGE_OVERHEAD_BYTES


def _per_piece(part: SegmentPart, query: Query, most: int | None) -> int | None:
    """How many of its messages a task gets at most; None: all of them."""
    pieces = -(-_weight(part) // PIECE_BYTES)
    even = -(-part.messages // pieces) if pieces > 1 else None
    if most is not None and (part.messages > most or query.include_deleted):
        return most if even is None else min(most, even)
    return even


def _pieces(part: SegmentPart, query: Query, most: int | None) -> Iterator[Query]:
    """The query, cut where the messages of a piece end."""
    segment = part_columns(part, query)
    size = _per_piece(part, query, most) or segment.row_count
    if not segment.row_count:
        return
    starts = [segment.seq_of(row) for row in range(0, segment.row_count, size)]
    for start, following in zip(starts, [*starts[1:], query.end_seq + 1], strict=True):
        yield replace(query, start_seq=start, end_seq=following - 1)
