"""PINGs and their absence: who is asked, who is cut off as stale."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.daemon import CONNECT, Daemon, Raw
from tests.support.websocket import WebsocketClient, websocket_port

INTERVAL_S = 0.3
CONFIG = 'ping_interval: "300ms"\nping_max: 2\n'
LINKS = 'leafnodes { listen: "127.0.0.1:-1" }\n'
TALK_S = 1.2  # several intervals
ATTEMPTS = 10


def both(commands: list[tuple[str, ...]], folder: Path, config: str, play: Callable[[Daemon], object]) -> list[object]:
    found = []
    for command in commands:
        (folder / "conf").write_text(config)
        with Daemon("-D", "-c", str(folder / "conf"), command=command) as server:
            found.append(play(server))
    return found


def test_who_does_not_answer_is_stale(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    def play(server: Daemon) -> object:
        with server.open(pings=True) as silent, server.open(pings=True) as unknown:
            silent.send(CONNECT)
            seen = silent.to_end(), unknown.to_end()
            server.wait_for("Stale Client Connection - Closing")
            return seen

    theirs, ours = both(commands, tmp_path, CONFIG, play)
    assert ours == theirs == (b"PING\r\nPING\r\n-ERR 'Stale Connection'\r\n",) * 2


def test_who_talks_is_asked_once(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    def play(server: Daemon) -> object:
        for _ in range(ATTEMPTS):
            with server.open(pings=True) as talker:
                talker.exchange(CONNECT)
                count, longest_silence = pings_while_talking(talker)
            if longest_silence < INTERVAL_S / 2:
                return count
        pytest.skip("this machine is too busy to talk without interruption")

    theirs, ours = both(commands, tmp_path, CONFIG, play)
    assert ours == theirs == 1


def test_a_spoke_that_talks_is_asked_once(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    def play(server: Daemon) -> object:
        for _ in range(ATTEMPTS):
            with link(server) as talker:
                count, longest_silence = pings_while_talking(talker, b"LS+ s\r\nLS- s\r\n")
            if longest_silence < INTERVAL_S / 2:
                return count
        pytest.skip("this machine is too busy to talk without interruption")

    theirs, ours = both(commands, tmp_path, CONFIG + LINKS, play)
    assert ours == theirs == 1


def test_talk_is_no_answer(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    def play(server: Daemon) -> object:
        found = []
        for connection, talk in ((client(server), b"PUB s 1\r\nx\r\n"), (link(server), b"LS+ s\r\n")):
            with connection as talker:
                talker.until(b"PING\r\n")
                talker.send(talk)
                found.append(1 + talker.to_end().count(b"PING\r\n"))
        return found

    theirs, ours = both(commands, tmp_path, CONFIG + LINKS, play)
    assert ours == theirs == [2, 2]


def client(server: Daemon) -> Raw:
    raw = server.open(pings=True)
    raw.send(CONNECT)
    return raw


def link(server: Daemon) -> Raw:
    """A link that stands."""
    raw = Raw(int(server.wait_for("Listening for leafnode connections").rpartition(":")[2]), pings=True)
    raw.send(b'CONNECT {"name":"leaf","cluster":"c","version":"2.14.5"}\r\nPING\r\n')
    raw.until(b"PONG\r\n")
    return raw


def pings_while_talking(client: Raw, talk: bytes = b"PUB s 1\r\nx\r\n") -> tuple[int, float]:
    """How many PINGs come while somebody talks (they are answered), and the longest time between two words, s."""
    count, longest = 0, 0.0
    last = begun = time.monotonic()
    while last < begun + TALK_S:
        asked = client.exchange(talk).count(b"PING\r\n")
        now = time.monotonic()
        last, longest = now, max(longest, now - last)
        if asked:
            client.send(b"PONG\r\n" * asked)
            count += asked
    return count, longest


def test_the_login_is_no_excuse(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    def play(server: Daemon) -> object:
        with server.open(pings=True) as client:
            return client.to_end()

    config = CONFIG + "authorization { user: u, password: p, timeout: 2 }\n"
    theirs, ours = both(commands, tmp_path, config, play)
    assert ours == theirs == b"PING\r\nPING\r\n-ERR 'Stale Connection'\r\n"


def test_websockets_have_an_interval_of_their_own(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    def play(server: Daemon) -> object:
        with WebsocketClient.open(websocket_port(server)) as web, server.open() as plain:
            plain.exchange(CONNECT)
            plain.line()
            return web.to_end(), plain.exchange(b"")

    own = 'websocket { listen: "127.0.0.1:-1", no_tls: true, ping_interval: "300ms" }'
    config = f'ping_max: 1\n{own}\nping_interval: "60s"\n'
    theirs, ours = both(commands, tmp_path, config, play)
    assert ours == theirs
