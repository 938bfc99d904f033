"""Signals, under load too: how a broker ends, reopens its log, and retires."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import bcrypt
import nats
import pytest

from tests.support.daemon import ANY_PORT, CONNECT, Daemon
from tests.support.process import ROOT

PATIENCE_S = 20.0
STORED = 5000
LAME_DUCK = 'lame_duck_duration: "30s"\nlame_duck_grace_period: "1s"\n'
LONG_LAME_DUCK = 'lame_duck_duration: "120s"\nlame_duck_grace_period: "60s"\n'  # more than an end is waited for


@contextmanager
def load(daemon: Daemon, subject: bytes) -> Iterator[None]:
    """A client that publishes as fast as it can, and one that receives it all; both end when the broker does."""
    publisher, subscriber = daemon.open(), daemon.open()
    subscriber.exchange(CONNECT + b"SUB %b 1\r\n" % subject)
    publisher.exchange(CONNECT)
    block = b"PUB %b acks 100\r\n%b\r\n" % (subject, b"x" * 100) * 500

    def publish() -> None:
        with suppress(OSError):
            while True:
                publisher.socket.sendall(block)

    def read() -> None:
        with suppress(OSError):
            while subscriber.socket.recv(1 << 20):
                started.set()

    started = threading.Event()
    threads = [threading.Thread(target=publish), threading.Thread(target=read)]
    for thread in threads:
        thread.start()
    try:
        assert started.wait(PATIENCE_S)
        yield
    finally:
        for thread in threads:
            thread.join(2 * PATIENCE_S)
        publisher.close()
        subscriber.close()


def test_an_interrupt_before_the_broker_runs_ends_it_without_a_word() -> None:
    program = (
        "import signal\n"
        "from jetbroker.daemon import cli\n"
        "cli.load_options = lambda line: signal.raise_signal(signal.SIGINT)\n"
        "cli.main([])\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_about_files_does_not_end_a_start(number: signal.Signals) -> None:
    program = (
        "import signal\n"
        "from jetbroker.daemon import cli\n"
        f"cli.load_options = lambda line: signal.raise_signal({int(number)}) or exit('went on')\n"
        "cli.main(['-p', '-1'])\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=30)
    assert (ended.returncode, ended.stderr) == (1, "went on\n")


@pytest.mark.parametrize(("number", "name"), [(signal.SIGTERM, "terminated"), (signal.SIGINT, "interrupt")])
def test_ends_promptly_under_load(number: signal.Signals, name: str, tmp_path: Path) -> None:
    with Daemon("-js", "-sd", str(tmp_path)) as daemon:
        with daemon.open() as client:
            body = b'{"name":"S","subjects":["s"]}'
            client.send(CONNECT + b"SUB r 1\r\nPUB $JS.API.STREAM.CREATE.S r %d\r\n%b\r\n" % (len(body), body))
            client.until(b'"did_create":true')
        with load(daemon, b"s"):
            daemon.send(number)
            assert daemon.wait_end() == 0
        text = "\n".join(daemon.log)
        lines = [f'Trapped "{name}" signal', "Initiating Shutdown...", "JetStream Shutdown", "Server Exiting.."]
        assert sorted(lines, key=text.index) == lines
        assert "[ERR]" not in text


def test_signals_that_come_while_it_ends(tmp_path: Path) -> None:
    with Daemon("-js", "-sd", str(tmp_path)) as daemon:
        with load(daemon, b"s"):
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2, signal.SIGTERM, signal.SIGINT):
                with suppress(ProcessLookupError):
                    daemon.send(number)
            assert daemon.wait_end() == 0
        assert "[ERR]" not in "\n".join(daemon.log).replace("[ERR] Failed to reload server configuration: can only", "")


def test_a_client_that_does_not_read_holds_up_nothing() -> None:
    with Daemon() as daemon, daemon.open() as deaf:
        deaf.exchange(CONNECT + b"SUB s 1\r\n")
        with daemon.open() as publisher:
            publisher.exchange(CONNECT + (b"PUB s 100000\r\n" + b"x" * 100_000 + b"\r\n") * 100)
        daemon.send(signal.SIGTERM)
        assert daemon.wait_end() == 0


def test_password_checks_that_wait_hold_up_nothing(tmp_path: Path) -> None:
    hashed = bcrypt.hashpw(b"right", bcrypt.gensalt(10)).decode()  # some hundredths of a second each
    (tmp_path / "conf").write_text(f'authorization {{ users: [ {{user: u, password: "{hashed}"}} ], timeout: 60s }}\n')
    with Daemon("-c", str(tmp_path / "conf")) as daemon, ExitStack() as stack:
        clients = [stack.enter_context(daemon.open()) for _ in range(300)]
        for client in clients:
            client.send(b'CONNECT {"user":"u","pass":"wrong"}\r\n')
        assert clients[0].to_end().replace(b"PING\r\n", b"") == b"-ERR 'Authorization Violation'\r\n"
        daemon.send(signal.SIGTERM)
        assert daemon.wait_end() == 0


def test_what_was_queued_is_sent_before_the_end() -> None:
    with Daemon() as daemon, daemon.open() as reader:
        reader.exchange(CONNECT + b"SUB s 1\r\n")
        with daemon.open() as publisher:
            publisher.exchange(CONNECT + (b"PUB s 1000\r\n" + b"x" * 1000 + b"\r\n") * 2000)
        daemon.send(signal.SIGTERM)
        assert reader.to_end().count(b"MSG s 1 1000\r\n") == 2000
        assert daemon.wait_end() == 0


def test_usr1_reopens_the_log(tmp_path: Path) -> None:
    path = tmp_path / "log"
    process = subprocess.Popen([sys.executable, "-m", "jetbroker", *ANY_PORT, "-l", str(path)], cwd=ROOT)
    try:
        wait_for_text(path, "Server is ready")
        path.rename(tmp_path / "old")
        process.send_signal(signal.SIGUSR1)
        wait_for_text(path, "File log re-opened")
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
    assert "Server Exiting.." in path.read_text()
    assert "Server Exiting.." not in (tmp_path / "old").read_text()


def test_lame_duck_without_clients_ends_at_once(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text(LONG_LAME_DUCK)
    with Daemon("-js", "-sd", str(tmp_path), "-c", str(tmp_path / "conf")) as daemon:
        daemon.send(signal.SIGUSR2)
        assert daemon.wait_end() == 0
        text = "\n".join(daemon.log)
        assert "Entering lame duck mode, stop accepting new clients" in text
        assert "Closing existing clients" not in text


def test_lame_duck_tells_waits_and_closes(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text(LAME_DUCK)
    with Daemon("-c", str(tmp_path / "conf")) as daemon, daemon.open() as told, daemon.open() as old:
        told.exchange(CONNECT + b"SUB s 1\r\n")
        told.line()  # the second INFO
        old.exchange(b'CONNECT {"verbose":false}\r\n')
        daemon.send(signal.SIGUSR2)
        info = told.line()
        assert info.startswith(b"INFO {") and b'"ldm":true' in info and b"connect_info" not in info
        with pytest.raises(ConnectionRefusedError):
            daemon.open()
        daemon.send(signal.SIGTERM)  # it is on its way out: not hurried
        old.exchange(b"PUB s 2\r\nhi\r\n")
        assert told.until(b"hi\r\n") == b"MSG s 1 2\r\nhi\r\n"
        assert (told.to_end(), old.to_end()) == (b"", b"")
        assert daemon.wait_end() == 0
        text = "\n".join(daemon.log)
        lines = [
            'Trapped "user defined signal 2" signal',
            "Entering lame duck mode, stop accepting new clients",
            'Trapped "terminated" signal',
            "Closing existing clients",
            "Initiating Shutdown...",
            "Server Exiting..",
        ]
        assert sorted(lines, key=text.index) == lines


def test_an_interrupt_ends_a_lame_duck(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text(LONG_LAME_DUCK)
    with Daemon("-js", "-sd", str(tmp_path), "-c", str(tmp_path / "conf")) as daemon, daemon.open() as client:
        client.exchange(CONNECT)
        client.line()
        daemon.send(signal.SIGUSR2)
        assert b'"ldm":true' in client.line()
        daemon.send(signal.SIGINT)
        assert daemon.wait_end() == 0


def test_a_restart_after_each_way_to_end_finds_a_clean_store(tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
        with Daemon("-js", "-sd", str(tmp_path)) as daemon:
            assert not [line for line in daemon.log if "[WRN]" in line or "[ERR]" in line]
            daemon.send(number)
            assert daemon.wait_end() == 0


async def test_an_end_that_is_asked_for_while_it_recovers_loses_nothing(tmp_path: Path) -> None:
    daemon = Daemon("-js", "-sd", str(tmp_path))
    with daemon:
        client = await nats.connect(daemon.url)
        await client.jetstream().add_stream(name="S", subjects=["s"])
        for _ in range(STORED - 1):
            await client.publish("s", b"payload")
        assert (await client.jetstream().publish("s", b"payload")).seq == STORED
        await client.close()
        daemon.kill()  # so the next start reads each record

        command = [sys.executable, "-m", "jetbroker", *ANY_PORT, "-js", "-sd", str(tmp_path)]
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as again:
            assert again.stderr is not None
            log = []
            for line in again.stderr:
                log.append(line)
                if line.endswith("Starting JetStream\n"):
                    again.terminate()
            assert again.wait(PATIENCE_S) == 0
        assert any("Trapped" in line for line in log), log
        assert not [line for line in log if "[ERR]" in line or "[FTL]" in line]

        daemon.start()
        client = await nats.connect(daemon.url)
        state = (await client.jetstream().stream_info("S")).state
        assert (state.messages, state.last_seq) == (STORED, STORED)
        await client.close()


def wait_for_text(path: Path, text: str) -> None:
    """The broker writes the file; there is no event to wait for."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        with suppress(FileNotFoundError):
            if text in path.read_text():
                return
        threading.Event().wait(0.01)
    raise AssertionError(f"{text!r} never appeared in {path}")
