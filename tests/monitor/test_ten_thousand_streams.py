"""The monitoring port of a broker that has ten thousand streams: clients are heard meanwhile, slow readers or not."""

from __future__ import annotations

import json
import re
import select
import socket
from collections.abc import Iterator

import pytest

from tests.support.daemon import CONNECT, Daemon, Raw
from tests.support.http import monitor_port

STREAMS = 10_000
AT_ONCE = 250
SECONDS = 120.0
PINGS_MEANWHILE = 20  # beside other work it was a thousand; a broker that answers in one go answers one or two
PINGS_OF_THE_SLOW = 50

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    folder = tmp_path_factory.mktemp("many")
    (folder / "conf").write_text("http: '127.0.0.1:-1'\ndashboard: true\n")
    with Daemon("-c", str(folder / "conf"), "-js", "-sd", str(folder / "store")) as daemon:
        with daemon.open() as client:
            client.socket.settimeout(SECONDS)
            client.exchange(CONNECT + b"SUB r 1\r\n")
            for first in range(0, STREAMS, AT_ONCE):
                client.send(b"".join(created(number) for number in range(first, first + AT_ONCE)))
                for _ in range(AT_ONCE):
                    assert b'"did_create":true' in client.until(b"}\r\n")
        yield daemon


def created(number: int) -> bytes:
    body = b'{"name":"S%05d","subjects":["s.%d"],"storage":"memory"}' % (number, number)
    return b"PUB $JS.API.STREAM.CREATE.S%05d r %d\r\n%b\r\n" % (number, len(body), body)


@pytest.fixture
def client(broker: Daemon) -> Iterator[Raw]:
    with broker.open() as opened:
        opened.socket.settimeout(SECONDS)
        opened.exchange(CONNECT)
        yield opened


class Asked:
    """A request whose answer is not read yet; its socket holds little."""

    def __init__(self, broker: Daemon, path: str) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(SECONDS)
        self.socket.connect(("127.0.0.1", monitor_port(broker)))
        self.socket.sendall(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    @property
    def begun(self) -> bool:
        """Is there any of its answer?"""
        return bool(select.select([self.socket], [], [], 0)[0])

    def body(self) -> bytes:
        """All of it, as it comes."""
        with self.socket.makefile("rb") as answer:
            assert answer.readline().split()[1] == b"200"
            while answer.readline().strip():
                pass
            return answer.read()

    def event(self) -> bytes:
        """The first one."""
        with self.socket.makefile("rb") as answer:
            return next(line for line in answer if line.startswith(b"data: ")).removeprefix(b"data: ")


def pings(client: Raw, count: int) -> None:
    for _ in range(count):
        assert client.exchange(b"").endswith(b"PONG\r\n")


def test_clients_are_heard_while_metrics_are_made(broker: Daemon, client: Raw) -> None:
    with Asked(broker, "/metrics") as asked:
        heard = 0
        while not asked.begun:
            pings(client, 1)
            heard += 1
        body = asked.body()
    assert heard >= PINGS_MEANWHILE
    names = re.findall(rb'^jetstream_stream_total_messages\{.*stream_name="(S\d+)".*\} 0\.0$', body, re.MULTILINE)
    assert sorted(names) == [b"S%05d" % number for number in range(STREAMS)]
    assert re.search(rb"^jetbroker_metrics_left_out\{.*\} 0\.0$", body, re.MULTILINE)


@pytest.mark.parametrize("path", ["/metrics", "/jsz?streams=1&config=1&limit=10000"])
def test_who_does_not_read_keeps_nobody_waiting(broker: Daemon, client: Raw, path: str) -> None:
    with Asked(broker, path) as slow:
        pings(client, PINGS_OF_THE_SLOW)
        with Asked(broker, "/healthz") as other:
            assert json.loads(other.body()) == {"status": "ok"}
        assert slow.body().count(b"S09999") >= 1


def test_pages_of_the_dashboard_that_are_not_read_keep_nobody_waiting(broker: Daemon, client: Raw) -> None:
    path = "/dashboard/events"
    with Asked(broker, path), Asked(broker, path), Asked(broker, path) as read:
        pings(client, PINGS_OF_THE_SLOW)
        figures = json.loads(read.event())
        pings(client, PINGS_OF_THE_SLOW)
    assert figures["totals"]["streams"] == STREAMS
    assert figures["tables"]["streams"]["total"] == STREAMS
    with Asked(broker, "/dashboard/rows?table=streams&search=s0999&sort=name") as rows:
        found = json.loads(rows.body())
    assert [row["name"] for row in found["rows"]] == [f"S{number:05}" for number in range(9990, 10_000)]
