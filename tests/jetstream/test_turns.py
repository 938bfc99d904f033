"""No JetStream request keeps the others waiting: what costs much is done in turns, each client in its turn."""

from __future__ import annotations

import json
import selectors
import socket
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from tests.support import process

SECONDS = 30
_numbers = count(1)


class Peer:
    """A raw connection; answers to requests come on subscription 1."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), SECONDS)
        self.inbox = f"inbox{next(_numbers)}"
        self.kept = b""
        connect = b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'
        self.socket.sendall(connect + b"SUB %s.* 1\r\n" % self.inbox.encode())
        self.ping()

    def ping(self) -> None:
        """Say PING and wait for what it is answered with; nothing else may come."""
        self.socket.sendall(b"PING\r\n")
        self.until(b"PONG\r\n")
        self.kept = b""

    def ask(self, subject: str, body: bytes = b"", number: int = 0) -> None:
        """A request; `inbox.<number>` gets the answer."""
        head = f"PUB {subject} {self.inbox}.{number} {len(body)}\r\n"
        self.socket.sendall(head.encode() + body + b"\r\n")

    def ask_often(self, subject: str, count: int) -> None:
        lines = (f"PUB {subject} {self.inbox}.{number} 0\r\n\r\n" for number in range(count))
        self.socket.sendall("".join(lines).encode())

    def until(self, mark: bytes) -> bytes:
        while mark not in self.kept:
            data = self.socket.recv(1 << 16)
            assert data, self.kept[-200:]
            self.kept += data
        return self.kept

    def has_heard(self, mark: bytes) -> bool:
        """Is it there already? Takes one more read, if there is something to read."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.socket, selectors.EVENT_READ)
            if selector.select(0):
                self.kept += self.socket.recv(1 << 16)
        return mark in self.kept

    def hear_also(self, other: Peer) -> bytes:
        """Hear the other's answers, too: on one connection, in their order. What such an answer begins with."""
        self.socket.sendall(b"SUB %s.* 2\r\n" % other.inbox.encode())
        self.ping()
        return b"MSG %s.0 2 " % other.inbox.encode()

    def request(self, subject: str, body: object) -> None:
        """Ask and wait for a good answer."""
        self.ask(subject, json.dumps(body).encode())
        assert b'"error"' not in self.until(b"}\r\n")
        self.kept = b""


