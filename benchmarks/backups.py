"""A large stream goes out as an archive and comes back, while somebody publishes elsewhere and waits for each ack."""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cases import Case, Row
from benchmarks.raw import RawConnection, client_of
from benchmarks.servers import JETBROKER_2M, SCRATCH, BenchmarkError, Server, run_loadgen

GIB = 1 << 30
SIZE = 4096  # of a message
AT_ONCE = 256  # messages without an ack, while the stream is filled
CHUNK = 128 * 1024
READ_BYTES = 4 << 20  # of a receiver's buffer
WINDOW = 64  # chunks of a restore without an answer
ACKED = 200  # publishes of one look at the publisher's waits


def _fill(client: RawConnection, count: int) -> None:
    """Messages of random bytes, none like another: nothing is gained by packing them."""
    noise = random.Random(1).randbytes(8 << 20)
    places = random.Random(2)
    client.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "storage": "file"})
    for first in range(0, count, AT_ONCE):
        starts = [places.randrange(len(noise) - SIZE) for _ in range(first, min(first + AT_ONCE, count))]
        client.send(b"".join(b"PUB s acks %d\r\n%b\r\n" % (SIZE, noise[at : at + SIZE]) for at in starts))
        if b'"error"' in client.until(b"MSG acks ", len(starts)):
            raise BenchmarkError("a publish was refused")


class _Publisher:
    """Publishes beside what is measured, one message at a time: `p99_us` of its waits is the median of many looks."""

    def __init__(self, server: Server, loadgen: Path) -> None:
        self._server = server
        self._loadgen = loadgen
        self._found: list[float] = []
        self._failure: BenchmarkError | None = None
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        asked = ["jspub", "--msgs", str(ACKED), "--inflight", "1", "--size", "128", "--stream", "BESIDE", "--keep"]
        try:
            while not self._ends.is_set():
                self._found.append(float(run_loadgen(self._loadgen, self._server.port, asked)["p99_us"]))
        except BenchmarkError as error:
            self._failure = error

    @contextmanager
    def beside(self) -> Iterator[None]:
        """As long as this lasts."""
        self._thread.start()
        try:
            yield
        finally:
            self._ends.set()
            self._thread.join()

    @property
    def p99_us(self) -> float:
        if self._failure is not None:
            raise self._failure
        return median(self._found)


class _Chunks:
    """What comes to a connection as (reply, payload); a payload stays as it is until the next call."""

    def __init__(self, client: RawConnection) -> None:
        self._client = client
        self._data = bytearray(READ_BYTES)
        self._view = memoryview(self._data)
        self._start = self._end = 0  # of what has come

    def _have(self, size: int) -> None:
        """Read until so many bytes have come; there is room for them."""
        if self._start + size > READ_BYTES:
            left = self._end - self._start
            self._view[:left] = self._view[self._start : self._end]
            self._start, self._end = 0, left
        while self._end - self._start < size:
            self._end += self._client.receive_into(self._view[self._end :])

    def _line(self) -> list[bytes]:
        while (end := self._data.find(b"\r\n", self._start, self._end)) < 0:
            self._have(self._end - self._start + 1)
        line = bytes(self._view[self._start : end])
        self._start = end + 2
        return line.split()

    def next(self) -> tuple[bytes, memoryview]:
        """The next message's reply, b"" for none, and its payload, without its headers."""
        head = self._line()
        while head[0] not in (b"MSG", b"HMSG"):
            if head[0] == b"PING":
                self._client.send(b"PONG\r\n")
            head = self._line()
        headers = int(head[-2]) if head[0] == b"HMSG" else 0
        fields = len(head) - (head[0] == b"HMSG")
        reply = head[3] if fields == 5 else b""
        total = int(head[-1])
        self._have(total + 2)
        payload = self._view[self._start + headers : self._start + total]
        self._start += total + 2
        return reply, payload


def _back_up(server: Server, archive: Path) -> float:
    """The whole archive into a file; seconds, with its fsync."""
    with RawConnection(server.port) as client, archive.open("wb", buffering=0) as out:
        client.subscribe("answer")
        client.subscribe("chunk")
        client.sync()
        began = time.perf_counter()
        _ask(client, "STREAM.SNAPSHOT.S", {"deliver_subject": "chunk", "chunk_size": CHUNK})
        chunks = _Chunks(client)
        if "error" in (answer := json.loads(bytes(chunks.next()[1]))):
            raise BenchmarkError(str(answer["error"]))
        while True:
            reply, payload = chunks.next()
            if not payload:
                break
            out.write(payload)
            if reply:
                client.send(b"PUB %b 0\r\n\r\n" % reply)
        os.fsync(out.fileno())
        return time.perf_counter() - began


