"""Servers in processes of their own: jetbroker as users start it, nats-server for comparison."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from benchmarks.servers import find_nats_server as find_nats_server
from tests.support.forks import ROOT as ROOT
from tests.support.forks import Forked, forks

JETBROKER_COMMAND = (sys.executable, "-m", "jetbroker")  # is forked where a ServerProcess starts it: see forks.py
READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
# Below the ports that the kernel gives to outgoing connections, which could take one between the look and its use.
LOWEST_PORT = 10_000
PORTS_PER_WORKER = 2500
WORKERS = 8


def _ports_in_turn() -> Iterator[int]:
    """Ports without end; each worker of a parallel run has its own."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
    for turn in itertools.count(os.getpid()):
        yield LOWEST_PORT + worker * PORTS_PER_WORKER + turn % PORTS_PER_WORKER


_PORTS = _ports_in_turn()


def free_port() -> int:
    """A TCP port nobody listens on now, and no other test of this run or of one beside it is given soon."""
    for port in itertools.islice(_PORTS, PORTS_PER_WORKER):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no free port")


class ServerProcess:
    """A server on a random port of 127.0.0.1. `log` holds what it wrote on stderr so far.

    `exit_code` is that of the last run that ended, -N when signal N ended it.

    `arguments` come after the address and port flags, in nats-server's syntax. `cwd`: where it runs.
    """

    def __init__(
        self, command: Sequence[str], arguments: Sequence[str] = (), *, port: int | None = None, cwd: Path = ROOT
    ) -> None:
        self.port = free_port() if port is None else port
        self._cwd = cwd
        self.log: list[str] = []
        self._command = [*command, "-a", "127.0.0.1", "-p", str(self.port), *arguments]
        self.process: subprocess.Popen[str] | Forked | None = None
        self.exit_code: int | None = None
        self._ready = False
        self._reader: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        if self.process is None:
            raise RuntimeError("the server is not running")
        return self.process.pid

    def start(self) -> Self:
        """Start it (again) and wait until it is ready.

        Raises RuntimeError when it ended before, TimeoutError when it is not ready in time (it is killed then).
        """
        self.process = self._begun()
        if self.process.stderr is None:
            raise RuntimeError("no log to read")
        settled = threading.Event()
        self._ready = False
        self._reader = threading.Thread(target=self._read_log, args=(self.process.stderr, settled), daemon=True)
        self._reader.start()
        if not settled.wait(READY_TIMEOUT_S):
            self.kill()
            raise TimeoutError(self._failure(f"was not ready within {READY_TIMEOUT_S} s"))
        # the end of the log comes before poll() knows of the end of the process: poll() cannot tell here
        if not self._ready:
            raise RuntimeError(self._failure(f"ended with {self._wait_or_kill()} before it was ready"))
        return self

    def _begun(self) -> subprocess.Popen[str] | Forked:
        if tuple(self._command[: len(JETBROKER_COMMAND)]) == JETBROKER_COMMAND:
            return forks().start(self._command[len(JETBROKER_COMMAND) :], self._cwd)
        return subprocess.Popen(
            self._command, cwd=self._cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
        )

    def _failure(self, what: str) -> str:
        return "\n".join([f"{' '.join(self._command)} {what}:", *self.log])

    def _read_log(self, stream: IO[str], settled: threading.Event) -> None:
        with stream:
            for line in stream:
                self._add_line(line.rstrip())
                if "Server is ready" in line:
                    self._ready = True
                    settled.set()
        settled.set()  # no more lines: it ended, or is about to

    def _add_line(self, line: str) -> None:
        self.log.append(line)

    def wait(self) -> int:
        """Wait until it ended by itself; returns the exit code. Raises subprocess.TimeoutExpired when it does not."""
        if self.process is None or self._reader is None:
            raise RuntimeError("the server is not running")
        self.exit_code = self.process.wait(STOP_TIMEOUT_S)
        self._reader.join(STOP_TIMEOUT_S)
        self.process = None
        return self.exit_code

    def kill(self) -> int:
        """kill -9, and wait until it is gone."""
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGKILL)
        return self.wait()

    def stop(self) -> int:
        """SIGTERM; returns the exit code. A server that does not end in time is killed, and that is an error."""
        if self.process is None:
            return 0
        self.process.terminate()
        return self._wait_or_kill()

    def _wait_or_kill(self) -> int:
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def jetbroker(*arguments: str) -> ServerProcess:
    """A jetbroker process, not started yet."""
    return ServerProcess(JETBROKER_COMMAND, arguments)


def small_segments(store: Path, segment_bytes: int) -> ServerProcess:
    """A jetbroker process with JetStream, not started yet, in which a few messages fill a segment."""
    script = Path(__file__).with_name("killed_broker.py")
    return ServerProcess([sys.executable, str(script), "0", str(segment_bytes)], ("-js", "-sd", str(store)))


def nats_server(*arguments: str) -> ServerProcess:
    """A nats-server process, not started yet. Raises FileNotFoundError when there is none on this machine."""
    program = find_nats_server()
    if program is None:
        raise FileNotFoundError("nats-server is neither on the PATH nor in ~/go/bin")
    return ServerProcess([program], arguments)
