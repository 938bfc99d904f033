"""An archive becomes a stream: its files are read as they come, and what they hold is staged beside the streams."""

import asyncio
import time
from contextlib import suppress

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.jetstream.account import ArrivedConsumer, JetStream
from jetbroker.jetstream.backup.archive import documents
from jetbroker.jetstream.backup.archive.blocks import ArchiveError, BlockReader
from jetbroker.jetstream.backup.archive.documents import Member
from jetbroker.jetstream.backup.archive.index import DeletedIndex
from jetbroker.jetstream.backup.archive.s2 import S2Error, S2Reader
from jetbroker.jetstream.backup.archive.states import from_nats
from jetbroker.jetstream.backup.archive.tar import Begin, Data, TarReader
from jetbroker.jetstream.models.config import StreamConfig
from jetbroker.jetstream.models.names import valid_name
from jetbroker.jetstream.streams.stream import Stream
from jetbroker.store.log.staging import Staging
from jetbroker.turns import Turn

_BOUNDS = {documents.STATE: limits.JS_ARCHIVE_STATE_BYTES}


class Arrival:
    """One archive on its way in. Nothing of it is seen before `finish`, and nothing is left after `discard`."""

    def __init__(self, js: JetStream, config: StreamConfig) -> None:
        self._js = js
        self._config = config
        self._s2 = S2Reader()
        self._tar = TarReader()
        self._blocks = BlockReader(config.name)
        self._staging: Staging | None = None
        self._member: Member | None = None
        self._content = bytearray()  # of a document
        self._documents: dict[tuple[str, str], bytes] = {}  # by consumer ("": the stream) and kind
        self._kept = 0
        self._size = 0  # that the archive's files say they have
        self._last_block = 0
        self._written = 0  # bytes of messages, when the last commit began
        self._committing: asyncio.Task[None] | None = None  # those in front of them

    async def take(self, chunks: list[bytes]) -> None:
        """More of the archive. Raises ArchiveError, ApiError or StorageError."""
        if self._tar.done:
            return  # behind its end nothing counts
        turn, more = Turn(), True
        for chunk in chunks:
            self._s2.feed(chunk)
        while more:
            blocks, more = await self._next_blocks()
            for block in blocks:
                for part in self._tar.read(block):
                    if isinstance(part, Begin):
                        await self._begin(part)
                    elif isinstance(part, Data):
                        await self._data(part.data, turn)
                    else:
                        await self._end(turn)
                    await turn.rest()
                await turn.rest()  # blocks may be empty
        await self._store(turn)

    async def complete(self) -> None:
        """All of the archive is there: remove what its index says. Raises as `take`."""
        if not self._tar.done and (self._s2.held or not self._tar.between_files):
            raise ArchiveError("unexpected EOF")
        await self._committed()
        if self._staging is not None:
            await self._staging.log.commit()
        found = self._documents.pop(("", documents.INDEX), None)
        if found is None or self._staging is None:
            return
        index = await asyncio.to_thread(DeletedIndex.read, found, self._config.name)
        turn, log = Turn(), self._staging.log
        while index is not None and index.remove(log, time.monotonic_ns() + limits.JS_TRANSFER_STEP_NS):
            await turn.rest()

    async def finish(self) -> Stream:
        """The stream that the archive held, behind `complete`. Raises as `take`."""
        meta = self._documents.get(("", documents.META))
        if meta is None:
            raise ArchiveError(f"open {documents.META}: no such file or directory")
        head = documents.read_stream(meta)
        if head.name != self._config.name:
            raise ArchiveError("stream names do not match")
        self._check_sum(self._config.name, "", meta)
        staging = await self._stage()
        pending = staging.log.messages + limits.CONSUMER_PENDING  # at most
        consumers, turn = [], Turn()
        for name in sorted({of for of, _ in self._documents if of}):
            consumers.append(await self._consumer(name, pending))
            await turn.rest()
        staging.log.meta["created"] = head.created_ns or staging.log.meta["created"]
        stream = await self._js.adopt_stream(self._config, staging, consumers)
        self._staging = None
        return stream

    async def discard(self) -> None:
        """Nothing of the archive is left. Raises StorageError when the disk refuses that; the next start does it."""
        with suppress(StorageError):
            await self._committed()
        staging, self._staging = self._staging, None
        if staging is not None:
            await self._js.store.discard_stream(staging)

    async def _next_blocks(self) -> tuple[list[bytes], bool]:
        try:
            return ([], False) if self._tar.done else await asyncio.to_thread(_unpacked, self._s2)
        except S2Error as error:
            raise ArchiveError(str(error)) from error

    async def _stage(self) -> Staging:
        if self._staging is None:
            self._staging = await self._js.store.stage_stream(
                self._js.account_name, self._config.name, self._config.to_json(), time.time_ns()
            )
        return self._staging

    # --- the files of the archive ---

    async def _begin(self, part: Begin) -> None:
        self._size += part.size
        self._js.usage.check_arrival(self._config, self._size)
        self._member = member = documents.member_of(part.name)
        if member is None:
            return
        if member.block is not None:
            if member.block <= self._last_block:
                raise ArchiveError(f"message block {member.block} is out of order")
            self._last_block = member.block
            self._blocks.begin(member.block)
            return
        if member.kind == documents.INDEX:
            if part.size > limits.JS_ARCHIVE_INDEX_BYTES:
                self._member = None
            return
        self._kept += part.size + len(member.consumer)
        if part.size > _BOUNDS.get(member.kind, limits.JS_ARCHIVE_CONFIG_BYTES):
            raise ArchiveError(f"{part.name} is too large")
        if self._kept > limits.JS_ARCHIVE_STATES_BYTES:
            raise ArchiveError("the states of the consumers are too large")
        if member.consumer and not (valid_name(member.consumer) and len(member.consumer) <= limits.JS_NAME_BYTES):
            raise documents.ForeignContentError

    async def _data(self, data: memoryview, turn: Turn) -> None:
        if self._member is None:
            return
        if self._member.block is None:
            self._content += data
            return
        self._blocks.feed(data)
        if self._blocks.unchecked >= limits.JS_RESTORE_STEP_BYTES:
            await self._store(turn)

    async def _store(self, turn: Turn) -> None:
        """Have the messages that have come in the log."""
        if not self._blocks.unchecked:
            return
        log = (await self._stage()).log
        await asyncio.to_thread(self._blocks.check)
        more = True
        while more:
            more = self._blocks.store(log, time.monotonic_ns() + limits.JS_TRANSFER_STEP_NS)
            if self._blocks.written - self._written >= limits.JS_RESTORE_COMMIT_BYTES:
                self._written = self._blocks.written
                await self._committed()
                self._committing = asyncio.create_task(log.commit())
            if more:
                await turn.wait()

    async def _committed(self) -> None:
        """Wait for the commit that is under way. Raises StorageError."""
        committing, self._committing = self._committing, None
        if committing is not None:
            await committing

    async def _end(self, turn: Turn) -> None:
        member, self._member = self._member, None
        if member is None:
            return
        if member.block is not None:
            await self._store(turn)
            self._blocks.end()
            return
        content, self._content = bytes(self._content), bytearray()
        if member.kind == documents.ERRORS:
            raise ArchiveError(f"the archive is not whole: {content[:200].decode('utf-8', 'replace')}")
        self._documents[member.consumer, member.kind] = content

    def _check_sum(self, key: str, consumer: str, content: bytes) -> None:
        found = self._documents.get((consumer, documents.SUM))
        if found is not None and found != documents.checksum(key, content):
            raise ArchiveError(f"{documents.META} does not match its checksum")

    async def _consumer(self, name: str, pending: int) -> ArrivedConsumer:
        try:
            config = self._documents.get((name, documents.META))
            if config is None or (name, documents.SUM) not in self._documents:
                raise ArchiveError("no such file or directory")
            self._check_sum(f"{self._config.name}/{name}", name, config)
            read, created_ns = documents.read_consumer(config)
            stored = self._documents.get((name, documents.STATE))
            state = None
            if stored:
                state = await asyncio.to_thread(from_nats, stored, read.max_deliver, time.time_ns(), pending)
        except (ArchiveError, ValueError) as error:
            raise ArchiveError(f'error restoring consumer ["{name}"]: {error}') from error
        return ArrivedConsumer(name, read, created_ns or time.time_ns(), state)


def _unpacked(reader: S2Reader) -> tuple[list[bytes], bool]:
    """The next blocks, as much as one step takes, and whether there may be more in what has come. Raises S2Error."""
    blocks, size = [], 0
    while size < limits.JS_RESTORE_STEP_BYTES and (block := reader.next_block()) is not None:
        blocks.append(block)
        size += len(block)
    return blocks, size >= limits.JS_RESTORE_STEP_BYTES


RESTORE_FAULTS = (ArchiveError, StorageError)
