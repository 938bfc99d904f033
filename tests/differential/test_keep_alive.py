"""PINGs and their absence: who is asked, who is cut off as stale."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tests.support import websocket
from tests.support.daemon import CONNECT, Daemon, Raw
from tests.support.tls import dial, to_end, until

CONFIG = 'ping_interval: "300ms"\nping_max: 2\n'
TALK_S = 1.2  # several intervals


def both(commands: list[tuple[str, ...]], folder: Path, config: str, play: Callable[[Daemon], object]) -> list[object]:
    found = []
    for command in commands:
        (folder / "conf").write_text(config)
        with Daemon("-D", "-c", str(folder / "conf"), command=command) as server:
            found.append(play(server))
    return found


def test_who_does_not_answer_is_stale(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    def play(server: Daemon) -> object:
        with server.open() as silent, server.open() as unknown:
            silent.exchange(CONNECT)
            silent.line()
            seen = silent.to_end(), unknown.to_end()
            server.wait_for("Stale Client Connection - Closing")
            return seen

    theirs, ours = both(commands, tmp_path, CONFIG, play)
    assert ours == theirs == (b"PING\r\nPING\r\n-ERR 'Stale Connection'\r\n",) * 2


def test_who_talks_is_asked_once(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    def play(server: Daemon) -> object:
        with server.open() as talker:
            talker.exchange(CONNECT)
            talker.line()
            return pings_while_talking(talker)

    theirs, ours = both(commands, tmp_path, CONFIG, play)
    assert ours == theirs == 1


def pings_while_talking(client: Raw) -> int:
    """How many PINGs come while messages are published; they are answered."""
    count, end = 0, time.monotonic() + TALK_S
    while time.monotonic() < end:
        asked = client.exchange(b"PUB s 1\r\nx\r\n").count(b"PING\r\n")
        if asked:
            client.send(b"PONG\r\n" * asked)
            count += asked
    return count


def test_the_login_is_no_excuse(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    def play(server: Daemon) -> object:
        with server.open() as client:
            return client.to_end()

    config = CONFIG + "authorization { user: u, password: p, timeout: 2 }\n"
    theirs, ours = both(commands, tmp_path, config, play)
    assert ours == theirs == b"PING\r\nPING\r\n-ERR 'Stale Connection'\r\n"


def test_websockets_have_an_interval_of_their_own(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    def play(server: Daemon) -> object:
        port = int(next(line for line in server.log if "websocket clients" in line).rpartition(":")[2])
        with dial(port) as web, server.open() as plain:
            web.sendall(websocket.request())
            until(web, b'"xkey"')
            until(web, b"\r\n")
            plain.exchange(CONNECT)
            plain.line()
            return to_end(web), plain.exchange(b"")

    own = 'websocket { listen: "127.0.0.1:-1", no_tls: true, ping_interval: "300ms" }'
    config = f'ping_max: 1\n{own}\nping_interval: "60s"\n'
    theirs, ours = both(commands, tmp_path, config, play)
    assert ours == theirs
