"""A broker in a process of its own, on a free port, with a store that is thrown away.

from jetbroker.testing import Server

with Server(jetstream=True) as server:
    client = await nats.connect(server.url)
"""

import os
import re
import signal
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import IO

from jetbroker.testing.places import HOST, Folder, Port, ServerError, check_process

__all__ = ["Server", "ServerError"]

_LISTENING = re.compile(r"Listening for client connections on (\S+):(\d+)")
_READY = "Server is ready"
_TLS = "TLS required for client connections"


class _Output:
    """What one run of the process has written so far. Its reader does not hold the server: who forgets that ends it."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.port = 0  # 0: it has named none yet
        self.tls = False
        self.ready = threading.Event()

    def read(self, stream: IO[str]) -> None:
        """In a thread of its own: to the end."""
        with stream:
            for line in stream:
                self.log.append(line.rstrip("\n"))
                if found := _LISTENING.search(line):
                    self.port = int(found[2])
                self.tls = self.tls or _TLS in line
                if _READY in line:
                    self.ready.set()
        self.ready.set()  # it ended: start() looks for the line


class Server:
    """One server process; a context manager, or :meth:`start` and :meth:`stop` by hand.

    `arguments` are flags of the command line. With `jetstream`, streams go to `store_dir`, or to a temporary folder
    that goes away with the object. `config` is a configuration: a `str` is the text itself, a `Path` names a file.
    `port` 0 takes a free one of 127.0.0.1; the port stays the same until :meth:`close`, whatever is started and ended.
    `command` starts another program, such as a nats-server to compare with. Times are seconds.
    Raises :class:`ServerError` when the port is taken.
    """

    def __init__(
        self,
        *arguments: str,
        jetstream: bool = False,
        store_dir: str | os.PathLike[str] = "",
        config: str | os.PathLike[str] = "",
        port: int = 0,
        command: Sequence[str] = (sys.executable, "-m", "jetbroker"),
        timeout: float = 30.0,
    ) -> None:
        self.timeout = timeout
        self._process: subprocess.Popen[str] | None = None
        self._leak: weakref.finalize[[subprocess.Popen[str], int], Server] | None = None  # ends what nobody closes
        self._reader: threading.Thread | None = None
        self._output = _Output()
        self._folder = Folder(config, store_dir)
        self._place = Port(port)
        self.store_dir = self._folder.store_dir if jetstream else ""
        self._owner = os.getpid()
        self._command = [*command, "-a", HOST, "-p", str(self.port)]
        if self._folder.config_file:
            self._command += ["-c", self._folder.config_file]
        if jetstream:
            self._command += ["-js", "-sd", self.store_dir]
        self._command += arguments

    @property
    def log(self) -> list[str]:
        """The lines of its log since the last start."""
        return self._output.log

    @property
    def port(self) -> int:
        """Where clients connect; a flag may have named another than `port`."""
        return self._output.port or self._place.number

    @property
    def url(self) -> str:
        """What clients connect to."""
        return f"{'tls' if self._output.tls else 'nats'}://{HOST}:{self.port}"

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
        """Start and wait until it is ready; again after :meth:`stop` or :meth:`kill`, with the same streams.

        Raises :class:`ServerError` when it does not get ready, or runs already.
        """
        check_process(self.url, self._owner)
        if self._process is not None:
            raise ServerError(f"the server at {self.url} runs already")
        output = self._output = _Output()
        process = self._process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
        )
        self._leak = weakref.finalize(self, _kill, process, self._owner)
        if process.stderr is not None:
            self._reader = threading.Thread(target=output.read, args=(process.stderr,), daemon=True)
            self._reader.start()
        if not output.ready.wait(self.timeout) or not any(_READY in line for line in self.log):
            self.kill()
            raise ServerError(f"{' '.join(self._command)} did not get ready:\n" + "\n".join(self.log))
        return self

    def stop(self) -> int:
        """End it with SIGTERM; returns the exit code, 0 when it does not run. Raises when it does not end."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """kill -9."""
        return self._end(signal.SIGKILL)

    def reset(self) -> None:
        """All streams, consumers and connections are gone; the port is the same, and clients may connect again.

        Raises :class:`ServerError` when `store_dir` was given: what is in there is not removed.
        """
        self._folder.check_reset()
        self.kill()
        self._folder.empty_store()
        self.start()

    def close(self) -> None:
        """End it, and give the port and the temporary folder back. Harmless the second time, and in a fork."""
        if os.getpid() != self._owner:
            return
        try:
            self.stop()
        finally:
            self._folder.close()
            self._place.close()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._running().send_signal(number)

    def _running(self) -> subprocess.Popen[str]:
        check_process(self.url, self._owner)
        if self._process is None:
            raise ServerError("the server is not running")
        return self._process

    def _end(self, number: signal.Signals) -> int:
        check_process(self.url, self._owner)
        process, self._process = self._process, None
        if process is None:
            return 0
        if self._leak is not None:
            self._leak.detach()
        process.send_signal(number)
        try:
            code = process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ServerError("the server did not end in time:\n" + "\n".join(self.log)) from None
        if self._reader is not None:
            self._reader.join(self.timeout)
        return code

    def __enter__(self) -> "Server":
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        process = getattr(self, "_process", None)
        if process is not None and os.getpid() == self._owner and process.poll() is None:
            warnings.warn(f"the server at {self.url} was never closed", ResourceWarning, source=self, stacklevel=1)


def _kill(process: subprocess.Popen[str], owner: int) -> None:
    """Its server was forgotten, or the program ends: then no process stays behind."""
    if os.getpid() == owner:
        process.kill()
        process.wait()
