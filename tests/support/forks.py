"""Brokers as forks of a process that has loaded the broker's modules.

A start by `python -m jetbroker` takes ten times the processor time, nearly all of it for imports, and the suite starts
hundreds. `Forks` is the side of the tests; run as a program, this module is the process that forks.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import queue
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent.parent
# What nearly every broker has loaded when it is ready.
LOADED = (
    "cryptography.hazmat.backends.openssl.backend",
    "cryptography.hazmat.primitives.asymmetric.x25519",
    "jetbroker.config.start",
    "jetbroker.daemon.broker",
    "jetbroker.daemon.cli",
    "jetbroker.jetstream.account",
    "jetbroker.jetstream.server",
    "jetbroker.monitor.monitor",
    "jetbroker.store.store",
)
MAX_MESSAGE = 256 * 1024
START_SECONDS = 60.0  # the first one waits for the imports


class Forked:
    """A broker, with those parts of subprocess.Popen's interface that tests use."""

    def __init__(self, pid: int, handle: int, stderr: IO[str]) -> None:
        self.pid = pid
        self.stderr = stderr
        self.returncode: int | None = None  # -N: signal N ended it
        self._handle = handle
        self._over = threading.Event()

    def __del__(self) -> None:
        os.close(self._handle)

    def end(self, code: int) -> None:
        """It has ended."""
        self.returncode = code
        self._over.set()

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended. Raises subprocess.TimeoutExpired."""
        self._over.wait(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("jetbroker", timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """One that has ended does not get it."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._handle, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)


class Forks:
    """Starts brokers. The process that forks ends with this one, and so do the brokers."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.forks", str(theirs.fileno())],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
            )  # fmt: skip
        self._lock = threading.Lock()  # one start at a time
        self._running: dict[int, Forked] = {}
        self._errors: queue.SimpleQueue[IO[str]] = queue.SimpleQueue()
        self._started: queue.SimpleQueue[Forked | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def start(self, arguments: Sequence[str], cwd: Path) -> Forked:
        """`python -m jetbroker` with these arguments; the process's `stderr` is a pipe.

        Raises RuntimeError when the process that forks has ended; what ended it is on stderr.
        """
        reading, writing = os.pipe()
        asked = json.dumps({"arguments": list(arguments), "cwd": str(cwd), "environment": dict(os.environ)})
        with self._lock:
            self._errors.put(os.fdopen(reading, encoding="utf-8", errors="replace"))
            socket.send_fds(self._control, [asked.encode()], [writing])
            os.close(writing)
            forked = self._started.get(timeout=START_SECONDS)
        if forked is None:
            raise RuntimeError("the process that forks brokers has ended")
        return forked

    def _listen(self) -> None:
        while True:
            data, handles, _, _ = socket.recv_fds(self._control, MAX_MESSAGE, 1)
            if not data:
                self._started.put(None)
                return
            pid, code = json.loads(data)
            if handles:
                self._running[pid] = Forked(pid, handles[0], self._errors.get())
                self._started.put(self._running[pid])
            else:
                self._running.pop(pid).end(code)


@functools.cache
def forks() -> Forks:
    """Those of this process."""
    return Forks()


def fork_on_request(control: socket.socket) -> dict[str, Any]:
    """Forks until the other side is gone. Returns in each fork, with what was asked for."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever runs the tests ends the other side
    signal.set_wakeup_fd(wake)
    pids: set[int] = set()
    while True:
        ready, _, _ = select.select([control.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _tell_of_ends(control, pids)
        if control.fileno() not in ready:
            continue
        data, errors, _, _ = socket.recv_fds(control, MAX_MESSAGE, 1)
        if not data:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
            sys.exit(0)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.dup2(errors[0], 2)
            for number in (*errors, woken, wake, control.detach()):
                os.close(number)
            return dict(json.loads(data))
        os.close(errors[0])
        handle = os.pidfd_open(pid)
        socket.send_fds(control, [json.dumps([pid, None]).encode()], [handle])
        os.close(handle)
        pids.add(pid)


def _tell_of_ends(control: socket.socket, pids: set[int]) -> None:
    for pid in [*pids]:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            pids.remove(pid)
            control.send(json.dumps([pid, os.waitstatus_to_exitcode(status)]).encode())


def main() -> None:
    for module in LOADED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    asked = fork_on_request(socket.socket(fileno=int(sys.argv[1])))
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["cwd"])
    sys.argv = ["jetbroker", *asked["arguments"]]
    runpy.run_module("jetbroker", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
