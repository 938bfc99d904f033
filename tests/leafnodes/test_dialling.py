"""A remote dials until there is a connection, and keeps the first one."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from jetbroker.auth.authenticator import WEBSOCKET
from jetbroker.config.options import LeafRemote, LeafUrl, Options
from jetbroker.leafnodes.leafs import Leafs
from jetbroker.leafnodes.remote import Remote
from jetbroker.logs.logger import Logger

DIAL_SECONDS = 0.5


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
        self.accounts = {"A": object()}
        self.made = asyncio.Event()
        self.links: list[Opened] = []

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
