"""STREAM.SNAPSHOT: a stream goes out as an archive, in chunks, while it goes on.

The archive has the messages up to the sequence that was the last one when it began, less those that are removed before
the walk gets to them. The states of consumers are taken first: no consumer of the archive is ahead of its stream.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.forms.gotext import format_time
from jetbroker.forms.sizes import friendly_bytes
from jetbroker.jetstream.account import JetStream
from jetbroker.jetstream.backup.archive import documents, tar
from jetbroker.jetstream.backup.archive.blocks import BlockWriter
from jetbroker.jetstream.backup.archive.s2 import S2Writer
from jetbroker.jetstream.backup.archive.states import to_nats
from jetbroker.jetstream.models.decode import BOOL, INT, TEXT, json_field
from jetbroker.jetstream.models.names import random_name
from jetbroker.jetstream.streams.stream import Stream
from jetbroker.routing.router import CallbackReceiver
from jetbroker.turns import Turn

_NUID = 22
_LOOK_SECONDS = 0.05  # between two looks whether somebody listens
_LEAST_SECONDS = 0.1  # from the answer to the archive's end: the nats tool gives up when it reads the end first
_DONE = b"NATS/1.0 204\r\n\r\n"
_NO_INTEREST = b"NATS/1.0 408 No Interest\r\n\r\n"
_NO_ANSWER = b"NATS/1.0 408 No Flow Response\r\n\r\n"
_DELETED = b"NATS/1.0 500 stream deleted\r\n\r\n"
_UNREADABLE = b"NATS/1.0 500 the stream's messages cannot be read\r\n\r\n"


@dataclass
class SnapshotRequest:
    """Body of STREAM.SNAPSHOT."""

    deliver_subject: str = json_field(TEXT)
    no_consumers: bool = json_field(BOOL)
    chunk_size: int = json_field(INT)
    window_size: int = json_field(INT)
    jsck: bool = json_field(BOOL)


class Snapshot:
    """One backup of one stream. `client` describes whoever asked."""

    def __init__(self, js: JetStream, stream: Stream, asked: SnapshotRequest, client: dict[str, Any]) -> None:
        self._js = js
        self._stream = stream
        self._asked = asked
        self._client = client
        self._who = f"'{js.account_name} > {stream.name}'"
        self._state: dict[str, Any] = {}
        self._consumers: list[tuple[str, bytes, bytes]] = []  # name, configuration, state
        self._began_ns = 0

    async def prepare(self, answer: dict[str, Any]) -> None:
        """Look at everything that must be known first, fill the answer in, and begin behind it. Raises StorageError."""
        if self._stream.config.storage == "memory":
            raise StorageError("no impl")
        if self._js.transfers.full:
            raise StorageError("too many backups and restores under way")
        if not self._js.transfers.claim(self._stream.name):
            raise StorageError("snapshot in progress")
        self._began_ns = time.time_ns()
        checks = "health check and " if self._asked.jsck else ""
        self._js.log.info(f"Starting {checks}snapshot for stream {self._who}")
        try:
            if self._asked.jsck:
                await self._check_messages()
            if not self._asked.no_consumers:
                await self._take_consumers()
        except BaseException as error:
            self._js.transfers.release(self._stream.name)
            self._js.log.warn(f"Snapshot of stream {self._who} failed: {error}")
            raise
        self._state = self._stream.state()
        answer |= {"config": self._stream.config.to_json(), "state": self._state}
        self._js.transfers.start(self._run())

    async def _check_messages(self) -> None:
        log: Any = self._stream.log
        turn = Turn()
        reader = BlockWriter(log, self._stream.name)
        start, last = log.first_seq, log.last_seq
        while start <= last:
            start = await _read_on(reader, start, last)
            reader.forget()
            await turn.rest()
        bad = log.lost_count()
        if bad:
            raise StorageError(f"snapshot check detected {bad} bad messages")

    async def _take_consumers(self) -> None:
        turn = Turn()
        size = 0
        for name in sorted(self._stream.consumers):
            consumer = self._stream.consumers.get(name)
            if consumer is None or consumer.state_log is None:
                continue  # one in memory is not part of what is stored
            record = consumer.snapshot()
            config = documents.document(name, consumer.created_ns, consumer.config.to_json(), of_consumer=True)
            state = await asyncio.to_thread(to_nats, record, time.time_ns() // 1_000_000_000)
            size += len(config) + len(state)
            if size > limits.JS_ARCHIVE_STATES_BYTES:
                raise StorageError("the states of the consumers are too large")
            self._consumers.append((name, config, state))
            await turn.rest()

    # --- what goes out ---

    async def _run(self) -> None:
        advisories = self._js.host.advisories
        fields = {"stream": self._stream.name, "state": self._state, "client": self._client} | self._domain()
        advisories.publish(f"$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_CREATE.{self._stream.name}", fields, "snapshot_create")
        try:
            await self._send()
        finally:
            self._js.transfers.release(self._stream.name)
        ended_ns = time.time_ns()
        fields = {
            "stream": self._stream.name,
            "start": format_time(self._began_ns),
            "end": format_time(ended_ns),
            "client": self._client,
        }
        advisories.publish(
            f"$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.{self._stream.name}",
            fields | self._domain(),
            "snapshot_complete",
        )
        took = (ended_ns - self._began_ns) / 1e9
        size = friendly_bytes(self._state["bytes"])
        self._js.log.info(f"Completed snapshot of {size} for stream {self._who} in {took:.3f}s")

    def _domain(self) -> dict[str, str]:
        domain = self._js.host.server_info.domain
        return {"domain": domain} if domain else {}

    async def _send(self) -> None:
        outlet = _Outlet(self._js, self._stream.name, self._asked)
        least = asyncio.get_running_loop().time() + _LEAST_SECONDS
        await outlet.await_interest()
        try:
            await self._send_archive(outlet)
            await asyncio.sleep(least - asyncio.get_running_loop().time())
        except _BrokenError as broken:
            why = f" ({broken.__cause__})" if broken.__cause__ is not None else ""
            self._js.log.warn(f"Snapshot of stream {self._who} ended: {broken}{why}")
            outlet.end(broken.status)
        else:
            outlet.end()
        finally:
            outlet.close()

    async def _send_archive(self, outlet: "_Outlet") -> None:
        """Raises _BrokenError."""
        try:
            async with aclosing(_one_ahead(self._archive())) as pieces:
                async for piece in pieces:
                    await outlet.send(piece)
                    if self._is_gone():
                        raise _BrokenError(_DELETED)
        except StorageError as error:
            raise _BrokenError(_DELETED if self._is_gone() else _UNREADABLE) from error

    def _is_gone(self) -> bool:
        return self._js.streams.get(self._stream.name) is not self._stream

    async def _archive(self) -> AsyncIterator[S2Writer]:
        """The archive in pieces of a few megabytes, two at most at a time: the third is written over the first."""
        now_s = self._began_ns // 1_000_000_000
        written = cycle((S2Writer(), S2Writer()))
        piece = next(written)
        piece.begin()
        for name, content in self._documents():
            piece.write(tar.member(name, content, now_s))
            if piece.size >= limits.JS_ARCHIVE_BLOCK_BYTES:
                yield piece
                piece = next(written)
                piece.clear()
        async for index, block in self._blocks():
            await asyncio.to_thread(_write_block, piece, block, index, now_s)
            yield piece
            piece = next(written)
            piece.clear()
        piece.write(tar.END)
        yield piece

    def _documents(self) -> Iterator[tuple[str, bytes]]:
        stream = self._stream
        meta = documents.document(stream.name, stream.created_ns, stream.config.to_json())
        yield documents.META, meta
        yield documents.SUM, documents.checksum(stream.name, meta)
        for name, config, state in self._consumers:
            yield documents.consumer_file(name, documents.META), config
            summed = documents.checksum(f"{stream.name}/{name}", config)
            yield documents.consumer_file(name, documents.SUM), summed
            yield documents.consumer_file(name, documents.STATE), state

    async def _blocks(self) -> AsyncIterator[tuple[int, BlockWriter]]:
        """Blocks of messages; the writer is filled anew when the next one is asked for."""
        log: Any = self._stream.log
        turn, index = Turn(), 1
        writer = BlockWriter(log, self._stream.name)
        start, last = self._state["first_seq"], self._state["last_seq"]
        while start <= last:
            start = await _read_on(writer, start, last)
            if start > last and last and writer.last_seq < last:
                writer.end_at(last, log.last_time_ns)
            if writer.size and (writer.full or start > last):
                yield index, writer
                index += 1
            await turn.rest()
        if index == 1 and last:
            writer.end_at(last, log.last_time_ns)
            yield index, writer


async def _read_on(block: BlockWriter, start: int, last: int) -> int:
    """Have more messages in the block; the sequence to go on with. A thread reads what the log itself need not."""
    if block.plan(start, last):
        start, whole = await asyncio.to_thread(block.read)
        if whole:
            return start
    return block.copy(start, last, time.monotonic_ns() + limits.JS_TRANSFER_STEP_NS)


async def _one_ahead(pieces: AsyncIterator[S2Writer]) -> AsyncGenerator[S2Writer, None]:
    """The same pieces; while one is sent the next one is made."""
    coming = asyncio.ensure_future(anext(pieces, None))
    try:
        while (piece := await coming) is not None:
            coming = asyncio.ensure_future(anext(pieces, None))
            yield piece
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


def _write_block(piece: S2Writer, block: BlockWriter, index: int, now_s: int) -> None:
    size = block.size
    piece.write(tar.header(documents.block_name(index), size, now_s))
    block.finish(index, piece)
    piece.write(tar.padding(size))


class _BrokenError(Exception):
    """The archive does not go out whole; `status` is what its receiver is told."""

    def __init__(self, status: bytes) -> None:
        super().__init__(status.decode().split("\r\n")[0].removeprefix("NATS/1.0 "))
        self.status = status


class _Outlet:
    """Chunks to a subject, some of which may be unanswered."""

    def __init__(self, js: JetStream, stream: str, asked: SnapshotRequest) -> None:
        self._router = js.host.router
        self._subject = asked.deliver_subject.encode()
        self._chunk = _within(asked.chunk_size or limits.JS_BACKUP_CHUNK_BYTES, limits.JS_BACKUP_CHUNK_RANGE)
        window = _within(asked.window_size or limits.JS_BACKUP_WINDOW_BYTES, limits.JS_BACKUP_WINDOW_RANGE)
        self._free = max(window, self._chunk) // self._chunk  # chunks that may be sent now
        self._answered = asyncio.Event()
        self._answers = f"$JS.SNAPSHOT.ACK.{stream}.{random_name(_NUID)}"
        receiver = CallbackReceiver(js.host.tick, self._on_answer)
        self._subscription = self._router.subscribe(receiver, f"{self._answers}.>".encode())
        self._waiting = b""
        self._sent = 0
        self._heard = False  # somebody listened
        self._turn = Turn()

    def _on_answer(self, *_: object) -> None:
        self._free += 1
        self._answered.set()

    async def await_interest(self) -> None:
        """Give whoever asked the time to listen."""
        until = time.monotonic() + limits.JS_BACKUP_INTEREST_SECONDS
        while not self._listens() and time.monotonic() < until:
            await asyncio.sleep(_LOOK_SECONDS)

    def _listens(self) -> bool:
        self._heard = self._heard or self._router.interested(self._subject)
        return self._heard

    async def send(self, piece: S2Writer) -> None:
        """Send what makes whole chunks. Raises _BrokenError."""
        at = rested_at = 0
        while len(self._waiting) + piece.size - at >= self._chunk:
            await self._room()
            part = piece.read(at, self._chunk - len(self._waiting))
            at += len(part)
            chunk, self._waiting = self._waiting + part, b""
            self._free -= 1
            self._sent += 1
            reply = f"{self._answers}.{len(chunk)}.{self._sent}".encode()
            self._router.publish_bytes(self._subject, reply, b"", chunk)
            if at - rested_at >= limits.JS_BACKUP_TURN_BYTES:
                rested_at = at
                await self._turn.wait()
        self._waiting += piece.read(at, piece.size - at)

    async def _room(self) -> None:
        """Wait until one more chunk may go."""
        until = time.monotonic() + limits.JS_BACKUP_ANSWER_SECONDS
        while True:
            if self._listens() and not self._router.interested(self._subject):
                raise _BrokenError(_NO_INTEREST)
            if self._free > 0:
                return
            if time.monotonic() >= until:
                raise _BrokenError(_NO_ANSWER)
            self._answered.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._answered.wait()

    def end(self, status: bytes = b"") -> None:
        """Send the rest, which nobody answers, and say that this was all, or why not."""
        if not status:
            if self._waiting:
                self._router.publish_bytes(self._subject, None, b"", self._waiting)
            status = _DONE if self._sent else b""
        self._router.publish_bytes(self._subject, None, status, b"")

    def close(self) -> None:
        """Answers are of no interest any more."""
        self._router.unsubscribe(self._subscription)


def _within(size: int, bounds: tuple[int, int]) -> int:
    low, high = bounds
    return min(max(size, low), high)
