"""The HTTP listener by itself: one request after the other, and every bound."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvloop

from jetbroker import limits
from jetbroker.config.options import Options
from jetbroker.monitor.endpoints import Endpoints
from jetbroker.monitor.http import HttpConnection, HttpListener, Lane, Request, Response, text_response
from tests.support.http import TIMEOUT_S

pytestmark = pytest.mark.filterwarnings("ignore:Overriding the .event_loop_policy.:pytest.PytestDeprecationWarning")

OK = b"GET /ok HTTP/1.1\r\nHost: a\r\n\r\n"
LARGE_BYTES = 16 * 1024 * 1024


class Site:
    """A listener on a free port, with a dashboard. What is `slow` is answered when `release` is set."""

    def __init__(self) -> None:
        self.options = Options()
        self.options.monitoring.dashboard = True
        self.endpoints = Endpoints(cast(Any, lambda: SimpleNamespace(options=self.options)))
        self.release = asyncio.Event()
        self.follower: asyncio.Future[HttpConnection] = asyncio.get_running_loop().create_future()
        self.left = asyncio.Event()  # by who followed
        self.targets: list[str] = []
        self.errors: list[dict[str, object]] = []
        self.port = 0
        self.listener = HttpListener(asyncio.get_running_loop(), self.answer, self.endpoints.lane_of)

    async def answer(self, request: Request) -> Response:
        target = request.target
        self.targets.append(target)
        if target.endswith("/slow"):
            await self.release.wait()
        if target == "/bug":
            raise ZeroDivisionError("a bug")
        if target == "/endless":
            return Response(HTTPStatus.OK, b"first", (), self.follow)
        if target == "/large":
            return Response(HTTPStatus.OK, b"x" * LARGE_BYTES, ())
        return text_response(HTTPStatus.OK, target)

    def follow(self, connection: HttpConnection) -> Callable[[], None]:
        self.follower.set_result(connection)
        return self.left.set

    async def ask(self, data: bytes, *, eof: bool = False) -> bytes:
        """Everything that comes back until the listener closes."""
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                writer.write(data)
                if eof:
                    writer.write_eof()
                return await read_all(reader)
            finally:
                writer.close()


async def read_all(reader: asyncio.StreamReader) -> bytes:
    """To the end; a reset is one too: what came before counts."""
    received = b""
    try:
        while chunk := await reader.read(65536):
            received += chunk
    except ConnectionResetError:
        return received
    return received


@pytest.fixture(params=[uvloop.EventLoopPolicy, asyncio.DefaultEventLoopPolicy], ids=["uvloop", "asyncio"])
def event_loop_policy(request: pytest.FixtureRequest) -> asyncio.AbstractEventLoopPolicy:
    """The broker's loop, and asyncio's own, whose transports write at other moments."""
    policy: asyncio.AbstractEventLoopPolicy = request.param()
    return policy


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    found = Site()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: found.errors.append(context))
    server = await loop.create_server(found.listener.connection, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    yield found
    server.close()
    found.listener.close()
    loop.set_exception_handler(None)


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


async def test_requests_one_after_the_other(site: Site) -> None:
    answer = await site.ask(OK * 3 + b"GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 4
    assert answer.endswith(b"/last")
    assert site.targets == ["/ok", "/ok", "/ok", "/last"]


async def test_byte_by_byte(site: Site) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    for byte in OK:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0)
    assert await reader.readuntil(b"/ok") != b""
    writer.close()


async def test_half_closed_clients_get_their_answer(site: Site) -> None:
    assert (await site.ask(OK, eof=True)).endswith(b"/ok")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "get", "FOO"])
async def test_methods_mean_nothing(site: Site, method: str) -> None:
    answer = await site.ask(f"{method} /ok HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
    assert status(answer) == 200
    assert answer.endswith(b"/ok")


async def test_head_has_no_body(site: Site) -> None:
    answer = await site.ask(b"HEAD /ok HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert b"Content-Length: 3\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


async def test_bodies_are_read_and_ignored(site: Site) -> None:
    plain = b"POST /ok HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
    chunked = b"POST /ok HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    answer = await site.ask(plain + chunked, eof=True)
    assert answer.count(b"200 OK") == 2


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (b"garbage\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100, 400),  # TLS
        (b"GET /ok HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"GET /ok HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n", 400),
        (b"GET /ok HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET /ok HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"GET /ok HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 405),
        (b"GET /ok HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * limits.MONITOR_HEADERS + b"\r\n", 431),
        (b"GET /" + b"x" * limits.MONITOR_HEADER_BYTES, 431),
        (b"GET /ok HTTP/1.1\r\nHost: a\r\nX: " + b"y" * limits.MONITOR_HEADER_BYTES, 431),
        (
            b"POST /ok HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n" + b"z" * limits.MONITOR_BODY_BYTES * 2,
            413,
        ),
    ],
)
async def test_bad_requests_end_the_connection(site: Site, request_bytes: bytes, expected: int) -> None:
    answer = await site.ask(request_bytes)
    assert status(answer) == expected
    assert b"Connection: close\r\n" in answer
    assert not site.targets
    assert not site.errors


async def test_a_bug_is_told_to_both_sides(site: Site) -> None:
    answer = await site.ask(b"GET /bug?secret=1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert status(answer) == 200  # only the path without a query is the bug
    answer = await site.ask(b"GET /bug HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert status(answer) == 500
    assert b"a bug" not in answer
    assert isinstance(site.errors[0]["exception"], ZeroDivisionError)


async def test_connections_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was last served the longest ago gives way."""
    monkeypatch.setattr(limits, "MONITOR_CONNECTIONS", 2)
    held = []
    for _ in range(2):
        held.append(await asyncio.open_connection("127.0.0.1", site.port))
        await served(held[-1])
    await served(held[0])
    assert status(await site.ask(OK, eof=True)) == 200
    async with asyncio.timeout(TIMEOUT_S):
        assert await read_all(held[1][0]) == b""
    await served(held[0])
    for _, writer in held:
        writer.close()


