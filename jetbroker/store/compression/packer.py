"""When sealed segments are packed, and messages in packed ones overwritten: one segment at a time, in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from jetbroker.errors import StorageError
from jetbroker.store.compression.packing import (
    TEMPORARY_SUFFIX,
    Packed,
    adopt,
    discard,
    footer_of,
    is_held,
    next_plain,
    pack,
    repack,
)
from jetbroker.store.disk import Disk
from jetbroker.store.log.filelog import FileLog
from jetbroker.store.log.segment_files import FileSegment

# Segments of streams that are packed end here: smaller ones are sealed, and so packed, earlier.
PACKED_SEGMENT_BYTES = 8 * 1024 * 1024
# Messages that could not be overwritten are tried again this much later.
RETRY_SECONDS = 10.0

Ranges = list[tuple[int, int]]


class Packer:
    """The packing of one store. Belongs to the event loop's thread.

    `prepare` is called once, in the thread, before the first packed file is written. May raise OSError.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        disk: Disk,
        report: Callable[[str], None],
        prepare: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._disk = disk
        self._report = report
        self._prepare = prepare
        self._prepared = False
        self._executor = ThreadPoolExecutor(1, "jetbroker-pack")
        self._waiting: dict[FileLog, None] = {}
        self._erasures: dict[FileSegment, tuple[FileLog, Ranges]] = {}
        self._failed: dict[FileSegment, tuple[FileLog, Ranges]] = {}
        self._retry: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._log: FileLog | None = None  # whose segment is being written
        self._segment: FileSegment | None = None
        self._stale = False  # it was changed meanwhile
        self._leaving: list[asyncio.Future[None]] = []
        self._stopping = False

    def wake(self, log: FileLog) -> None:
        """The log may have segments to be packed."""
        self._waiting[log] = None
        self._start()

    def erase(self, log: FileLog, segment: FileSegment, first: int, end: int) -> bool:
        """Bytes [first, end) of the segment's plain form are overwritten; False: that is left to the caller."""
        if not segment.packed:
            if segment is self._segment:
                self._stale = True
            return False
        self._erasures.setdefault(segment, (log, []))[1].append((first, end))
        if log.erasing is None:
            log.erasing = self._loop.create_future()
        self._start()
        return True

    async def erased(self, log: FileLog) -> None:
        """Wait until what was erased in packed segments is gone from the disk. Raises StorageError."""
        erasing = log.erasing
        if erasing is not None:
            # not awaited itself: a caller that is cancelled would cancel it for all
            await asyncio.wait([erasing])
            erasing.result()

    async def leave(self, log: FileLog) -> None:
        """The log is closed: wait until nothing is written in its directory any more."""
        self._waiting.pop(log, None)
        while self._log is log:
            left = self._loop.create_future()
            self._leaving.append(left)
            await left

    async def stop(self) -> None:
        """Finish what was begun; from then on only erasures are carried out."""
        self._stopping = True
        if self._task is not None:
            await asyncio.wait([self._task])

    async def close(self) -> None:
        """Stop the thread; every log is closed."""
        await self.stop()
        if self._retry is not None:
            self._retry.cancel()
        self._executor.shutdown(wait=True)

    # --- the work ---

    def _start(self) -> None:
        if self._task is None:
            self._task = self._loop.create_task(self._work())
            self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled():
            return
        try:
            task.result()
        finally:
            if self._erasures or (self._waiting and not self._stopping):
                # asked for while the task ended
                self._start()

    async def _work(self) -> None:
        while True:
            if self._erasures:
                segment, (log, ranges) = next(iter(self._erasures.items()))
                del self._erasures[segment]
                await self._overwrite(log, segment, ranges)
                continue
            plain = self._next_plain()
            if plain is None:
                return
            await self._pack(*plain)

    def _next_plain(self) -> tuple[FileLog, FileSegment] | None:
        while self._waiting and not self._stopping:
            log = next(iter(self._waiting))
            segment = next_plain(log)
            if segment is not None:
                return log, segment
            del self._waiting[log]
        return None

    async def _pack(self, log: FileLog, segment: FileSegment) -> None:
        try:
            if not self._prepared:
                await self._loop.run_in_executor(self._executor, self._prepare)
                self._prepared = True
            work = partial(pack, self._disk, segment.path, segment.path + TEMPORARY_SUFFIX, log.stream_id)
            packed = await self._write(log, segment, work)
            if packed is None:
                segment.stays_plain = True
            else:
                await self._use(log, segment, packed)
        except OSError as error:
            # the next segment that is sealed is another occasion
            self._waiting.pop(log, None)
            if not log.closed:
                self._report(f"{segment.path}: cannot be compressed: {error.strerror or error}")
        except Exception:
            # our own bug: it is told, and the others are not kept waiting for this one
            segment.stays_plain = True
            raise
        finally:
            self._released()

    async def _overwrite(self, log: FileLog, segment: FileSegment, ranges: Ranges) -> None:
        try:
            if is_held(log, segment):
                footer = footer_of(log, segment)
                temporary = segment.path + TEMPORARY_SUFFIX
                work = partial(repack, self._disk, segment.path, temporary, log.stream_id, ranges, footer)
                packed = await self._write(log, segment, work)
                if packed is not None:
                    await self._use(log, segment, packed)
        except (OSError, StorageError) as error:
            if not log.closed:
                self._overwrite_later(log, segment, ranges, error)
        finally:
            self._released()
        self._settle(log)

    def _released(self) -> None:
        self._log = None
        for left in self._leaving:
            if not left.done():
                left.set_result(None)
        self._leaving = []

    async def _write(self, log: FileLog, segment: FileSegment, work: Callable[[], Packed | None]) -> Packed | None:
        self._log = log
        self._segment = segment
        self._stale = False
        try:
            return await self._loop.run_in_executor(self._executor, work)
        finally:
            self._segment = None

    async def _use(self, log: FileLog, segment: FileSegment, packed: Packed) -> None:
        if self._stale or not is_held(log, segment):
            discard(self._disk, packed.fd, packed.temporary)
            return
        try:
            self._disk.rename(packed.temporary, segment.path)
        except OSError:
            discard(self._disk, packed.fd, packed.temporary)
            raise
        adopt(log, segment, packed)
        await self._loop.run_in_executor(self._executor, self._disk.sync_directory, log.directory)

    # --- erasures ---

    def _settle(self, log: FileLog) -> None:
        """Nothing is left to be overwritten in the log."""
        erasing = log.erasing
        if erasing is not None and all(owner is not log for owner, _ in self._erasures.values()):
            log.erasing = None
            erasing.set_result(None)

    def _overwrite_later(self, log: FileLog, segment: FileSegment, ranges: Ranges, error: Exception) -> None:
        text = f"{segment.path}: a removed message cannot be overwritten: {getattr(error, 'strerror', None) or error}"
        self._report(text)
        self._failed.setdefault(segment, (log, []))[1].extend(ranges)
        if self._retry is None and not self._stopping:
            self._retry = self._loop.call_later(RETRY_SECONDS, self._try_again)
        erasing = log.erasing
        if erasing is not None:
            log.erasing = None
            erasing.set_exception(StorageError(text))
            erasing.exception()  # whoever waits hears of it; nobody may be waiting

    def _try_again(self) -> None:
        self._retry = None
        failed, self._failed = self._failed, {}
        for segment, (log, ranges) in failed.items():
            for first, end in ranges:
                self.erase(log, segment, first, end)
