"""What clients send costs time that grows with its size, not with a power of it.

Costs are CPU time of this thread, so that a busy machine changes little: sixteen times the input may cost sixty-four
times as much. A quadratic algorithm takes 256 times as much.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from jetbroker.connections.json_faults import syntax_fault
from jetbroker.jetstream import gojson
from jetbroker.jetstream.config import ConsumerConfig, StreamConfig, StreamSource, SubjectTransform
from jetbroker.jetstream.consumer_config import check_consumer_config
from jetbroker.jetstream.contracts import AccountLimits
from jetbroker.jetstream.decode import DecodeError, decode
from jetbroker.jetstream.pull_request import PullLimits, PullRequestError, parse_pull_request
from jetbroker.jetstream.stream_config import check_stream_config
from jetbroker.jetstream.subject_index import SubjectIndex
from jetbroker.routing.placeholders import TransformError, check_mapping
from jetbroker.routing.transform import Transform
from jetbroker.store.log import subject_filter
from jetbroker.store.memlog import MemoryLog
from jetbroker.tick import Tick
from jetbroker.turns import at_once
from jetbroker.wire.headers import header_value

SMALL, FACTOR, ALLOWED = 3000, 16, 64


def read_json(body: bytes) -> None:
    try:
        list(gojson.values(body))
    except gojson.JsonError:
        pass


def decode_stream(body: bytes) -> None:
    try:
        decode(StreamConfig, "StreamConfig", body)
    except DecodeError:
        pass


def check_transform(destination: bytes) -> None:
    try:
        check_mapping(b"a.*", destination)
    except TransformError:
        pass


def use_transform(subject: bytes) -> None:
    Transform(b"*", b"{{split(1,-)}}").transform(subject)


def compare_subjects(pattern: str, others: str) -> Callable[[bytes], None]:
    """A stream's subjects with each other, and with those of another stream."""

    def work(text: bytes) -> None:
        count = len(text) // 16
        config = StreamConfig(name="S", subjects=[pattern.format(number) for number in range(count)])
        known = SubjectIndex()
        at_once(known.add("T", [others.format(number) for number in range(count)]))
        assert not at_once(known.overlaps(at_once(check_stream_config(config, AccountLimits())).subjects))

    return work


def compare_filters(text: bytes) -> None:
    filters = [f"s.*.{number}" for number in range(len(text) // 16)]
    at_once(check_consumer_config(ConsumerConfig(filter_subjects=filters), StreamConfig(name="S"), AccountLimits()))


def compare_transforms(text: bytes) -> None:
    transforms = [SubjectTransform(src=f"s.{number}.>", dest="d.>") for number in range(len(text) // 16)]
    source = StreamSource(name="O", subject_transforms=transforms)
    at_once(check_stream_config(StreamConfig(name="S", sources=[source]), AccountLimits()))


def filter_messages(text: bytes) -> None:
    """As many messages as filters."""
    log = MemoryLog(Tick(SimpleNamespace(call_soon=lambda *args: None)))
    patterns = range(len(text) // 16)
    for number in patterns:
        log.append_message(b"s.%d.x" % number, b"")
    assert log.read_next(subject_filter(b"s.*.%d" % number for number in patterns), 1)[1] == 0


def pull_request(text: bytes) -> None:
    try:
        parse_pull_request(text, PullLimits())
    except PullRequestError:
        pass


def find_header(text: bytes) -> None:
    header_value(text, b"Nats-Msg-Id")


def filled(head: bytes, piece: bytes, tail: bytes) -> Callable[[int], bytes]:
    return lambda size: head + piece * (size // len(piece)) + tail


CASES = {
    "numbers": (read_json, filled(b"[", b"1,", b"1]")),
    "fractions": (read_json, filled(b"[", b"1e1,", b"1]")),
    "digits": (read_json, filled(b"", b"9", b"")),
    "escapes": (read_json, filled(b'"', b"\\u00e9", b'"')),
    "half pairs": (read_json, filled(b'"', b"\\ud83d", b'"')),
    "depth": (read_json, filled(b"", b"[", b"")),
    "blanks": (read_json, filled(b"[", b" ", b"x")),
    "one key": (read_json, filled(b"{", b'"":1,', b'"":1}')),
    "wrong element": (decode_stream, filled(b'{"subjects":[', b'"",', b"1]}")),
    "unknown keys": (decode_stream, filled(b'{"metadata":{', b'"":"",', b'"":1}}')),
    "CONNECT of numbers": (lambda text: bool(syntax_fault(text)), filled(b"[", b"1,", b"x]")),
    "CONNECT of escapes": (lambda text: bool(syntax_fault(text)), filled(b'{"a":"', b"\\n", b"")),
    "functions that do not end": (check_transform, filled(b"", b"{{wildcard(", b"}}")),
    "functions that do not begin": (check_transform, filled(b"{{", b")}}", b"")),
    "blanks in a function": (check_transform, filled(b"{{", b" ", b"}}")),
    "blanks behind parentheses": (check_transform, filled(b"{{wildcard(", b") ", b"}}")),
    "arguments": (check_transform, filled(b"{{partition(1", b",1", b")}}")),
    "digits of an argument": (check_transform, filled(b"{{wildcard(", b"0", b"1)}}")),
    "many functions": (check_transform, filled(b"", b"{{wildcard(1)}}.", b"x")),
    "literal subjects of streams": (compare_subjects("s.{}", "t.{}"), filled(b"", b"x", b"")),
    "subjects of streams with wildcards": (compare_subjects("s.{}.>", "t.*.x{}"), filled(b"", b"x", b"")),
    "filters with wildcards": (compare_filters, filled(b"", b"x", b"")),
    "transforms of sources": (compare_transforms, filled(b"", b"x", b"")),
    "messages and filters": (filter_messages, filled(b"", b"x", b"")),
    "pull requests": (pull_request, filled(b'{"batch":1,"id":"', b"x", b'"} x')),
    "names of headers": (find_header, filled(b"NATS/1.0\r\n", b"A:b\r\n", b"\r\n")),
    "a header's blanks": (find_header, filled(b"NATS/1.0\r\nA:", b" ", b"\r\n\r\n")),
    "a split token": (use_transform, filled(b"", b"a-", b"a")),
}


def cost(work: Callable[[bytes], object], text: bytes) -> int:
    """The least of some tries, nanoseconds."""
    found = []
    for _ in range(5):
        begun = time.thread_time_ns()
        work(text)
        found.append(time.thread_time_ns() - begun)
    return min(found)


@pytest.mark.parametrize("name", CASES)
def test_costs_grow_with_the_size(name: str) -> None:
    work, make = CASES[name]
    small, large = cost(work, make(SMALL)), cost(work, make(SMALL * FACTOR))
    assert large <= ALLOWED * max(small, 5_000), (small, large)


def test_the_check_can_fail() -> None:
    def quadratic(text: bytes) -> None:
        for place in range(0, len(text), 16):
            text.count(b"x", place)

    make = filled(b"", b"a", b"")
    assert cost(quadratic, make(SMALL * FACTOR)) > ALLOWED * cost(quadratic, make(SMALL))
