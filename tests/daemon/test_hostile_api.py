"""JetStream API requests whose bodies are no requests: answered as nats-server does, and nothing else suffers."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.daemon import CONNECT, Daemon, Raw
from tests.support.process import find_nats_server

DEEP = 100_000
BODIES = {
    "text": b"hello",
    "open": b"{",
    "array": b"[]",
    "number": b"5",
    "true": b"true",
    "NUL": b"\0",
    "no UTF-8": b'{"name":"\xff\xfe"}',
    "deep": b"[" * DEEP + b"]" * DEEP,
    "deep and open": b'{"a":' * DEEP,
    "deep in a field": b'{"name":"S","metadata":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "NaN": b'{"name":"S","max_msgs":NaN}',
    "1e999": b'{"name":"S","max_msgs":1e999}',
    "5000 digits": b'{"name":"S","max_msgs":' + b"9" * 5000 + b"}",
    "5000 digits below zero": b'{"name":"S","max_msgs":-' + b"9" * 5000 + b"}",
    "fraction": b'{"name":"S","max_msgs":1.5}',
    "name is a number": b'{"name":5}',
    "subjects is text": b'{"name":"S","subjects":"a"}',
    "text behind": b'{"name":"S"} x',
    "comma": b'{"name":"S",}',
    "quotes": b"{'name':'S'}",
    "escape": b'{"name":"S\\q"}',
    "control character": b'{"name":"S\n"}',
    "byte order mark": b'\xef\xbb\xbf{"name":"S"}',
    "unknown field": b'{"name":"S","frob":1}',
    "long name": b'{"name":"' + b"x" * DEEP + b'"}',
    "duration as text": b'{"name":"S","max_age":"5s"}',
}
SUBJECTS = [
    "STREAM.CREATE.S",
    "STREAM.UPDATE.NOPE",
    "STREAM.INFO.NOPE",
    "STREAM.DELETE.NOPE",
    "STREAM.MSG.GET.NOPE",
    "STREAM.NAMES",
    "STREAM.LIST",
    "CONSUMER.CREATE.NOPE",
    "CONSUMER.CREATE.NOPE.c",
    "CONSUMER.DURABLE.CREATE.NOPE.c",
    "CONSUMER.INFO.NOPE.c",
    "CONSUMER.NAMES.NOPE",
    "INFO",
]
# depth is bounded at 1,024, and the number of lists, at 10,000 in nats-server: the same refusal in other words
TOO_DEEP = re.compile(rb"invalid JSON: [^}]*?(depth limit exceeded|exceeded max depth|too many values)[^\"]*")
OF_THE_MOMENT = re.compile(rb'"(total|errors|level|inflight|memory|storage)":\d+,?')


@pytest.fixture(scope="module")
def jetstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon("-js", "-sd", str(tmp_path_factory.mktemp("store"))) as daemon:
        yield daemon
        assert not [line for line in daemon.log if "[ERR]" in line or "Traceback" in line]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon | None]:
    program = find_nats_server()
    if program is None:
        yield None
        return
    with Daemon("-js", "-sd", str(tmp_path_factory.mktemp("reference")), command=[program]) as daemon:
        yield daemon


def request(client: Raw, subject: str, body: bytes) -> bytes:
    """The answer's payload."""
    client.send(b"PUB $JS.API.%b reply %d\r\n%b\r\n" % (subject.encode(), len(body), body))
    while not (line := client.line()).startswith((b"MSG reply ", b"HMSG reply ")):
        assert line, "the connection was closed"
    return client.until(b"\r\n")


def answers(daemon: Daemon, subject: str) -> dict[str, bytes]:
    with daemon.open() as client:
        client.exchange(CONNECT + b"SUB reply 1\r\n")
        found = {}
        for name, body in BODIES.items():
            answer = request(client, subject, body)
            found[name] = OF_THE_MOMENT.sub(b"", TOO_DEEP.sub(b"too deep", answer))
        return found


@pytest.mark.parametrize("subject", SUBJECTS)
def test_bodies_that_are_no_requests(jetstream: Daemon, reference: Daemon | None, subject: str) -> None:
    with jetstream.open() as bystander:
        bystander.exchange(CONNECT + b"SUB other 1\r\n")
        ours = answers(jetstream, subject)
        assert all(b"io.nats.jetstream.api.v1." in answer for answer in ours.values())
        assert b"MSG other 1 2\r\nhi\r\n" in bystander.exchange(b"PUB other 2\r\nhi\r\n")
    if reference is not None:
        assert ours == answers(reference, subject)
