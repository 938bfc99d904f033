"""When the cache is written: changes are collected on the event loop, and written beside it once a second at most."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jetbroker.errors import StorageError
from jetbroker.store.cache.cache import Cache, Changes
from jetbroker.store.cache.summary import summarize
from jetbroker.store.log.filelog import FileLog
from jetbroker.store.log.segment_files import FileSegment

INTERVAL_SECONDS = 1.0
# At start-up, without a cache: summaries wait in memory up to this many bytes of columns.
WAITING_SLOTS = 16 * 1024 * 1024
# A clean stop describes at most this many segments anew whose messages were removed meanwhile.
REFRESHED_AT_STOP = 64


def stream_folder(log: FileLog) -> str:
    """`<account folder>/<stream folder>`, the stream's name in the cache."""
    account, stream = log.directory.split(os.sep)[-2:]
    return f"{account}/{stream}"


class Checkpoints:
    """Keeps the cache in step with the logs. Belongs to the event loop's thread."""

    def __init__(
        self, cache: Cache, loop: asyncio.AbstractEventLoop, executor: ThreadPoolExecutor, report: Callable[[str], None]
    ) -> None:
        self._cache = cache
        self._loop = loop
        self._executor = executor
        self._report = report
        self._sealed: dict[FileSegment, FileLog] = {}
        self._changes = Changes()
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[None] | None = None
        self._waiting_slots = 0
        self._closed = False

    def watch(self, log: FileLog) -> None:
        """Follow a log that is in use."""

        def sealed(segment: FileSegment) -> None:
            self._sealed[segment] = log
            self._schedule()

        def removed(segment: FileSegment) -> None:
            self._sealed.pop(segment, None)
            self._forget(stream_folder(log), segment.first_seq)

        log.on_sealed = sealed
        log.on_removed = removed

    def describe(self, log: FileLog) -> Callable[[FileSegment], None]:
        """For a log that is being recovered: describe each segment as soon as it is counted."""

        def counted(segment: FileSegment) -> None:
            self._describe(log, segment)
            self._waiting_slots += segment.slots
            if self._waiting_slots > WAITING_SLOTS:
                self._waiting_slots = 0
                changes, self._changes = self._changes, Changes()
                self._cache.write(changes)

        return counted

    def forget_segment(self, stream: str, first_seq: int) -> None:
        """The cache has an entry that no file stands for."""
        self._forget(stream, first_seq)

    def forget_stream(self, log: FileLog) -> None:
        """The stream is deleted."""
        log.on_sealed = log.on_removed = None
        stream = stream_folder(log)
        for segment in [segment for segment, owner in self._sealed.items() if owner is log]:
            del self._sealed[segment]
        for key in [key for key in self._changes.summaries if key[0] == stream]:
            del self._changes.summaries[key]
        self._changes.streams.pop(stream, None)
        if self._cache.exists() or self._writing is not None:
            self._changes.removed_streams.add(stream)
            self._schedule()

    def _forget(self, stream: str, first_seq: int) -> None:
        self._changes.summaries.pop((stream, first_seq), None)
        if self._cache.exists() or self._writing is not None:
            self._changes.removed.add((stream, first_seq))
            self._schedule()

    def _describe(self, log: FileLog, segment: FileSegment) -> None:
        if self._cache.given_up:
            return
        summary = summarize(log, segment)
        stream = stream_folder(log)
        if summary is None:
            self._forget(stream, segment.first_seq)
            return
        segment.summarized_live = segment.live
        self._changes.removed.discard((stream, segment.first_seq))
        self._changes.summaries[stream, segment.first_seq] = summary
        known: dict[str, Any] = self._changes.streams.setdefault(stream, {"position": 0})
        known.update(
            account=log.meta["account"],
            stream=log.meta["name"],
            stream_id=log.stream_id,
            position=max(known["position"], segment.first_seq + segment.slots - 1),
        )
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is None and not self._closed and not self._cache.given_up:
            self._timer = self._loop.call_later(INTERVAL_SECONDS, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if self._writing is not None:
            self._schedule()
            return
        # one segment a turn of the loop: describing takes a few milliseconds
        if self._sealed:
            segment, log = next(iter(self._sealed.items()))
            del self._sealed[segment]
            try:
                self._describe(log, segment)
            except StorageError as error:
                self._report(f"cannot describe {segment.path}: {error}")
            if self._sealed:
                self._cancel_timer()
                self._timer = self._loop.call_later(0, self._fire)
                return
        if not self._changes or self._cache.given_up:
            return
        self._cancel_timer()
        changes, self._changes = self._changes, Changes()
        self._waiting_slots = 0
        self._writing = self._loop.run_in_executor(self._executor, self._cache.write, changes)
        self._writing.add_done_callback(self._written)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _written(self, future: asyncio.Future[None]) -> None:
        self._writing = None
        future.result()
        if self._cache.given_up:
            self._report(f"the cache is given up until the next start: {self._cache.given_up}")
        if self._changes or self._sealed:
            self._schedule()

    async def close(self, logs: list[FileLog]) -> None:
        """A clean stop: everything that changed is described and written."""
        self._closed = True
        self._cancel_timer()
        if self._writing is not None:
            await asyncio.wait([self._writing])
        refreshed = REFRESHED_AT_STOP
        for log in logs:
            for segment in log.changed_segments():
                if refreshed == 0 or segment in self._sealed:
                    continue
                refreshed -= 1
                self._sealed[segment] = log
        for segment, log in self._sealed.items():
            try:
                self._describe(log, segment)
            except StorageError as error:
                self._report(f"cannot describe {segment.path}: {error}")
        self._sealed = {}
        if self._changes and not self._cache.given_up:
            changes, self._changes = self._changes, Changes()
            await self._loop.run_in_executor(self._executor, self._cache.write, changes)
