"""What the store's tests share: a loop with a tick, a model of a log, a disk that fails on demand."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from jetbroker.logs.logger import Logger
from jetbroker.store.disk import ObservedDisk
from jetbroker.store.log.memlog import MemoryLog
from jetbroker.store.log.segmented import SegmentedLog
from jetbroker.store.log.stream_log import SubjectFilter
from jetbroker.store.store import Store
from jetbroker.tick import Tick

T = TypeVar("T")
_killed: list[Store] = []
ACCOUNT = "$G"


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine with a bound on its time."""

    async def bounded() -> T:
        return await asyncio.wait_for(work, 30)

    return asyncio.run(bounded())


def open_store(path: str, **options: Any) -> Store:
    return Store.open(str(path), Tick(asyncio.get_running_loop()), **options)


async def works(log: Any) -> None:
    """Wait until a log that refuses has found out that the disk takes everything again."""
    while log.failed is not None:
        await asyncio.sleep(0.01)


def kill(store: Store) -> None:
    """Leave a store as kill -9 would: no checkpoint is written any more; its logs can still be looked at."""
    store._rest_timer.cancel()
    store._checkpoints._closed = True
    store._checkpoints._cancel_timer()
    store._packer._stopping = True
    os.close(store._lock_fd)
    _killed.append(store)


def bury() -> None:
    """Close the files of stores that were killed: their logs cannot be looked at any more."""
    while _killed:
        store = _killed.pop()
        logs: list[Any] = [*store._logs.values(), *store._state_logs.values()]
        for log in logs:
            if not isinstance(log, MemoryLog):
                log.abandon()


async def packed(store: Store) -> None:
    """Wait until every segment that can be packed is."""
    while store._packer._task is not None:
        await asyncio.wait([store._packer._task])


def matches(pattern: bytes, subject: bytes) -> bool:
    """Naive subject matching."""
    wanted, tokens = pattern.split(b"."), subject.split(b".")
    for index, token in enumerate(wanted):
        if token == b">":
            return len(tokens) > index
        if index >= len(tokens) or token not in (b"*", tokens[index]):
            return False
    return len(wanted) == len(tokens)


@dataclass
class Model:
    """A log as a dict."""

    cost: int
    headers_cost: int
    live: dict[int, tuple[bytes, bytes, bytes]] = field(default_factory=dict)
    last_seq: int = 0

    def append(self, subject: bytes, headers: bytes, payload: bytes) -> None:
        self.last_seq += 1
        self.live[self.last_seq] = (subject, headers, payload)

    def matching(self, pattern: bytes) -> list[int]:
        return [seq for seq in sorted(self.live) if not pattern or matches(pattern, self.live[seq][0])]

    def purge(self, pattern: bytes, seq: int, keep: int) -> int:
        chosen = self.matching(pattern)
        if keep:
            chosen = chosen[: max(0, len(chosen) - keep)]
        if seq:
            chosen = [s for s in chosen if s < seq]
        for s in chosen:
            del self.live[s]
        return len(chosen)

    @property
    def first_seq(self) -> int:
        if self.live:
            return min(self.live)
        return self.last_seq + 1 if self.last_seq else 0

    @property
    def bytes(self) -> int:
        return sum(
            self.cost + len(s) + len(h) + len(p) + (self.headers_cost if h else 0) for s, h, p in self.live.values()
        )


def check(log: SegmentedLog, model: Model, patterns: list[bytes]) -> None:
    """Every answer of the log equals the model's."""
    assert (log.messages, log.first_seq, log.last_seq) == (len(model.live), model.first_seq, model.last_seq)
    assert log.bytes == model.bytes
    for seq in range(max(0, model.first_seq - 2), model.last_seq + 2):
        result, subject, headers, payload, _ = log.get(seq)
        if seq in model.live:
            assert (result, subject, headers, payload) == (0, *model.live[seq]), seq
        else:
            assert result == 1, seq
    if model.live:
        interior = [s for s in range(model.first_seq, model.last_seq + 1) if s not in model.live]
        assert log.deleted() == interior
        assert log.deleted_count() == len(interior)
    subjects = {m[0] for m in model.live.values()}
    assert {s.subject for s in log.matching_subjects(b"")} == subjects
    for subject in subjects:
        mine = model.matching(subject)
        state = log.state_of(subject)
        assert (state.count, state.last, log.first_of(state)) == (len(mine), mine[-1], mine[0]), subject
    for pattern in patterns:
        wanted = model.matching(pattern)
        filter = SubjectFilter(pattern)
        assert walk(log, filter) == wanted
        middle = model.first_seq + (model.last_seq - model.first_seq) // 2
        assert log.count_from(filter, middle) == len([s for s in wanted if s >= middle])
        assert log.count_from(filter, 0) == len(wanted)
        assert log.last_by_subject(pattern) == (wanted[-1] if wanted else 0)
    assert log.lost() == []


def walk(log: SegmentedLog, filter: SubjectFilter | None = None, start: int = 1) -> list[int]:
    """The sequences `next_message` returns, in order."""
    out: list[int] = []
    while True:
        result, seq, *_ = log.read_next(filter, start)
        if result == 1:
            return out
        out.append(seq)
        start = seq + 1


class Told(Logger):
    """A log that keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[str] = []
        self.infos: list[str] = []

    def error(self, text: str) -> None:
        self.errors.append(text)

    def info(self, text: str) -> None:
        self.infos.append(text)


class FaultyDisk(ObservedDisk):
    """Counts calls, and hands each to `rule`, which may raise OSError or return a shorter length."""

    def __init__(self, rule: Callable[[str, str, int], int | None] | None = None) -> None:
        self.rule = rule
        self.calls: list[tuple[str, str]] = []

    def before(self, call: str, path: str, size: int, offset: int) -> int | None:
        self.calls.append((call, os.path.basename(path)))
        return self.rule(call, path, size) if self.rule is not None else None