def _restore(server: Server, archive: Path, config: dict[str, Any], messages: int) -> float:
    """The archive as a stream; seconds, to the answer that it is there."""
    with RawConnection(server.port) as client, archive.open("rb") as source:
        client.subscribe("answer")
        client.sync()
        began = time.perf_counter()
        _ask(client, "STREAM.RESTORE.S", {"config": config, "state": {}})
        answers = _Chunks(client)
        subject = json.loads(bytes(answers.next()[1]))["deliver_subject"].encode()
        unanswered = 0
        while chunk := source.read(CHUNK):
            client.send(b"PUB %b answer %d\r\n%b\r\n" % (subject, len(chunk), chunk))
            unanswered += 1
            if unanswered >= WINDOW:
                answers.next()
                unanswered -= 1
        client.send(b"PUB %b answer 0\r\n\r\n" % subject)
        while not (answer := bytes(answers.next()[1])):
            continue
        elapsed = time.perf_counter() - began
        found = json.loads(answer)
        if "error" in found or found["state"]["messages"] != messages:
            raise BenchmarkError(f"not restored: {answer[:500]!r}")
        return elapsed


def _ask(client: RawConnection, subject: str, body: dict[str, Any]) -> None:
    data = client.encoded(body)
    client.send(b"PUB $JS.API.%b answer %d\r\n%b\r\n" % (subject.encode(), len(data), data))


def _copy(archive: Path) -> tuple[float, float]:
    """What the disk does by itself: seconds for as many bytes, with their fsync, and what an fdatasync takes meanwhile,
    in microseconds as `_Publisher` has them.
    """
    copy, small = archive.with_suffix(".copy"), archive.with_suffix(".small")
    found: list[float] = []
    ends = threading.Event()
    beside = threading.Thread(target=_sync_on, args=(small, ends, found))
    beside.start()
    began = time.perf_counter()
    with archive.open("rb", buffering=0) as source, copy.open("wb", buffering=0) as out:
        while chunk := source.read(1 << 20):
            out.write(chunk)
        os.fsync(out.fileno())
    elapsed = time.perf_counter() - began
    ends.set()
    beside.join()
    copy.unlink()
    small.unlink()
    return elapsed, median(found)


def _sync_on(path: Path, ends: threading.Event, found: list[float]) -> None:
    """Add a little to a file and sync it, again and again, and note each look's 99th percentile."""
    with path.open("wb", buffering=0) as file:
        while not ends.is_set():
            waits = []
            for _ in range(ACKED):
                began = time.perf_counter()
                file.write(bytes(128))
                os.fdatasync(file.fileno())
                waits.append(time.perf_counter() - began)
            found.append(sorted(waits)[ACKED * 99 // 100] * 1e6)


def _measured(gib: float) -> Callable[[Server, Path, int], dict[str, float]]:
    def measure(server: Server, loadgen: Path, divisor: int) -> dict[str, float]:
        count = int(gib * GIB) // SIZE // divisor
        archive = SCRATCH / f"{os.getpid()}-{time.monotonic_ns()}.archive"
        outward, inward = _Publisher(server, loadgen), _Publisher(server, loadgen)
        try:
            with client_of(server) as client:
                _fill(client, count)
                with outward.beside():
                    backup_s = _back_up(server, archive)
                config = client.request("STREAM.INFO.S", {})["config"]
                client.request("STREAM.DELETE.S", {})
                with inward.beside():
                    restore_s = _restore(server, archive, config, count)
            megabytes = archive.stat().st_size / 1e6
            copy_s, sync_us = _copy(archive)
        finally:
            archive.unlink(missing_ok=True)
        return {
            "backup_mb_s": megabytes / backup_s,
            "backup_p99_us": outward.p99_us,
            "restore_mb_s": megabytes / restore_s,
            "restore_p99_us": inward.p99_us,
            "copy_mb_s": megabytes / copy_s,
            "copy_sync_p99_us": sync_us,
        }

    return measure


def backup_cases(gib: float) -> list[Case]:
    """One: there and back."""
    text = f"{gib:g} GiB"
    beside = "... a publisher's round trip meanwhile, 99th percentile"
    return [
        Case(
            "js-backup",
            _measured(gib),
            (
                Row("backup_mb_s", f"backup of {text}"),
                Row("backup_p99_us", beside),
                Row("backup_p99_us", f"{beside}, 2m against 2m", ours=JETBROKER_2M),
                Row("restore_mb_s", f"restore of {text}"),
                Row("restore_p99_us", beside),
                Row("restore_p99_us", f"{beside}, 2m against 2m", ours=JETBROKER_2M),
                Row("copy_mb_s", "... the archive copied from file to file, for comparison"),
                Row("copy_sync_p99_us", "... an fdatasync beside that copy, 99th percentile, for comparison"),
            ),
        )
    ]
