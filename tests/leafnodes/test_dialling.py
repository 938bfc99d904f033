"""A remote dials until there is a connection, and keeps the first one."""

from __future__ import annotations

import asyncio
import errno
import socket
from pathlib import Path
from typing import Any, cast

import pytest

from jetbroker.auth.authenticator import WEBSOCKET
from jetbroker.config.options import LeafRemote, LeafUrl, Options
from jetbroker.leafnodes.leafs import Leafs
from jetbroker.leafnodes.remote import Remote
from jetbroker.logs.logger import Logger
from tests.differential.leaf_steps import FIRST, info
from tests.support.leaf_peer import Listener, Peer
from tests.support.pairs import JETBROKER, NATS_SERVER, server

DIAL_SECONDS = 0.5
SEVERAL = ("127.0.0.2", "127.0.0.3")


class Opened(asyncio.Protocol):
    """In the place of a link: tells its remote that it is there."""

    kind = WEBSOCKET  # no INFO is waited for at once

    def __init__(self, peer: Any, made: asyncio.Event) -> None:
        self._peer = peer
        self._made = made
        self.transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._peer.dialled.opened(self)
        self._made.set()

    def close(self, _: str) -> None:
        if self.transport is not None:
            self.transport.close()


class Links:
    """In the place of the registry."""

    def __init__(self) -> None:
        self.made = asyncio.Event()
        self.links: list[Opened] = []

    def find_account(self, _: str) -> object:
        return object()

    def new_link(self, peer: Any) -> Opened:
        peer.stage = None
        self.links.append(Opened(peer, self.made))
        return self.links[-1]


async def test_a_connection_that_the_loop_hears_of_late_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    connect = loop.create_connection
    heard = asyncio.Event()

    async def late(*arguments: Any, **named: Any) -> Any:
        found = await connect(*arguments, **named)
        await asyncio.sleep(2 * DIAL_SECONDS)
        heard.set()
        return found

    listening = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    options = LeafRemote([LeafUrl("nats-leaf", "127.0.0.1", port)], account="A", dial_timeout=DIAL_SECONDS)
    links, log = Links(), Logger()
    told: list[str] = []
    monkeypatch.setattr(log, "error", told.append)
    monkeypatch.setattr(loop, "create_connection", late, raising=False)
    remote = Remote(options, Options(), cast(Leafs, links), log)
    remote.start()
    async with asyncio.timeout(10):
        await links.made.wait()
        await heard.wait()
        await asyncio.sleep(0)
    assert (told, len(links.links)) == ([], 1)
    assert links.links[0].transport is not None and not links.links[0].transport.is_closing()
    remote.stop()
    listening.close()
    await listening.wait_closed()


async def test_what_is_no_name_of_a_host_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    options = LeafRemote([LeafUrl("nats-leaf", "hub..example.com", 7422)], account="A")
    log = Logger()
    told: asyncio.Queue[str] = asyncio.Queue()
    monkeypatch.setattr(log, "error", told.put_nowait)
    server = Options()
    server.leafnodes.reconnect = 0.01
    server.connect_error_reports = 1
    remote = Remote(options, server, cast(Leafs, Links()), log)
    remote.start()
    async with asyncio.timeout(10):
        for attempt in (1, 2):
            line = f'Error trying to connect as leafnode to remote server "hub..example.com:7422" (attempt {attempt}): '
            assert (await told.get()).startswith(line)
    remote.stop()


async def test_one_address_of_several_is_dialled_however_long_it_was_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()

    async def slowly(host: str, *_: Any, **__: Any) -> list[Any]:
        await asyncio.sleep(0.05)
        return [(0, 0, 0, "", (address, 0)) for address in SEVERAL]

    async def refuse(_: Any, host: str, port: int) -> None:
        raise OSError(errno.ECONNREFUSED, f"Connect call failed ('{host}', {port})")

    monkeypatch.setattr(loop, "getaddrinfo", slowly, raising=False)
    monkeypatch.setattr(loop, "create_connection", refuse, raising=False)
    log, told = Logger(), asyncio.Queue[str]()
    monkeypatch.setattr(log, "error", told.put_nowait)
    server = Options()
    server.leafnodes.reconnect, server.connect_error_reports = 0.001, 1
    options = LeafRemote([LeafUrl("nats-leaf", "hub.example.com", 7422)], account="A", dial_timeout=0.01)
    remote = Remote(options, server, cast(Leafs, Links()), log)
    remote.start()
    dialled: set[str] = set()
    async with asyncio.timeout(30):
        while dialled != {f"dial tcp {address}:7422: connect: connection refused" for address in SEVERAL}:
            dialled.add((await told.get()).partition("): ")[2])
    remote.stop()


async def test_a_name_that_nobody_has_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*_: Any, **__: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown, raising=False)
    log, told = Logger(), asyncio.Queue[str]()
    monkeypatch.setattr(log, "error", told.put_nowait)
    remote = Remote(
        LeafRemote([LeafUrl("nats-leaf", "nowhere", 7422)], account="A"), Options(), cast(Leafs, Links()), log
    )
    remote.start()
    async with asyncio.timeout(10):
        assert (await told.get()).endswith('(attempt 1): lookup for host "nowhere": lookup nowhere: no such host')
    remote.stop()


@pytest.mark.parametrize("kind", [JETBROKER, NATS_SERVER])
def test_after_a_lost_link_another_url_is_dialled(kind: str, tmp_path: Path) -> None:
    hubs = [Listener(), Listener()]
    urls = ", ".join(f'"nats-leaf://127.0.0.1:{one.port}"' for one in hubs)
    config = tmp_path / "spoke.conf"
    config.write_text(
        f'leafnodes {{ reconnect: "50ms", remotes: [ {{ urls: [{urls}], no_randomize: true, compression: off }} ] }}\n'
    )
    with server(kind, config):
        for one in (*hubs, *hubs):
            peer = Peer(one.accept(), {})
            peer.say(info(FIRST, {"leafnode_urls": [f"127.0.0.1:{one.port}"]}))
            assert peer.until("CONNECT")[-1].startswith("CONNECT")
            peer.connection.close()
    for one in hubs:
        one.close()
