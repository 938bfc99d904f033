"""Logs whose subjects come and go by the thousand, against a dict."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from jetbroker import limits
from jetbroker.store.log.segmented import SegmentedLog
from tests.store.support import ACCOUNT, open_store, run

SUBJECTS = 3000


def subject_of(number: int) -> bytes:
    return b"key.%d" % number


def check(log: SegmentedLog, expected: dict[bytes, int]) -> None:
    """`expected`: the last sequence of each subject that has a message."""
    assert {state.subject: state.last for state in log.matching_subjects(b"")} == expected
    assert len(log.matching_subjects(b"key.*")) == len(expected)
    for number in range(-1, SUBJECTS + 1):
        assert log.last_by_subject(subject_of(number)) == expected.get(subject_of(number), 0)


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_each_of_thousands_of_subjects_is_found_while_others_come_and_go(tmp_path: Path, storage: str) -> None:
    async def scenario() -> None:
        store = open_store(str(tmp_path))
        log = await store.create_stream(ACCOUNT, "S", {}, storage, 1)
        expected: dict[bytes, int] = {}
        choice = random.Random(1)
        for share in (1.0, 0.5, 0.95, 0.1, 0.7):
            for number in choice.sample(range(SUBJECTS), SUBJECTS):
                subject = subject_of(number)
                if subject not in expected:
                    expected[subject] = log.append_message(subject, b"")
                if choice.random() > share:
                    assert log.remove(expected.pop(subject))
            check(log, expected)
        assert log.purge(b"", 0, 0) == len(expected)
        check(log, {})
        check(log, {subject_of(7): log.append_message(subject_of(7), b"")})
        await store.close()

    run(scenario())


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_whoever_keeps_a_subject_sees_its_later_messages(tmp_path: Path, storage: str) -> None:
    async def scenario() -> None:
        store = open_store(str(tmp_path))
        log = await store.create_stream(ACCOUNT, "S", {}, storage, 1)
        kept = [log.state_of(subject_of(number)) for number in range(SUBJECTS)]
        for number in (*range(0, SUBJECTS, 2), *range(1, SUBJECTS, 2)):
            seq = log.append_message(subject_of(number), b"")
            assert (kept[number].count, kept[number].last) == (1, seq)
            assert log.state_of(subject_of(number)) is kept[number]
        for state in kept:
            assert log.remove(state.last)
            assert log.state_of(state.subject) is state
        await store.close()

    run(scenario())


def test_subjects_are_found_again_after_a_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = open_store(str(tmp_path))
        log = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        expected = {subject_of(number): log.append_message(subject_of(number), b"") for number in range(SUBJECTS)}
        for number in range(0, SUBJECTS, 3):
            assert log.remove(expected.pop(subject_of(number)))
        await log.commit()
        await store.close()
        store = open_store(str(tmp_path))
        (recovered,) = store.recover(ACCOUNT)
        check(recovered.log, expected)
        await store.close()

    run(scenario())


def test_a_message_is_overwritten_however_far_back_the_one_before_of_its_subject_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        between = 2 * limits.STREAM_COLUMN_FILES
        store = open_store(str(tmp_path), segment_bytes=1)
        log = await store.create_stream(ACCOUNT, "S", {}, "file", 1)
        log.append_message(b"a", b"first")
        for number in range(between):
            log.append_message(subject_of(number), b"")
        seq = log.append_message(b"a", b"last")
        log.append_message(b"b", b"")
        await log.commit()
        assert log.remove(seq, True)
        assert log.last_by_subject(b"a") == 1
        await log.commit()
        assert not [file for file in tmp_path.rglob("*.seg") if b"last" in file.read_bytes()]
        await store.close()

    run(scenario())
