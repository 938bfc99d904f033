"""What the server tells of itself by messages, against nats-server: the same fields, the same refusals."""

from __future__ import annotations

import gzip
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jetbroker.jetstream.backup.archive.s2 import S2Reader
from tests.support import process
from tests.support.sharing import Client

CONFIG = """
server_tags: ["zone:1"]
server_metadata { rack: "7" }
accounts {
  A { users: [
    {user: a, password: p}
    {user: limited, password: p, permissions: {
      publish: {allow: ">", deny: "x.y"}, subscribe: ["in.>", "q q1"], allow_responses: true}}
  ] }
  $SYS { users: [{user: s, password: p}] }
}
"""
USERS = ("a", "limited", "s")
ACCOUNT = "$SYS.REQ.ACCOUNT.PING.CONNZ $SYS.REQ.ACCOUNT.PING.STATZ $SYS.REQ.SERVER.PING.CONNZ".split()
BODIES = [
    "",
    "{}",
    '{"subscriptions":true,"limit":1}',
    '{"subscriptions_detail":true}',
    "x",
    '{"server_name":"nobody"}',
]
SERVER = "$SYS.REQ.SERVER.PING $SYS.REQ.SERVER.PING.HEALTHZ $SYS.REQ.SERVER.PING.IDZ $SYS.REQ.ACCOUNT.A.CONNZ".split()
ASKED = [
    ("a", "$SYS.REQ.USER.INFO", ""),
    ("limited", "$SYS.REQ.USER.INFO", ""),
    ("s", "$SYS.REQ.USER.INFO", ""),
    *(("a", subject, body) for subject in ACCOUNT for body in BODIES),
    *(("a", subject, "") for subject in SERVER),
    *(("s", subject, body) for subject in (*SERVER, "$SYS.REQ.ACCOUNT.NONE.CONNZ") for body in BODIES[:1] + BODIES[4:]),
    ("s", "$SYS.REQ.SERVER.PING.STATSZ", '{"tags":["zone:1"]}'),
    ("s", "$SYS.REQ.SERVER.PING.STATSZ", '{"tags":["zone:2"]}'),
    ("s", "$SYS.REQ.SERVER.PING.CONNZ", ""),
    *((user, "$SYS.REQ.USER.A.INFO", "") for user in "as"),
    *(("s", "$SYS.REQ.ACCOUNT.A.STATZ", f'{{"accounts":{found}}}') for found in ("true", '"A"', "[1]", "{}", "null")),
    ("s", "$SYS.REQ.ACCOUNT.A.STATZ", '{"include_unused":1}'),
    ("a", "$SYS.DEBUG.SUBSCRIBERS", "in.x"),
    *(("s", "$SYS.DEBUG.SUBSCRIBERS", body) for body in ("in.x", "in.>", ">", "x", "", " in.x ", "in.x q", "in.> ")),
]
# what differs from server to server and from moment to moment
VARYING = frozenset(
    "name id host time now start last_activity rtt uptime idle server_id seq cid port mem cpu bytes msgs in_msgs "
    "out_msgs in_bytes out_bytes num_subscriptions subscriptions total_connections sid pending_bytes".split()
)
NUMBERS = itertools.count()
ROUNDS = 100
ANSWER_TIMEOUT_S = 30.0
KINDS = {int: "number", float: "number", str: "text"}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, Client]]]:
    """The clients of each server, nats-server's first. They stay, since the answers tell of them."""
    if process.find_nats_server() is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    config: Path = tmp_path_factory.mktemp("system") / "server.conf"
    config.write_text(CONFIG, encoding="utf-8")
    with process.nats_server("-c", str(config)) as theirs, process.jetbroker("-c", str(config)) as ours:
        both = [{user: Client(server.port, user) for user in USERS} for server in (theirs, ours)]
        for clients in both:
            for client in clients.values():
                client.send("SUB in.> 1\r\n")
        yield both
        for clients in both:
            for client in clients.values():
                client.close()


