"""How a server starts and ends: nats-server and jetbroker write the same lines and do the same to their clients."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support import certificates
from tests.support.daemon import CONNECT, Daemon, Raw
from tests.support.process import ROOT
from tests.support.reloads import Edited

OLD = b'CONNECT {"verbose":false}\r\n'
LAME_DUCK = 'lame_duck_duration: "30s"\nlame_duck_grace_period: "1s"\n'
WEBSOCKET = 'websocket { listen: "127.0.0.1:-1", no_tls: true }\n'
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


Play = Callable[[Edited], object]


def both(commands: list[tuple[str, ...]], folder: Path, text: str, play: Play, *arguments: str) -> list[list[object]]:
    """What `play` gives, the exit code, and the log from the first signal on, of both."""
    found: list[list[object]] = []
    for number, command in enumerate(commands):
        with Edited(folder / f"{number}.conf", "server_name: S\n" + text, command, *arguments) as server:
            seen = len(server.log)
            result = play(server)
            code = server.wait_end()
            lines = [server.normal(line) for line in server.log[seen:]]
            found.append([result, code, [line for line in lines if "[DBG]" not in line and "JETSTREAM" not in line]])
    return found


def greeted(server: Daemon, connect: bytes = CONNECT) -> Raw:
    client = server.open()
    client.exchange(connect)
    if connect is CONNECT:
        client.line()
    return client


def ldm(line: bytes) -> dict[str, object]:
    """An INFO without what differs from server to server."""
    info = json.loads(line.removeprefix(b"INFO "))
    other = ("server_id", "go", "port", "client_id", "xkey", "git_commit")
    return {name: value for name, value in info.items() if name not in other}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_end_with_clients(number: signal.Signals, commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    def play(server: Edited) -> object:
        clients = [greeted(server), greeted(server, OLD), server.open()]
        server.send(number)
        return [client.to_end() for client in clients]

    theirs, ours = both(commands, tmp_path, WEBSOCKET, play, "-m", "-1")
    assert ours == theirs


def test_a_lame_duck_without_clients(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    theirs, ours = both(commands, tmp_path, WEBSOCKET, lambda server: server.send(signal.SIGUSR2), "-m", "-1")
    assert ours == theirs


def test_a_lame_duck(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    """New clients are refused at once; those of protocol 1 are told; signals that come meanwhile change nothing."""

    def play(server: Edited) -> object:
        told, old, silent, early = greeted(server), greeted(server, OLD), server.open(), server.open()
        early.send(b'CONNECT {"protocol":1}\r\n')  # no PING yet
        assert early.until(b"+OK\r\n") == b"+OK\r\n"
        server.send(signal.SIGUSR2)
        heard = ldm(told.line())
        refused = []
        for _ in range(2):
            with pytest.raises(ConnectionRefusedError):
                server.open()
            refused.append(True)
        server.wait_for("Entering lame duck mode")
        for number in (signal.SIGUSR2, signal.SIGTERM, signal.SIGUSR1):
            before = len(server.log)
            server.send(number)
            server.wait_for("Trapped", before)
        return heard, refused, *(client.to_end() for client in (old, told, silent, early))

    theirs, ours = both(commands, tmp_path, LAME_DUCK, play)
    assert ours == theirs


def test_a_lame_duck_is_interrupted(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    def play(server: Edited) -> object:
        told = greeted(server)
        server.send(signal.SIGUSR2)
        heard = ldm(told.line())
        server.send(signal.SIGINT)
        return heard, told.to_end()

    theirs, ours = both(commands, tmp_path, LAME_DUCK, play)
    assert ours == theirs


def test_websocket_clients_are_told_too(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    def play(server: Edited) -> object:
        port = int(next(line for line in server.log if "websocket clients on" in line).rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client, client.makefile("rb") as answers:
            client.sendall(UPGRADE)
            while answers.readline().strip():
                pass
            first = answers.readline()
            client.sendall(frame(CONNECT + b"PING\r\n"))
            while b"connect_info" not in answers.readline():
                pass
            server.send(signal.SIGUSR2)
            while b"ldm" not in (heard := answers.readline()):
                pass  # a PING
            rest = answers.read()
        return ldm(first[first.index(b"INFO") :].strip()), ldm(heard[heard.index(b"INFO") :].strip()), rest

    theirs, ours = both(commands, tmp_path, LAME_DUCK + WEBSOCKET, play)
    assert ours == theirs


def frame(data: bytes) -> bytes:
    """A masked binary frame of up to 65,535 bytes; the mask is zero."""
    return b"\x82\xfe" + len(data).to_bytes(2, "big") + bytes(4) + data


# --- the command line's signals ---

SIGNALS = {"stop": -9, "quit": 0, "term": 0, "ldm": 0}


@pytest.mark.parametrize("name", SIGNALS)
def test_signal_commands_end_it(name: str, commands: list[tuple[str, ...]]) -> None:
    for command in commands:
        with Daemon(command=command) as server:
            done = tell(command, f"{name}={server.pid}")
            assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
            assert server.wait_end() == SIGNALS[name]


def test_signal_commands_that_do_not_end_it(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    found = []
    for number, command in enumerate(commands):
        pid_file = tmp_path / f"{number}.pid"
        with Edited(tmp_path / f"{number}.conf", "max_payload: 5\n", command, "-P", str(pid_file)) as server:
            seen = len(server.log)
            for name, line in (("reload", "Reloaded server configuration"), ("reopen", "File log re-open")):
                assert tell(command, f"{name}={pid_file}").returncode == 0
                server.wait_for(line, seen)
            found.append([server.normal(line) for line in server.log[seen:]])
    assert found[0] == found[1]


def test_signal_commands_that_fail(commands: list[tuple[str, ...]]) -> None:
    for text in ("nope=1", "reload=x", "reload=999999"):
        answers = []
        for command in commands:
            done = tell(command, text)
            answers.append((done.returncode, done.stdout, done.stderr.replace("jetbroker", "nats-server")))
        assert answers[0] == answers[1]


def tell(command: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command, "-sl", text], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)


# --- the log of a start ---

STARTS = {
    "nothing": ("", ()),
    "monitoring": ("", ("-m", "-1")),
    "websocket": (WEBSOCKET, ("-m", "-1")),
    "secure": ('TLS\nwebsocket { listen: "127.0.0.1:-1", TLS }\nhttps: "127.0.0.1:-1"\n', ()),
    "tls available": ("TLS\nallow_non_tls: true\n", ()),
    "tls first": ("TLS_FIRST\n", ()),
    "proxy": ("proxy_protocol: true\n", ()),
    "warnings": ("max_payload: 9000000\nauthorization { user: a, password: b }\n", ()),
    "token": ("authorization { token: b }\n", ()),
    "advertised": ('client_advertise: "h:1"\n', ()),
}


@pytest.mark.parametrize("name", STARTS)
def test_log_of_a_start(name: str, commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    text, arguments = STARTS[name]
    if "TLS" in text:
        made = certificates.make(tmp_path)
        files = f'cert_file: "{made.server.cert}", key_file: "{made.server.key}"'
        text = text.replace("TLS_FIRST", f"tls {{ {files}, handshake_first: true }}")
        text = text.replace("TLS", f"tls {{ {files} }}")
    found = []
    for number, command in enumerate(commands):
        with Edited(tmp_path / f"{number}.conf", text, command, *arguments) as server:
            found.append([settled(server.normal(line)) for line in server.log])
    assert found[0] == found[1]


def settled(line: str) -> str:
    """Without ids, ports, the program's name, its build, and what comes behind the version."""
    line = line.replace("Starting jetbroker", "Starting nats-server")
    line = re.sub(r"\bN[A-Z2-7]{55}\b", "ID", line)
    line = re.sub(r"(127\.0\.0\.1|localhost):\d+", r"\1:PORT", line)
    return re.sub(r"(Version:  \S+|Git: ).*", r"\1", line)


def test_ports_and_pid_files(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    found = []
    for number, command in enumerate(commands):
        folder = tmp_path / str(number)
        folder.mkdir()
        arguments = ("-m", "-1", "--ports_file_dir", str(folder), "-P", str(tmp_path / f"{number}.pid"))
        with Edited(tmp_path / f"{number}.conf", WEBSOCKET, command, *arguments) as server:
            end = time.monotonic() + 10
            while not (text := "".join(file.read_text() for file in folder.iterdir())) and time.monotonic() < end:
                time.sleep(0.01)  # nats-server makes it behind "Server is ready", and then writes it
            content = json.loads(text)
            pid = (tmp_path / f"{number}.pid").read_text() == str(server.pid)
            server.stop()
        shown = {kind: [re.sub(r":\d+$", ":PORT", url) for url in urls] for kind, urls in content.items()}
        found.append((shown, pid, list(folder.iterdir()), (tmp_path / f"{number}.pid").exists()))
    assert found[0] == found[1]