async def served(held: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    held[1].write(OK)
    async with asyncio.timeout(TIMEOUT_S):
        await held[0].readuntil(b"\r\n\r\n/ok")


@pytest.mark.parametrize("said", [b"", b"GET /ok HTTP/1.1\r\nX-Slow: ", b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n",
                                  b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"])  # fmt: skip
async def test_a_probe_always_gets_in(site: Site, said: bytes) -> None:
    """Whatever the others do who take all places: nothing, half a request, not reading, expensive requests."""
    held = [await asyncio.open_connection("127.0.0.1", site.port) for _ in range(limits.MONITOR_CONNECTIONS)]
    for _, writer in held:
        writer.write(said)
    answer = await site.ask(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert status(answer) == 200
    assert len(site.listener.connections) <= limits.MONITOR_CONNECTIONS
    site.release.set()
    for _, writer in held:
        writer.transport.abort()


async def test_who_is_being_answered_does_not_give_way_to_idle_ones(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MONITOR_CONNECTIONS", 2)
    asked = asyncio.ensure_future(site.ask(b"GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))
    async with asyncio.timeout(TIMEOUT_S):
        while not site.targets:
            await asyncio.sleep(0)
    idle = [await asyncio.open_connection("127.0.0.1", site.port) for _ in range(5)]
    assert status(await site.ask(OK, eof=True)) == 200
    site.release.set()
    assert status(await asked) == 200
    for _, writer in idle:
        writer.close()


@pytest.mark.parametrize("data", [b"", b"GET /ok HTTP/1.1\r\nHost: a\r\nX-Slow: "])
async def test_slow_requests_are_cut_off(site: Site, monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(limits, "MONITOR_REQUEST_SECONDS", 0.05)
    assert await site.ask(data) == b""
    assert not site.listener.connections


async def test_more_bytes_do_not_buy_more_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MONITOR_REQUEST_SECONDS", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    ended = asyncio.ensure_future(read_all(reader))
    async with asyncio.timeout(TIMEOUT_S):
        while not ended.done():
            writer.write(b"x")
            await asyncio.wait([ended], timeout=0.02)
    assert ended.result() == b""
    writer.close()


async def test_idle_connections_are_closed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MONITOR_IDLE_SECONDS", 0.05)
    assert (await site.ask(OK)).endswith(b"/ok")
    assert not site.listener.connections


async def test_clients_that_do_not_read_are_cut_off(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MONITOR_WRITE_SECONDS", 0.1)
    _reader, writer = await asyncio.open_connection("127.0.0.1", site.port, limit=1024)
    writer.write(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n" + OK)
    async with asyncio.timeout(TIMEOUT_S):
        while not site.targets:
            await asyncio.sleep(0)
        while site.listener.connections:
            await asyncio.sleep(0.01)
    assert site.targets == ["/large"]  # the next request waited for the answer to be taken
    writer.close()


async def test_answers_nobody_takes_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MONITOR_PENDING_BYTES", LARGE_BYTES // 2)
    _, writer = await asyncio.open_connection("127.0.0.1", site.port, limit=1024)
    writer.write(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
    async with asyncio.timeout(TIMEOUT_S):
        while not site.listener.pending_bytes:
            await asyncio.sleep(0)
        assert status(await site.ask(OK, eof=True)) == 503
        writer.transport.abort()
        while site.listener.pending_bytes:
            await asyncio.sleep(0)
    assert status(await site.ask(OK, eof=True)) == 200


@pytest.mark.parametrize(
    ("target", "at_once"),
    [
        ("/slow", limits.MONITOR_ANSWERS),
        ("http://dashboard/slow", limits.MONITOR_ANSWERS),
        ("/dashboards/slow", limits.MONITOR_ANSWERS),
        ("/x/dashboard/slow", limits.MONITOR_ANSWERS),
        ("/dashboard/slow", 5),  # which has a bound of its own
    ],
)
async def test_only_few_answers_are_made_at_once(site: Site, target: str, at_once: int) -> None:
    held = [await asyncio.open_connection("127.0.0.1", site.port) for _ in range(5)]
    for _, writer in held:
        writer.write(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    async with asyncio.timeout(TIMEOUT_S):
        while [connection.stage for connection in site.listener.connections] != [2] * 5:
            await asyncio.sleep(0)
        assert status(await site.ask(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")) == 200
    assert site.targets.count(target) == at_once
    site.release.set()
    for _, writer in held:
        writer.close()


async def test_the_way_to_the_dashboard_is_below_the_base_path() -> None:
    options = Options()
    options.monitoring.dashboard, options.monitoring.base_path = True, "/dashboard"
    endpoints = Endpoints(cast(Any, lambda: SimpleNamespace(options=options)))
    lanes = {
        target: endpoints.lane_of(Request("GET", target))
        for target in ("/dashboard/connz", "/dashboard", "/dashboard/dashboard/summary", "/dashboard/healthz?x=1", "x")
    }
    assert list(lanes.values()) == [Lane.SHARED, Lane.SHARED, Lane.OWN, Lane.PROBE, Lane.SHARED]


async def test_large_answers_arrive(site: Site) -> None:
    answer = await site.ask(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n" + OK, eof=True)
    head, _, rest = answer.partition(b"\r\n\r\n")
    assert f"Content-Length: {LARGE_BYTES}".encode() in head
    assert rest[:LARGE_BYTES] == b"x" * LARGE_BYTES
    assert rest.endswith(b"/ok")


async def test_clients_that_leave_before_the_answer(site: Site) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    async with asyncio.timeout(TIMEOUT_S):
        while not site.targets:
            await asyncio.sleep(0)
        writer.transport.abort()
        while site.listener.connections:
            # nothing is read meanwhile: the end is seen when the answer is written
            site.release.set()
            await asyncio.sleep(0.01)
    assert not site.errors


async def test_close_drops_connections(site: Site) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
    writer.write(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
    async with asyncio.timeout(TIMEOUT_S):
        while not site.targets:
            await asyncio.sleep(0)
        site.listener.close()
        assert await read_all(reader) == b""
    writer.close()


# --- answers without an end ---

ENDLESS = b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n"


async def test_an_endless_answer_comes_in_pieces(site: Site) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(ENDLESS)
        assert (await reader.readuntil(b"first\r\n")).count(b"Transfer-Encoding: chunked") == 1
        connection = await site.follower
        assert connection.push(b"second")
        assert await reader.readuntil(b"second\r\n") == b"6\r\nsecond\r\n"
        writer.close()
        await site.left.wait()
        assert not connection.push(b"third")


@pytest.mark.parametrize("more", [b"GET /ok HTTP/1.1\r\nHost: a\r\n\r\n", b""])
async def test_who_asks_for_more_meanwhile_or_has_ended_is_cut_off(site: Site, more: bytes) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(ENDLESS)
        await site.follower
        if more:
            writer.write(more)
        else:
            writer.write_eof()
        await site.left.wait()
        await read_all(reader)
        assert site.targets == ["/endless"]
        writer.close()


async def test_who_does_not_read_is_left_out_and_then_cut_off(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MONITOR_WRITE_SECONDS", 0.2)
    async with asyncio.timeout(TIMEOUT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port, limit=1024)
        writer.write(ENDLESS)
        connection = await site.follower
        piece = b"x" * LARGE_BYTES
        assert connection.push(piece)  # more than the kernel takes
        assert not connection.push(b"y")
        await site.left.wait()
        assert b"y" not in (await read_all(reader))[-100:]
        writer.close()


async def test_a_slow_reader_who_catches_up_goes_on(site: Site) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(ENDLESS)
        connection = await site.follower
        assert connection.push(b"x" * LARGE_BYTES)
        while not connection.push(b"done"):
            await reader.read(65536)
        received = b""
        while b"done" not in received:
            received = received[-100:] + await reader.read(65536)
        writer.close()
        await site.left.wait()