def answer_to(client: Client, subject: str, body: str, *, wait: bool) -> bytes | None:
    """What comes back; None: nothing soon after the answer to a request asked later, or (`wait`) in seconds."""
    inbox = f"in.{next(NUMBERS)}"
    client.send(f"PUB {subject} {inbox}.1 {len(body)}\r\n{body}\r\nPUB $SYS.REQ.USER.INFO {inbox}.2 0\r\n\r\n")
    found: list[bytes] = []
    while not any(f"MSG {inbox}.2 " in frame.decode() for frame in found):
        found += client.frames()
    answers: list[bytes] = []
    end = time.monotonic() + ANSWER_TIMEOUT_S
    for number in itertools.count():  # nats-server answers in no order
        answers = [frame for frame in found if f"MSG {inbox}.1 " in frame.decode()]
        if answers or (time.monotonic() > end if wait else number >= ROUNDS):
            break
        found += client.frames()
    assert len(answers) <= 1
    return answers[0].partition(b"\r\n")[2] if answers else None


def ask(client: Client, subject: str, body: str, *, wait: bool) -> Any:
    """The answer, without what varies; None: none."""
    found = answer_to(client, subject, body, wait=wait)
    if found is None:
        return None
    return 503 if found.startswith(b"NATS/1.0 503") else without_varying(json.loads(found))


def without_varying(value: Any) -> Any:
    if isinstance(value, dict):
        if isinstance(value.get("allow"), list):
            value["allow"].sort()  # nats-server keeps them in no order
        return [(key, KINDS[type(item)] if key in VARYING else without_varying(item)) for key, item in value.items()]
    return [without_varying(item) for item in value] if isinstance(value, list) else value


def compressed_answer(client: Client, subject: str, body: str, accepted: str) -> tuple[str, list[str]]:
    """How an answer is encoded, and of what it tells."""
    inbox = f"in.{next(NUMBERS)}"
    headers = f"NATS/1.0\r\nAccept-Encoding: {accepted}\r\n\r\n"
    client.send(f"HPUB {subject} {inbox} {len(headers)} {len(headers + body)}\r\n{headers}{body}\r\n")
    found: list[bytes] = []
    end = time.monotonic() + ANSWER_TIMEOUT_S
    while not found and time.monotonic() < end:
        found = [frame for frame in client.frames() if f"MSG {inbox} ".encode() in frame]
    first, _, rest = found[0].partition(b"\r\n")
    size = int(first.split()[-2]) if first.startswith(b"HMSG") else 0
    return rest[:size].decode(), list(json.loads(decoded(rest[:size], rest[size:-2])))


def decoded(headers: bytes, body: bytes) -> bytes:
    if b"gzip" in headers:
        return gzip.decompress(body)
    if b"snappy" not in headers:
        return body
    reader = S2Reader()
    reader.feed(body)
    return b"".join(iter(reader.next_block, None))


COMPRESSED = [
    *(("SERVER.PING.VARZ", "", accepted) for accepted in ("gzip", "s2", "SNAPPY, gzip", "br;q=1, GZip", "br", " ")),
    *((f"SERVER.PING.{name}", "", "gzip") for name in "HEALTHZ CONNZ SUBSZ JSZ LEAFZ ACCOUNTZ IDZ STATSZ".split()),
    *((f"ACCOUNT.A.{name}", "", "s2") for name in "CONNZ STATZ SUBSZ LEAFZ CONNS INFO".split()),
    *(("SERVER.PING.CONNZ", body, "gzip") for body in ("x", '{"sort":"nope"}')),
    ("SERVER.PING", "", "gzip"),
    ("USER.INFO", "", "gzip"),
]


@pytest.mark.parametrize(("subject", "body", "accepted"), COMPRESSED)
def test_answers_are_compressed_alike(servers: list[dict[str, Client]], subject: str, body: str, accepted: str) -> None:
    reference, broker = (clients["s"] for clients in servers)
    asked = f"$SYS.REQ.{subject}", body, accepted
    assert compressed_answer(broker, *asked) == compressed_answer(reference, *asked)


@pytest.mark.parametrize(("user", "subject", "body"), ASKED)
def test_services_answer_alike(servers: list[dict[str, Client]], user: str, subject: str, body: str) -> None:
    reference, broker = (clients[user] for clients in servers)
    ours = ask(broker, subject, body, wait=False)  # it answers at once
    assert ours == ask(reference, subject, body, wait=ours is not None)
