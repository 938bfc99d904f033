"""The first and last message of a subject, in segments where its messages stand far apart, against a dict."""

from __future__ import annotations

import asyncio
import errno
import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jetbroker.store.log.segmented import SegmentedLog
from tests.store.support import ACCOUNT, FaultyDisk, open_store, run, works

RARE = [b"rare.1", b"rare.2", b"rare.3"]
APART = 400  # further than a search goes without an index
SEGMENT_BYTES = 120_000  # more than a thousand messages


class Subjects:
    """A log beside the sequences of each subject, in order."""

    def __init__(self, log: SegmentedLog) -> None:
        self.log = log
        self.live: dict[int, bytes] = {}
        self.seqs: dict[bytes, dict[int, None]] = defaultdict(dict)

    def scatter(self) -> None:
        """A few messages of each rare subject, far from each other."""
        for _ in range(6):
            for rare in RARE:
                self.append(rare)
                self.fill(APART)
        self.check()

    def append(self, subject: bytes) -> None:
        seq = self.log.append_message(subject, b"")
        self.live[seq] = subject
        self.seqs[subject][seq] = None

    def fill(self, count: int) -> None:
        for number in range(count):
            self.append(b"other.%d" % (number % 300))

    def remove(self, seq: int) -> None:
        assert self.log.remove(seq) == (seq in self.live)
        self.forget(seq)

    def forget(self, seq: int) -> None:
        if seq in self.live:
            del self.seqs[self.live.pop(seq)][seq]

    def of(self, subject: bytes) -> list[int]:
        return list(self.seqs[subject])

    def step(self, kind: str, subject: int, number: int) -> None:
        mine = self.of(RARE[subject])
        if kind == "append":
            self.append(RARE[subject])
        elif kind == "fill":
            self.fill(number)
        elif kind == "any" and self.live:
            self.remove(next(iter(self.live)) + number)
        elif kind == "first" and mine:
            self.remove(mine[0])
        elif kind == "last" and mine:
            self.remove(mine[-1])
        elif kind == "middle" and mine:
            self.remove(mine[len(mine) // 2])
        elif kind == "before" and self.live:
            first = next(iter(self.live))
            self.log.remove_before(first + number)
            for seq in range(first, first + number):
                self.forget(seq)

    def check(self) -> None:
        for subject in (*RARE, b"other.1"):
            mine = self.of(subject)
            state = self.log.state_of(subject)
            assert (state.count, self.log.first_of(state)) == (len(mine), mine[0] if mine else 0), subject
            assert not mine or state.last == mine[-1], subject


STEPS = st.tuples(
    st.sampled_from(["append", "append", "fill", "any", "first", "first", "last", "middle", "before"]),
    st.integers(0, len(RARE) - 1),
    st.integers(1, 2 * APART),
)

# long searches enough
INDEXED = [("first", 0, 1)] * 4 + [("first", 1, 1)] * 4 + [("append", 2, 1), ("fill", 0, APART)] + [("first", 2, 1)] * 3


@pytest.mark.parametrize("storage", ["file", "memory"])
@given(steps=st.lists(STEPS, max_size=40))
@example(steps=[*INDEXED, ("middle", 2, 1), ("last", 2, 1), ("append", 0, 1), ("fill", 0, APART), ("first", 0, 1)])
@example(steps=[("before", 0, 900), ("fill", 0, 700), ("append", 0, 1), ("before", 0, 500), ("last", 0, 1)])
def test_a_subjects_first_and_last_message_are_known_after_any_removals(
    storage: str, steps: list[tuple[str, int, int]]
) -> None:
    async def scenario() -> None:
        with tempfile.TemporaryDirectory() as path:
            store = open_store(path, segment_bytes=SEGMENT_BYTES)
            subjects = Subjects(await store.create_stream(ACCOUNT, "S", {}, storage, 1))
            subjects.scatter()
            for step in steps:
                subjects.step(*step)
                subjects.check()
            await store.close()

    run(scenario())


def test_messages_that_could_not_be_stored_are_not_found_where_others_came_later(tmp_path: Path) -> None:
    async def scenario() -> None:
        full = False

        def rule(call: str, path: str, size: int) -> None:
            if full and call in ("write", "allocate"):
                raise OSError(errno.ENOSPC, "No space left on device")

        store = open_store(str(tmp_path), disk=FaultyDisk(rule))
        subjects = Subjects(await store.create_stream(ACCOUNT, "S", {}, "file", 1))
        subjects.scatter()
        await subjects.log.commit()
        last = subjects.log.last_seq
        full = True
        for rare in RARE:
            subjects.fill(APART)
            subjects.append(rare)
        for rare in RARE:
            for seq in subjects.of(rare)[:4]:
                subjects.remove(seq)
                subjects.check()
        while subjects.log.failed is None:
            await asyncio.sleep(0.001)
        full = False
        for seq in range(last + 1, max(subjects.live) + 1):
            subjects.forget(seq)
        subjects.check()
        await works(subjects.log)
        subjects.fill(APART // 2)
        for rare in (*RARE[::-1], *RARE):
            subjects.append(rare)
            subjects.fill(APART)
            subjects.check()
        for rare in RARE:
            for seq in subjects.of(rare):
                subjects.remove(seq)
                subjects.check()
        await store.close()

    run(scenario())
