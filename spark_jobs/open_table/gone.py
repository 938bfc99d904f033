"""Which sequences a stream no longer holds."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa

from jetbroker.store.offline.arrow import within
from jetbroker.store.offline.columns import clip_ranges, merge_ranges, ranges_cover
from jetbroker.store.offline.reader import StreamSnapshot, packed_ranges, unpacked_ranges, without


class Gone:
    """Sequences that were deleted, purged, expired or evicted up to a snapshot, as merged ranges.

    What cannot be read because of damage is not gone: a table that has it keeps it.
    """

    def __init__(self, snapshot: StreamSnapshot) -> None:
        parts = sorted([*snapshot.parts, *snapshot.dead_parts], key=lambda part: part.first_seq)
        ends = [(0, 0), *((part.first_seq, part.last_seq) for part in parts)]
        holes = [(before[1] + 1, after[0] - 1) for before, after in pairwise(ends) if before[1] + 1 < after[0]]
        ranges = merge_ranges(packed_ranges(holes) + b"".join(part.deleted for part in parts))
        if snapshot.damaged:
            damage = merge_ranges(packed_ranges(snapshot.damaged))
            ranges = packed_ranges([left for pair in unpacked_ranges(ranges) for left in without(*pair, damage)])
        self._ranges = ranges

    def touches(self, first_seq: int, last_seq: int) -> bool:
        """Is anything gone between these two?"""
        return bool(clip_ranges(self._ranges, first_seq, last_seq))

    def all_of(self, first_seq: int, last_seq: int) -> bool:
        """Is everything gone between these two?"""
        return ranges_cover(self._ranges, first_seq, last_seq)

    def among(self, seqs: pa.Array) -> pa.BooleanArray:
        """For each of these ascending sequences: is it gone?"""
        return within(self._ranges, seqs)
