"""A stream that is opened again and again while its newest segment grows: what is kept between changes nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jetbroker.store.format.records import MESSAGE, RECORD_HEADER_BYTES, encode_record
from jetbroker.store.offline import reader
from jetbroker.store.offline.columns import SegmentColumns
from jetbroker.store.offline.reader import NewestSegment, StreamSnapshot, open_stream
from tests.support.stores import StreamWriter

pytest.importorskip("pyarrow")

BATCH, FIRST, LAST = 8, 16, 32
NAME = "ORDERS"

Found = tuple[list[tuple[Any, ...]], list[int], int]


def found(snapshot: StreamSnapshot, from_seq: int) -> Found:
    """Rows and damaged sequences from one on, and the last sequence."""
    table = snapshot.to_arrow(["seq", "time", "subject", "data"], start_seq=from_seq)
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    damaged = {seq for low, high in snapshot.damaged for seq in range(max(low, from_seq), high + 1)}
    return rows, sorted(damaged), snapshot.last_seq


def agree(store: Path, newest: NewestSegment, from_seq: int, skipped: Set[int] = frozenset()) -> Found:
    """Both ways of opening find the same; returns it.

    Where a record has changed, `skipped` sequences beside it look damaged to one that had not seen it as it was.
    """
    anew = found(open_stream(store, NAME), from_seq)
    rows, damaged, last_seq = found(open_stream(store, NAME, from_seq=from_seq, newest=newest), from_seq)
    assert (rows, last_seq) == (anew[0], anew[2])
    assert set(damaged) <= set(anew[1]) <= {*damaged, *skipped}
    return anew


class Log:
    """One segment as it is in the end, and where messages stand in it."""

    def __init__(self, store: Path, clock_goes_back: bool) -> None:
        self.writer = StreamWriter(store, NAME)
        self.back = 20_000 if clock_goes_back else 0
        self.plain: list[tuple[int, int]] = []  # of messages outside of batches: their first byte and their end
        self.skipped: set[int] = set()
        self.play("message", 1)

    def play(self, action: str, number: int) -> None:
        writer = self.writer
        if action == "message":
            start = writer.position
            stamp = writer.time_ns + number * 1000 - self.back
            writer.append(b"orders.%d" % (number % 3), b"x" * number, time_ns=stamp)
            self.plain.append((start, writer.position))
        elif action == "batch":
            for left in range(number % 4, -1, -1):
                self.message(BATCH | (FIRST if left == number % 4 else 0) | (LAST if left == 0 else 0), left)
        elif action == "half a batch":
            self.message(BATCH | FIRST, number)
        elif action == "delete":
            low = max(1, writer.last_seq - number)
            writer.delete([(low, min(writer.last_seq, low + number // 4))])
        else:
            count = 1 + number % 5
            self.skipped.update(range(writer.last_seq + 1, writer.last_seq + 1 + count))
            writer.skip(count)

    def message(self, flags: int, number: int) -> None:
        writer = self.writer
        writer.last_seq += 1
        stamp = writer.time_ns + number
        writer._write(
            encode_record(MESSAGE, writer.stream_id, writer.last_seq, stamp, b"b", b"", b"%d" % number, flags)
        )


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield tmp_path_factory.mktemp("again")


actions = st.tuples(
    st.sampled_from(["message", "message", "message", "batch", "half a batch", "delete", "skip"]), st.integers(0, 40)
)
steps = st.tuples(
    st.floats(0, 1),  # how much of the file is there by then
    st.integers(1, 60),  # the sequence from which on it is opened
    st.none() | st.tuples(st.sampled_from(["erase", "flip"]), st.integers(0, 50)),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(
    plan=[("message", 0), ("message", 0), ("skip", 0), ("message", 0), ("message", 0), ("message", 0)],
    then=[(1.0, 1, None), (1.0, 4, ("erase", 44))],
)
@given(plan=st.lists(actions, max_size=40), then=st.lists(steps, min_size=2, max_size=8))
def test_a_growing_segment_reads_as_if_it_were_opened_anew(
    scratch: Path, plan: list[tuple[str, int]], then: list[tuple[float, int, tuple[str, int] | None]]
) -> None:
    shutil.rmtree(scratch, ignore_errors=True)
    # the times of messages whose clock went back depend on what came before, and that is gone when it is overwritten
    log = Log(scratch, clock_goes_back=all(change is None for _, _, change in then))
    for action in plan:
        log.play(*action)
    log.writer.close()
    whole = bytearray(log.writer.path.read_bytes())
    newest, there = NewestSegment(), 0
    skipped: Set[int] = frozenset()  # those that may look damaged
    with log.writer.path.open("r+b") as file:
        file.truncate(0)
        for share, (_, from_seq, change) in zip(sorted(step[0] for step in then), then, strict=True):
            if change is not None:
                skipped = log.skipped
                kind, number = change
                start, end = log.plain[number % len(log.plain)]
                body = slice(start + RECORD_HEADER_BYTES, end if kind == "erase" else start + RECORD_HEADER_BYTES + 1)
                if end <= there:
                    whole[body] = bytes(byte ^ 1 for byte in whole[body]) if kind == "flip" else bytes(end - body.start)
                    os.pwrite(file.fileno(), whole[start:end], start)
            size = max(there, int(share * len(whole)))
            os.pwrite(file.fileno(), whole[there:size], there)
            there = size
            agree(scratch, newest, from_seq, skipped)
        os.pwrite(file.fileno(), whole[there:], there)
        agree(scratch, newest, 1, skipped)


def filled(store: Path, messages: int) -> StreamWriter:
    writer = StreamWriter(store, NAME)
    for number in range(messages):
        writer.append(b"orders", b"%d" % number)
    writer.flush()
    return writer


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The marks of all segments that are walked; None: from the first record on."""
    made = []

    def noted(*what: Any) -> SegmentColumns:
        made.append(what[5] if len(what) > 5 else None)
        return SegmentColumns(*what)

    monkeypatch.setattr(reader, "SegmentColumns", noted)
    return made


