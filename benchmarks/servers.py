"""Starting, timing and stopping the servers under test; building the load generator."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / ".build"
SCRATCH = BUILD / "bench"
READY_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 15.0


class BenchmarkError(Exception):
    """A server or the load generator did not do what a measurement needs."""


@dataclass(frozen=True)
class Variant:
    """A server in one mode. `sync_interval` is None for the server's own default.

    `checkout`: where another jetbroker stands, built by `make build`; None: this one.
    """

    server: str
    sync_interval: str | None = None
    checkout: Path | None = None

    @property
    def label(self) -> str:
        server = self.server if self.checkout is None else f"{self.server} before"
        return server if self.sync_interval is None else f"{server}, sync_interval {self.sync_interval}"


JETBROKER = Variant("jetbroker")
JETBROKER_2M = Variant("jetbroker", "2m")
NATS_SERVER = Variant("nats-server")
NATS_SERVER_ALWAYS = Variant("nats-server", "always")


def find_nats_server() -> str | None:
    """The nats-server to compare with: on the PATH, else where `go install` puts it."""
    installed = Path.home() / "go" / "bin" / "nats-server"
    return shutil.which("nats-server") or (str(installed) if os.access(installed, os.X_OK) else None)


def allow_many_files() -> None:
    """Raise the limit of open files as far as it goes, for this process and those it starts."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def build_loadgen() -> Path:
    """Compile the load generator when one of its sources is newer; returns its path."""
    sources = sorted((ROOT / "benchmarks" / "loadgen").glob("*.c"))
    header = ROOT / "benchmarks" / "loadgen" / "loadgen.h"
    program = BUILD / "loadgen"
    newest = max(path.stat().st_mtime for path in [*sources, header])
    if program.exists() and program.stat().st_mtime >= newest:
        return program
    BUILD.mkdir(exist_ok=True)
    command = [os.environ.get("CC", "cc"), "-O2", "-Wall", "-pthread", "-o", str(program), *map(str, sources)]
    subprocess.run(command, check=True)
    return program


def run_loadgen(program: Path, port: int, arguments: Sequence[str], timeout_s: int = 300) -> dict[str, Any]:
    """One run of the load generator; returns its JSON line. Raises BenchmarkError with its complaint."""
    command = [str(program), arguments[0], "--port", str(port), "--timeout", str(timeout_s), *arguments[1:]]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise BenchmarkError(done.stderr.strip() or f"loadgen ended with {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """One server process with a store of its own, as a context manager; `start` may be called again after `kill`."""

    def __init__(self, variant: Variant, nats_server: str | None) -> None:
        self.variant = variant
        self.port = 0
        self.options = ""  # further lines of the configuration
        self.domain = ""  # of its JetStream
        self.process: subprocess.Popen[str] | None = None
        self.nats_server = nats_server
        self._log: deque[str] = deque(maxlen=20)
        self._directory = SCRATCH / f"{os.getpid()}-{time.monotonic_ns()}"

    def __enter__(self) -> Server:
        self._directory.mkdir(parents=True)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self._directory)

    @property
    def pid(self) -> int:
        if self.process is None:
            raise BenchmarkError("the server is not running")
        return self.process.pid

    def _command(self) -> list[str]:
        sync = f'sync_interval: "{self.variant.sync_interval}"\n' if self.variant.sync_interval else ""
        domain = f'domain: "{self.domain}"\n' if self.domain else ""
        config = self._directory / "server.conf"
        config.write_text(
            f'listen: "127.0.0.1:{self.port}"\n{self.options}'
            f'jetstream {{\n  store_dir: "{self._directory / "store"}"\n  {domain}{sync}}}\n'
        )
        if self.variant.server == "jetbroker":
            python = sys.executable if self.variant.checkout is None else self.variant.checkout / ".venv/bin/python"
            return [str(python), "-m", "jetbroker", "-c", str(config)]
        if self.nats_server is None:
            raise BenchmarkError("there is no nats-server")
        return [self.nats_server, "-c", str(config)]

    def start(self) -> float:
        """Start it; returns the seconds from exec to 'Server is ready'."""
        self.port = free_port()
        command = self._command()
        began = time.perf_counter()
        pipe, folder = subprocess.PIPE, self.variant.checkout or ROOT
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=pipe, text=True, cwd=folder)
        watchdog = threading.Timer(READY_TIMEOUT_S, self.process.kill)
        watchdog.start()
        log = self.process.stderr
        if log is None:
            raise BenchmarkError("no log to read")
        for line in log:
            self._log.append(line.rstrip())
            if "Server is ready" in line:
                elapsed = time.perf_counter() - began
                watchdog.cancel()
                threading.Thread(target=self._drain, args=(log,), daemon=True).start()
                return elapsed
        watchdog.cancel()
        raise BenchmarkError(f"{self.variant.label} did not get ready: " + " | ".join(self._log))

    def _drain(self, log: IO[str]) -> None:
        for line in log:
            self._log.append(line.rstrip())

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """SIGTERM; SIGKILL when that takes too long."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self.process = None

    def stored_messages(self, stream: str) -> int:
        """How many messages STREAM.INFO reports."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            request = f"CONNECT {{}}\r\nSUB answer 1\r\nPUB $JS.API.STREAM.INFO.{stream} answer 0\r\n\r\n"
            connection.sendall(request.encode())
            received = b""
            while b'"messages":' not in received or not received.endswith(b"\r\n"):
                data = connection.recv(65536)
                if not data:
                    raise BenchmarkError("closed while asked for STREAM.INFO")
                received += data
                if b'"error"' in received:
                    raise BenchmarkError(received.decode(errors="replace"))
        return int(received.split(b'"messages":')[1].split(b",")[0])
