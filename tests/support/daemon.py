"""A broker process whose log and signals are what is tested, and raw sockets to play with it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.support.process import JETBROKER_COMMAND, ROOT, STOP_TIMEOUT_S, ServerProcess

LINE_TIMEOUT_S = 60.0
ANY_PORT = ("-a", "127.0.0.1", "-p", "-1")
CONNECT = b'CONNECT {"verbose":false,"protocol":1}\r\n'


class Daemon(ServerProcess):
    """A jetbroker (or `command`) whose log lines can be awaited and that can be signalled."""

    def __init__(self, *arguments: str, command: Sequence[str] = JETBROKER_COMMAND) -> None:
        super().__init__(command, arguments)
        self._grown = threading.Condition()

    def _add_line(self, line: str) -> None:
        with self._grown:
            super()._add_line(line)
            self._grown.notify_all()

    def wait_for(self, text: str, after: int = 0, seconds: float = LINE_TIMEOUT_S) -> str:
        """The first line with `text` behind the first `after` lines; waits for it, `seconds` at most."""

        def found() -> str | None:
            return next((line for line in self.log[after:] if text in line), None)

        with self._grown:
            if not self._grown.wait_for(lambda: found() is not None, seconds):
                raise AssertionError(f"no line with {text!r} in:\n" + "\n".join(self.log[after:]))
            return found() or ""

    def wait_until(self, reached: Callable[[Sequence[str]], bool], what: str) -> None:
        """Wait until the log is as `reached` wants it."""
        with self._grown:
            if not self._grown.wait_for(lambda: reached(self.log), LINE_TIMEOUT_S):
                raise AssertionError(f"{what} is not in:\n" + "\n".join(self.log))

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait_end(self) -> int:
        """The exit code; the process must end by itself."""
        return self.wait()

    def rss_bytes(self) -> int:
        """Resident memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def peak_bytes(self) -> int:
        """The most that was resident at any time."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))

    def open(self, *, pings: bool = False) -> Raw:
        """A raw connection, INFO read."""
        return Raw(self.port, pings=pings)


class Raw:
    """A blocking socket that speaks the client protocol by hand.

    `pings`: also show the server's own PINGs. The first one comes some seconds after the connection: where it falls
    into what is compared is a matter of how busy the machine is.
    """

    def __init__(self, port: int, *, pings: bool = False) -> None:
        self._pings = pings
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=STOP_TIMEOUT_S)
        self._rest = b""
        self.info = self.line()

    def send(self, data: bytes) -> None:
        """Send all; a server that closed already is no error here: what it said is what counts."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def line(self) -> bytes:
        """The next line without its end; b"" when the server closed."""
        return self.until(b"\r\n").removesuffix(b"\r\n")

    def until(self, end: bytes) -> bytes:
        """Everything up to and with `end`, or to the end of the connection."""
        while end not in self._rest:
            data = self._receive()
            if not data:
                found, self._rest = self._rest, b""
                return found
            self._take(data)
        found, _, self._rest = self._rest.partition(end)
        return found + end

    def to_end(self) -> bytes:
        """Everything until the server closes."""
        while data := self._receive():
            self._take(data)
        found, self._rest = self._rest, b""
        return found

    def exchange(self, data: bytes) -> bytes:
        """What comes up to the PONG that answers a PING behind `data`."""
        self.send(data + b"PING\r\n")
        return self.until(b"PONG\r\n")

    def _take(self, data: bytes) -> None:
        self._rest += data
        if not self._pings:
            self._rest = without_pings(self._rest)

    def _receive(self) -> bytes:
        try:
            return self.socket.recv(65536)
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def without_pings(received: bytes) -> bytes:
    """What a server said, without asking whether the client is still there."""
    return re.sub(rb"(?m)^PING\r\n", b"", received)


def run(*arguments: str, cwd: Path = ROOT, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Start a broker that is expected to end at once; `before`: words of a command that starts it."""
    return subprocess.run(
        [*before, *JETBROKER_COMMAND, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