def test_what_was_walked_is_not_walked_again(tmp_path: Path, walks: list[Any]) -> None:
    writer, newest = filled(tmp_path, 100), NewestSegment()
    open_stream(tmp_path, NAME, newest=newest)
    assert walks == [None]
    for last in range(101, 104):
        writer.append(b"orders", b"later")
        writer.flush()
        snapshot = open_stream(tmp_path, NAME, from_seq=last, newest=newest)
        assert snapshot.to_arrow(["seq"], start_seq=last).column("seq").to_pylist() == [last]
        mark = walks.pop()
        assert walks == [None]
        assert mark[0] == last
    snapshot.to_arrow(["seq"], start_seq=99)
    assert walks == [None, None]


def test_a_mark_whose_record_is_gone_is_not_followed(tmp_path: Path) -> None:
    writer, newest = filled(tmp_path, 50), NewestSegment()
    snapshot = open_stream(tmp_path, NAME, from_seq=40, newest=newest)
    (part,) = snapshot.parts
    assert part.mark is not None
    content = bytearray(writer.path.read_bytes())
    content[part.mark[1] + RECORD_HEADER_BYTES] ^= 1
    writer.path.write_bytes(content)
    assert snapshot.to_arrow(["seq"], start_seq=40).column("seq").to_pylist() == list(range(41, 51))


@pytest.mark.parametrize("from_seq", [1, 15, 31])
def test_a_segment_that_is_sealed_or_replaced_meanwhile_is_opened_anew(tmp_path: Path, from_seq: int) -> None:
    writer, newest = filled(tmp_path, 20), NewestSegment()
    agree(tmp_path, newest, from_seq)
    writer.append(b"orders", b"the last one")
    path = writer.seal()
    assert agree(tmp_path, newest, from_seq)[2] == 21
    for _ in range(10):
        writer.append(b"orders", b"next")
    writer.flush()
    assert agree(tmp_path, newest, from_seq)[2] == 31
    shutil.rmtree(path.parent)
    other = filled(tmp_path, 25)
    assert agree(tmp_path, newest, from_seq)[2] == 25
    other.close()
    os.truncate(other.path, other.position - 1)
    assert agree(tmp_path, newest, from_seq)[2] == 24
