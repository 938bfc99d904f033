"""Consumers that do not read: how much the others notice of them.

A publisher sends 4 MB/s to everyone who subscribes to `flood`. Meanwhile the round trips of two other clients are
timed, in turn with the same traffic read as it should be. What the load generator's p99 grows by is the disturbance.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.cases import Case, Row
from benchmarks.servers import BenchmarkError, Server, run_loadgen

ROUNDS = 2  # each quiet and hostile; the best of each counts: anything else of the machine only adds
ROUND_TRIPS = 5_000
HOSTILE = 5  # at a time; who is cut off comes again
FLOOD = b"PUB flood 1024\r\n" + b"x" * 1024 + b"\r\n"
FLOOD_PER_STEP = 40
STEP_SECONDS = 0.01
FILL_SECONDS = 2.0  # until the buffers of those who do not read are full, the kernel's too, and the first are cut off
RECEIVE_BYTES = 4096  # the kernel's buffer of those who do not read
OPTIONS = "max_pending: 1MB\nwrite_deadline: 2s\n"


def _connect(port: int, commands: bytes, *, receive_bytes: int = 0) -> socket.socket:
    connection = socket.socket()
    if receive_bytes:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    connection.connect(("127.0.0.1", port))
    connection.sendall(b'CONNECT {"verbose":false}\r\n' + commands + b"PING\r\n")
    return connection


def _request(port: int, subject: str, body: dict[str, object]) -> None:
    payload = json.dumps(body)
    with _connect(port, f"SUB answer 1\r\nPUB {subject} answer {len(payload)}\r\n{payload}\r\n".encode()) as connection:
        connection.settimeout(10)
        received = b""
        while b"MSG answer" not in received or not received.endswith(b"}\r\n"):
            data = connection.recv(65536)
            if not data:
                raise BenchmarkError(f"closed while asked for {subject}")
            received += data
    if b'"error"' in received:
        raise BenchmarkError(received.decode(errors="replace"))


class _Background:
    """Threads that do `step` until the end; an OSError ends the one it hits only when the end has come."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.threads: list[threading.Thread] = []

    def run(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self.threads.append(thread)
        thread.start()

    def end(self) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()

    def publish(self, port: int) -> None:
        with _connect(port, b"") as connection:
            while not self.over.wait(STEP_SECONDS):
                connection.sendall(FLOOD * FLOOD_PER_STEP)
                with contextlib.suppress(BlockingIOError):
                    connection.recv(4096, socket.MSG_DONTWAIT)

    def read(self, port: int) -> None:
        with _connect(port, b"SUB flood 1\r\n") as connection:
            connection.settimeout(0.2)
            while not self.over.is_set():
                with contextlib.suppress(TimeoutError):
                    connection.recv(1 << 20)

    def hold(self, port: int, commands: bytes, *, drip: bool) -> None:
        """Subscribe and read nothing, or a byte a second; come again when cut off."""
        while not self.over.is_set():
            with _connect(port, commands, receive_bytes=RECEIVE_BYTES) as connection:
                while not self.over.wait(1.0 if drip else 0.2):
                    try:
                        gone = not connection.recv(1, 0 if drip else socket.MSG_PEEK)
                        connection.send(b"PONG\r\n")
                    except OSError:
                        gone = True
                    if gone:
                        break


@contextlib.contextmanager
def _traffic(port: int, hostile: str) -> Iterator[None]:
    """The flood, and those who take it: `hostile` is how ("" : as they should)."""
    background = _Background()
    background.run(lambda: background.publish(port))
    for index in range(HOSTILE):
        if not hostile:
            background.run(lambda: background.read(port))
            continue
        commands = f"SUB push.{index} 1\r\n" if hostile == "push" else "SUB flood 1\r\n"
        background.run(partial(background.hold, port, commands.encode(), drip=hostile == "drip"))
    try:
        time.sleep(FILL_SECONDS)
        yield
    finally:
        background.end()


def _push_consumers(port: int) -> None:
    stream = {"name": "FLOOD", "subjects": ["flood"], "storage": "memory", "max_bytes": 16 << 20}
    _request(port, "$JS.API.STREAM.CREATE.FLOOD", stream)
    for index in range(HOSTILE):
        name = f"push{index}"
        config = {"durable_name": name, "deliver_subject": f"push.{index}", "ack_policy": "none"}
        _request(port, f"$JS.API.CONSUMER.DURABLE.CREATE.FLOOD.{name}", {"stream_name": "FLOOD", "config": config})


def _disturbance(hostile: str) -> Callable[[Server, Path, int], dict[str, float]]:
    def measure(server: Server, loadgen: Path, divisor: int) -> dict[str, float]:
        server.options = OPTIONS
        server.start()
        if hostile == "push":
            _push_consumers(server.port)
        best = {"": float("inf"), hostile: float("inf")}
        for _ in range(ROUNDS):
            for kind in best:
                with _traffic(server.port, kind):
                    result = run_loadgen(loadgen, server.port, ["reqrep", "--msgs", str(ROUND_TRIPS // divisor)])
                best[kind] = min(best[kind], float(result["p99_us"]))
        return {"p99_us": best[hostile], "disturbance": best[hostile] / best[""]}

    return measure


def hostile_cases() -> list[Case]:
    """In the order of the report."""
    kinds = {"never": "never read", "drip": "read 1 byte a second", "push": "never read, push consumers"}
    return [
        Case(
            f"hostile-{kind}",
            _disturbance(kind),
            (
                Row("p99_us", f"{HOSTILE} subscribers {text}: others' round trip, 99th percentile"),
                Row("disturbance", f"{HOSTILE} subscribers {text}: the same, to that with readers", at_most=1.1),
            ),
        )
        for kind, text in kinds.items()
    ]
