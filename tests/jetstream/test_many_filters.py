"""A filter of very many patterns matches what its patterns match, one by one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from jetbroker.store.log.memlog import MemoryLog
from jetbroker.store.log.stream_log import subject_filter
from jetbroker.tick import Tick
from jetbroker.wire.subjects import matches

TOKENS = st.lists(st.sampled_from(["a", "b", "c", "*", "a*"]), min_size=1, max_size=4)
PATTERNS = TOKENS.flatmap(lambda tokens: st.sampled_from([".".join(tokens), ".".join([*tokens, ">"])]))
SUBJECTS = st.lists(st.sampled_from(["a", "b", "c", "a*", ""]), min_size=1, max_size=5).map(".".join)
OTHERS = [b"x.y", b"x.*.z", b"y.>", b"z", b"z.z.z", b"x.x.x", b"*.q", b"q.*", b"r"]  # make them many


def log_of(subjects: list[bytes]) -> Any:
    log = MemoryLog(Tick(cast(Any, SimpleNamespace(call_soon=lambda *args: None))))
    for subject in subjects:
        log.append_message(subject, b"")
    return log


@given(st.lists(PATTERNS, max_size=12), st.lists(SUBJECTS.filter(bool), min_size=1, max_size=12))
def test_many_patterns_match_what_each_of_them_matches(patterns: list[str], subjects: list[str]) -> None:
    given_patterns = OTHERS + [pattern.encode() for pattern in patterns]
    texts = [subject.encode() for subject in subjects]
    log = log_of(texts)
    wanted = subject_filter(given_patterns)
    found = []
    seq = 1
    while (message := log.read_next(wanted, seq))[1]:
        found.append(message[1])
        seq = message[1] + 1
    assert found == [
        number for number, text in enumerate(texts, 1) if any(matches(text, pattern) for pattern in given_patterns)
    ]


def test_a_pattern_for_everything_among_many_matches_everything() -> None:
    assert log_of([b"anything.at.all"]).read_next(subject_filter([*OTHERS, b">"]), 1)[1] == 1
