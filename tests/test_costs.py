"""What clients send costs time that grows with its size, not with a power of it.

Costs are CPU time of this thread, so that a busy machine changes little: sixteen times the input may cost sixty-four
times as much. A quadratic algorithm takes 256 times as much.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jetbroker.auth import scopes
from jetbroker.auth.permissions import Permissions
from jetbroker.config.nkeys import is_public_key
from jetbroker.config.options import PermissionsOptions, SubjectPermissions
from jetbroker.config.tokens.claims import read_user
from jetbroker.config.tokens.fields import TokenError
from jetbroker.connections.handshake import decode_connect, read_info
from jetbroker.connections.trace import redacted
from jetbroker.errors import ProtocolError
from jetbroker.forms import gojson
from jetbroker.forms.gojson_reader import syntax_fault
from jetbroker.jetstream.consumers.pull_request import PullLimits, PullRequestError, parse_pull_request
from jetbroker.jetstream.models.config import ConsumerConfig, StreamConfig, StreamSource, SubjectTransform
from jetbroker.jetstream.models.consumer_config import check_consumer_config
from jetbroker.jetstream.models.contracts import AccountLimits
from jetbroker.jetstream.models.decode import DecodeError, decode
from jetbroker.jetstream.models.stream_config import check_stream_config
from jetbroker.jetstream.models.subject_index import SubjectIndex
from jetbroker.jetstream.publish.schedule_headers import generated_block, read_pattern
from jetbroker.routing.placeholders import TransformError, check_mapping
from jetbroker.routing.transform import Transform
from jetbroker.store.log.memlog import MemoryLog
from jetbroker.store.log.stream_log import subject_filter
from jetbroker.tick import Tick
from jetbroker.turns import at_once
from jetbroker.wire.headers import header_value
from tests.support.jwts import Key, encoded

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
    log = MemoryLog(Tick(cast(Any, SimpleNamespace(call_soon=lambda *args: None))))
    patterns = range(len(text) // 16)
    for number in patterns:
        log.append_message(b"s.%d.x" % number, b"")
    assert log.read_next(subject_filter(b"s.*.%d" % number for number in patterns), 1)[1] == 0


def trim_subjects(text: bytes) -> None:
    """As many subjects with three messages each, and the oldest of each goes."""
    log = MemoryLog(Tick(cast(Any, SimpleNamespace(call_soon=lambda *args: None))), 1 << 30)
    names = [b"s.%d" % number for number in range(len(text) // 2)]
    for name in names * 3:
        log.append_message(name, b"")
    for name in names:
        state = log.state_of(name)
        assert log.remove(log.first_of(state))
        assert log.first_of(state) == log.first_seq + len(names) - 1


def pull_request(text: bytes) -> None:
    try:
        parse_pull_request(text, PullLimits())
    except PullRequestError:
        pass


def find_header(text: bytes) -> None:
    header_value(text, b"Nats-Msg-Id")


def read_schedule(text: bytes) -> None:
    read_pattern(b"NATS/1.0\r\nNats-Schedule:%b\r\n\r\n" % text)


def connect(text: bytes) -> None:
    for read in (decode_connect, read_info):
        try:
            read(text)
        except ProtocolError:
            pass


def judge_subjects(pattern: str, subject: str) -> Callable[[bytes], None]:
    """One subject, published and subscribed, by very many rules."""

    def work(text: bytes) -> None:
        entries = [pattern.format(number) for number in range(len(text) // 16)]
        rules = SubjectPermissions(entries, [*entries, f"{subject} queue"])
        permissions = Permissions(PermissionsOptions(publish=rules, subscribe=rules))
        for name in (subject, f"{subject}.more"):
            permissions.publishable(name.encode())
            permissions.subscribable(name.encode(), b"queue")
            permissions.withheld(name.encode(), b"queue")

    return work


def judge_one_name(text: bytes) -> None:
    permissions = Permissions(PermissionsOptions(publish=SubjectPermissions(["*.b.>", ">.b", "a.>"], ["a.*.c"])))
    permissions.publishable(text)
    permissions.subscribable(text)


def read_token(text: bytes) -> None:
    for token in (text.decode(), encoded(text) + "." + encoded(text) + "." + encoded(text)):
        try:
            read_user(token)
        except TokenError:
            pass


KEY = Key(0)


def read_claims(piece: bytes) -> Callable[[bytes], None]:
    """A token with a good signature and very many entries."""

    def work(text: bytes) -> None:
        entries = [f"{piece.decode()}.{number}" for number in range(len(text) // 16)]
        block = {"type": "user", "version": 2, "tags": entries, "pub": {"allow": entries, "deny": entries}}
        try:
            read_user(KEY.token({"sub": KEY.public, "nats": block}))
        except TokenError:
            pass

    return work


def fill_in(text: bytes) -> None:
    """A scope's template."""
    user: Any = SimpleNamespace(name="u", subject="U", issuer_account="A", tags=["a:1", "a:2"])
    try:
        scopes._expanded(text.decode(), user, user, required=True)
    except scopes.TemplateError:
        pass


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
    "subjects of which the oldest message goes": (trim_subjects, filled(b"", b"x", b"")),
    "pull requests": (pull_request, filled(b'{"batch":1,"id":"', b"x", b'"} x')),
    "names of headers": (find_header, filled(b"NATS/1.0\r\n", b"A:b\r\n", b"\r\n")),
    "a header's blanks": (find_header, filled(b"NATS/1.0\r\nA:", b" ", b"\r\n\r\n")),
    "a split token": (use_transform, filled(b"", b"a-", b"a")),
    "headers that a schedule leaves": (
        lambda text: generated_block(text, text, b"s", ""),
        filled(b"NATS/1.0\r\n", b"Nats-TTL:1\r\nA:b\r\n", b"\r\n"),
    ),
    "a schedule's lists": (read_schedule, filled(b"1", b",1", b" * * * * *")),
    "a schedule's names": (read_schedule, filled(b"* * * * jan", b",dec-jan/2", b" *")),
    "a schedule's digits": (read_schedule, filled(b"", b"0", b"1 * * * * *")),
    "a schedule's fields": (read_schedule, filled(b"", b"* ", b"*")),
    "a schedule's blanks": (read_schedule, filled(b"* * *", b" ", b"* * *")),
    "a schedule's interval": (read_schedule, filled(b"@every ", b"1s", b"1x")),
    "a schedule's fraction": (read_schedule, filled(b"@at 2030-01-01T00:00:00.", b"0", b"x")),
    "a schedule's time": (read_schedule, filled(b"@at ", b"2030-", b"Z")),
    "CONNECT of keys": (connect, filled(b'{"user":""', b',"user":"x"', b"}")),
    "CONNECT of letters": (connect, filled(b'{"pass":"', b"\\ud800", b'"}')),
    "CONNECT of digits": (connect, filled(b'{"protocol":', b"9", b"}")),
    "CONNECT of depth": (connect, filled(b'{"a":', b"[", b"}")),
    "INFO of addresses": (connect, filled(b'{"connect_urls":[""', b',""', b"]}")),
    "CONNECT in the log, of quotes": (redacted, filled(b"", b'\\"', b"")),
    "CONNECT in the log, of keys": (redacted, filled(b"{", b'"pass" : "a",', b"}")),
    "CONNECT in the log, of blanks": (redacted, filled(b'""', b" ", b'""')),
    "rules with wildcards": (judge_subjects("s.*.{}", "s.a.x"), filled(b"", b"x", b"")),
    "rules for subtrees": (judge_subjects("s.{}.>", "s.*"), filled(b"", b"x", b"")),
    "literal rules": (judge_subjects("s.{}", "s.>"), filled(b"", b"x", b"")),
    "a subject of many tokens, judged": (judge_one_name, filled(b"a", b".b", b"")),
    "a token's letters": (read_token, filled(b"", b"A", b"")),
    "a token's parts": (read_token, filled(b"", b".", b"")),
    "a token's numbers": (read_token, filled(b'{"exp":[', b"1,", b"1]}")),
    "a token's digits": (read_token, filled(b'{"exp":', b"9", b"}")),
    "a token's entries": (read_claims(b"s"), filled(b"", b"x", b"")),
    "a token's entries with wildcards": (read_claims(b"*.>"), filled(b"", b"x", b"")),
    "a key's letters": (lambda text: is_public_key("user", text.decode()), filled(b"U", b"A", b"")),
    "placeholders that do not end": (fill_in, filled(b"", b"{", b"")),
    "placeholders": (fill_in, filled(b"", b"{{name()}}.", b"a")),
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
