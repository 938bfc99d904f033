"""File and memory logs against a dict, with reopening in between."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from typing import Any, ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from jetbroker.store.log.slices import beyond_newest, next_piece, remove_matching, walk_back
from jetbroker.store.log.stream_log import SubjectFilter
from jetbroker.store.store import Store
from tests.store.support import ACCOUNT, Model, check, open_store

PATTERNS = [b"", b">", b"a.*", b"a.1", b"*.2", b"b.>", b"none"]
SUBJECTS = st.sampled_from([b"a.1", b"a.2", b"a.3", b"b.1", b"b.2", b"b.x.y", b"c"])


class LogMachine(RuleBasedStateMachine):
    storage = "file"
    config: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.path = tempfile.mkdtemp()
        self.store: Store = self.wait(self.open())
        self.log = self.wait(self.store.create_stream(ACCOUNT, "S", self.config, self.storage, 1))
        self.model = Model(30, 4) if self.storage == "file" else Model(16, 0)

    async def open(self) -> Store:
        return open_store(self.path, segment_bytes=700)

    def wait(self, work: Any) -> Any:
        return self.loop.run_until_complete(asyncio.wait_for(work, 10))

    def teardown(self) -> None:
        self.wait(self.store.close())
        self.loop.close()
        shutil.rmtree(self.path)

    @rule(subject=SUBJECTS, headers=st.sampled_from([b"", b"NATS/1.0\r\nA:b\r\n\r\n"]), n=st.integers(0, 80))
    def append(self, subject: bytes, headers: bytes, n: int) -> None:
        payload = bytes(i & 255 for i in range(n))
        assert self.log.append_message(subject, payload, headers, 5) == self.model.last_seq + 1
        self.model.append(subject, headers, payload)

    @rule(subject=SUBJECTS, n=st.integers(1, 30))
    def append_many(self, subject: bytes, n: int) -> None:
        for i in range(n):
            self.append(subject, b"", i)

    @rule(position=st.integers(0, 400), erase=st.booleans())
    def remove(self, position: int, erase: bool) -> None:
        assert self.log.remove(position, erase) == (position in self.model.live)
        self.model.live.pop(position, None)

    @rule(back=st.integers(0, 6), erase=st.booleans())
    def remove_one_of_the_last(self, back: int, erase: bool) -> None:
        self.remove(max(self.model.last_seq - back, 0), erase)

    @rule(n=st.integers(1, 10))
    def evict(self, n: int) -> None:
        for _ in range(n):
            self.log.evict()
            if self.model.live:
                del self.model.live[self.model.first_seq]

    @rule(seq=st.integers(0, 300))
    def remove_before(self, seq: int) -> None:
        expected = [s for s in self.model.live if s < seq]
        assert self.log.remove_before(seq) == len(expected)
        for s in expected:
            del self.model.live[s]

    @rule(pattern=st.sampled_from([b"", b"a.*", b"a.1", b"b.>"]), seq=st.integers(0, 200), keep=st.integers(0, 4))
    def purge(self, pattern: bytes, seq: int, keep: int) -> None:
        if keep:
            seq = 0
        assert self.log.purge(pattern, seq, keep) == self.model.purge(pattern, seq, keep)

    @rule(pattern=st.sampled_from([b"", b"a.*", b"a.1", b"b.>"]), slots=st.integers(1, 9), subject=SUBJECTS)
    def purge_in_pieces(self, pattern: bytes, slots: int, subject: bytes) -> None:
        """What is published, evicted or deleted between two pieces is not in the way, and new messages stay."""
        limit, start = self.model.last_seq, 0
        wanted = SubjectFilter(pattern)
        before = {seq for seq in self.model.matching(pattern) if seq <= limit}
        while piece := next_piece(self.log, start, limit, slots):
            first, last = piece
            assert start <= first <= last <= limit and last - first < slots
            chosen = [seq for seq in self.model.matching(pattern) if first <= seq <= last]
            assert remove_matching(self.log, wanted, first, last) == len(chosen)
            for seq in chosen:
                del self.model.live[seq]
            start = last + 1
            self.append(subject, b"", slots)
            self.remove(last + slots, False)
            if slots == 1:
                self.evict(1)
        assert not before.intersection(self.model.live)

    @rule(keep=st.integers(1, 3), slots=st.integers(1, 9))
    def trim_in_pieces(self, keep: int, slots: int) -> None:
        start = 0
        while piece := next_piece(self.log, start, self.log.last_seq, slots):
            for seq in beyond_newest(self.log, keep, *piece):
                self.remove(seq, False)
            start = piece[1] + 1
        by_subject = Counter(subject for subject, *_ in self.model.live.values())
        assert all(count <= keep for count in by_subject.values())

    @rule(pattern=st.sampled_from([b"", b"a.*", b"a.1"]), keep=st.integers(1, 5), slots=st.integers(1, 9))
    def find_the_newest(self, pattern: bytes, keep: int, slots: int) -> None:
        matching = self.model.matching(pattern)
        below, left = self.model.last_seq + 1, keep
        while below and left:
            found, below = walk_back(self.log, SubjectFilter(pattern), below, left, slots)
            left -= found
        assert keep - left == min(keep, len(matching))
        if left == 0:
            assert below == matching[-keep]

    @rule(jump=st.sampled_from([1, 2, 7, 70_000]))
    def skip(self, jump: int) -> None:
        if self.model.last_seq > 100_000:
            return
        self.log.skip_to(self.model.last_seq + 1 + jump)
        self.model.last_seq += jump

    @rule()
    def commit(self) -> None:
        self.wait(self.log.commit())
        assert self.log.committed == self.log.last_seq

    @rule()
    def reopen(self) -> None:
        if self.storage == "memory":
            return
        self.wait(self.store.close())
        self.store = self.wait(self.open())
        (recovered,) = self.store.recover(ACCOUNT)
        assert recovered.damage == []
        self.log = recovered.log

    @invariant()
    def same_as_model(self) -> None:
        if self.model.last_seq < 2000:
            check(self.log, self.model, PATTERNS)
        else:
            assert self.log.messages == len(self.model.live)
            assert (self.log.first_seq, self.log.last_seq) == (self.model.first_seq, self.model.last_seq)
            assert self.log.bytes == self.model.bytes


class MemoryLogMachine(LogMachine):
    storage = "memory"


BOUNDS = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
TestFileLog = LogMachine.TestCase
TestFileLog.settings = BOUNDS
TestMemoryLog = MemoryLogMachine.TestCase
TestMemoryLog.settings = BOUNDS
