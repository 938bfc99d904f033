"""A broker in a process of its own, on a free port, with a store that is thrown away.

from jetbroker.testing import Server

with Server(jetstream=True) as server:
    client = await nats.connect(server.url)
"""

import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import IO

from jetbroker.errors import JetbrokerError

_LISTENING = re.compile(r"Listening for client connections on (\S+):(\d+)")
_READY = "Server is ready"


class ServerError(JetbrokerError):
    """The server did not start or did not end. The text holds its log."""


class Server:
    """One server process; a context manager, or :meth:`start` and :meth:`stop` by hand.

    `arguments` are flags of the command line. With `jetstream`, streams go to `store_dir`, or to a temporary directory
    that goes away with the object. `command` starts another program, such as a nats-server to compare with.
    Times are seconds. Started again after :meth:`stop` or :meth:`kill`, it gets another port and the same store.
    """

    def __init__(
        self,
        *arguments: str,
        jetstream: bool = False,
        store_dir: str = "",
        command: Sequence[str] = (sys.executable, "-m", "jetbroker"),
        timeout: float = 30.0,
    ) -> None:
        self.log: list[str] = []
        self.port = 0
        self.timeout = timeout
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._ready = threading.Event()
        self._command = [*command, "-a", "127.0.0.1", "-p", "-1", *arguments]
        if jetstream:
            if not store_dir:
                self._temporary = tempfile.TemporaryDirectory(prefix="jetbroker-")
                store_dir = self._temporary.name
            self._command += ["-js", "-sd", store_dir]
        self.store_dir = store_dir

    @property
    def url(self) -> str:
        """What clients connect to."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id; raises :class:`ServerError` when it does not run."""
        return self._running().pid

    @property
    def running(self) -> bool:
        """Was it started, and neither stopped nor killed since? It may have ended by itself."""
        return self._process is not None

    def ended(self, seconds: float = 0.0) -> int | None:
        """The exit code when it ends by itself within so long, -N when signal N ended it; None: it runs on."""
        try:
            return self._running().wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def start(self) -> "Server":
        """Start and wait until it is ready; raises :class:`ServerError`."""
        self.log = []
        self._ready = threading.Event()
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
        )
        stderr = self._process.stderr
        if stderr is not None:
            self._reader = threading.Thread(target=self._read, args=(stderr, self.log, self._ready), daemon=True)
            self._reader.start()
        if not self._ready.wait(self.timeout) or not any(_READY in line for line in self.log):
            self.kill()
            raise ServerError(f"{' '.join(self._command)} did not get ready:\n" + "\n".join(self.log))
        return self

    def stop(self) -> int:
        """End it with SIGTERM; returns the exit code, 0 when it does not run. Raises when it does not end."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """kill -9."""
        return self._end(signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._running().send_signal(number)

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise ServerError("the server is not running")
        return self._process

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(number)
        try:
            code = process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ServerError("the server did not end in time:\n" + "\n".join(self.log)) from None
        if self._reader is not None:
            self._reader.join(self.timeout)
        self.port = 0
        return code

    def _read(self, stream: IO[str], log: list[str], ready: threading.Event) -> None:
        with stream:
            for line in stream:
                log.append(line.rstrip("\n"))
                if found := _LISTENING.search(line):
                    self.port = int(found[2])
                if _READY in line:
                    ready.set()
        ready.set()  # it ended: start() looks for the line

    def __enter__(self) -> "Server":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            if self._temporary is not None:
                self._temporary.cleanup()