@pytest.fixture(scope="module")
def filled(broker: process.ServerProcess) -> process.ServerProcess:
    """200 subjects with 500 messages each, `s.0` to `s.199`, in turn."""
    peer = Peer(broker.port)
    peer.request("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "allow_direct": True})
    for _ in range(500):
        peer.socket.sendall(b"".join(b"PUB s.%d 1\r\nx\r\n" % number for number in range(200)))
    peer.ping()
    peer.socket.close()
    return broker


@pytest.fixture
def pair(filled: process.ServerProcess) -> Iterator[tuple[Peer, Peer]]:
    asker, bystander = Peer(filled.port), Peer(filled.port)
    yield asker, bystander
    asker.socket.close()
    bystander.socket.close()


def pings_until(asker: Peer, bystander: Peer, mark: bytes) -> int:
    """How many PINGs of another one are answered before the asker has its answer."""
    pings = 0
    while not asker.has_heard(mark):
        bystander.ping()
        pings += 1
    return pings


def last_before(asker: Peer) -> bytes:
    body = json.dumps({"multi_last": ["s.*"], "up_to_seq": 99_000}).encode()
    for number in range(200):
        asker.ask("$JS.API.DIRECT.GET.S", body, number)
    return b"Nats-UpTo-Sequence"


def wrong_types(asker: Peer) -> bytes:
    body = json.dumps({"name": "T", "subjects": [""] * 20_000 + [1]}).encode()
    for number in range(64):
        asker.ask("$JS.API.STREAM.CREATE.T", body, number)
    return b".63 1 "


def numbers_for_the_system(asker: Peer) -> bytes:
    for number in range(200):
        asker.ask("$SYS.REQ.ACCOUNT.PING.CONNZ", b'{"a":[' + b"1," * 30_000 + b"1]}", number)
    return b".199 1 "


@pytest.mark.parametrize("attack", [wrong_types, numbers_for_the_system])
def test_pings_are_answered_while_one_client_asks_for_much(
    pair: tuple[Peer, Peer], attack: Callable[[Peer], bytes]
) -> None:
    asker, bystander = pair
    assert pings_until(asker, bystander, attack(asker)) > 3


def test_the_last_message_before_a_point_is_found_without_walking_all(pair: tuple[Peer, Peer]) -> None:
    """200 subjects with 500 messages, 200 times: 20 million messages to walk over, or 40,000 to look up."""
    asker, bystander = pair
    last_before(asker)
    for number in range(200):
        asker.until(b".%d 1 " % number)
    while asker.kept.count(b"204 EOB") < 200:
        asker.kept += asker.socket.recv(1 << 16)
    assert asker.kept.count(b"Nats-UpTo-Sequence: 99000") == 200
    assert asker.kept.count(b"Nats-Sequence: 98801\r\n") == 200
    bystander.ping()


def test_a_client_with_few_requests_does_not_wait_for_one_with_many(pair: tuple[Peer, Peer]) -> None:
    asker, bystander = pair
    others = asker.hear_also(bystander)
    asker.ask_often("$JS.API.STREAM.INFO.S", 9000)
    bystander.ask("$JS.API.STREAM.INFO.S")
    heard = asker.until(b".8999 1 ")
    assert heard.index(others) < heard.index(b".8999 1 ")


def test_a_clients_own_requests_are_answered_in_order(pair: tuple[Peer, Peer]) -> None:
    asker, bystander = pair
    for peer in pair:
        peer.ask_often("$JS.API.STREAM.PURGE.N", 1000)
    for peer in pair:
        answers = peer.until(b".999 1 ").split(b"MSG %s." % peer.inbox.encode())[1:]
        assert [int(answer.split(b" ")[0]) for answer in answers] == list(range(1000))
        peer.until(b"}\r\n")
    assert asker is not bystander


def test_a_small_direct_get_does_not_wait_for_a_large_batch_of_another_client(pair: tuple[Peer, Peer]) -> None:
    asker, bystander = pair
    others = asker.hear_also(bystander)
    asker.ask("$JS.API.DIRECT.GET.S", b'{"batch":100000,"seq":1}')
    bystander.ask("$JS.API.DIRECT.GET.S", b'{"seq":1}')
    heard = asker.until(b"204 EOB")
    assert heard.index(others) < heard.index(b"204 EOB")


def test_expected_subjects_with_wildcards_take_the_turn_of_their_publisher(broker: process.ServerProcess) -> None:
    asker, bystander = Peer(broker.port), Peer(broker.port)
    asker.request("$JS.API.STREAM.CREATE.E", {"name": "E", "subjects": ["e.>"], "storage": "memory"})
    asker.socket.sendall(b"".join(b"PUB e.%d.x 0\r\n\r\n" % number for number in range(20_000)))
    asker.ping()
    name = b"Nats-Expected-Last-Subject-Sequence"
    head = b"NATS/1.0\r\n%s: 5\r\n%s-Subject: e.*.y\r\n\r\n" % (name, name)
    line = b"HPUB e.1.x %s.%d %d %d\r\n%s\r\n"
    inbox = asker.inbox.encode()
    asker.socket.sendall(b"".join(line % (inbox, number, len(head), len(head), head) for number in range(400)))
    bystander.ping()
    assert not asker.has_heard(b".399 1 ")
    assert b"wrong last sequence" in asker.until(b".399 1 ")
    asker.socket.close()
    bystander.socket.close()
