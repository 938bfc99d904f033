"""A new stream gets onto the disk in one round of the group: its files, their folder, then the folder's name."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from jetbroker.errors import StorageError
from jetbroker.store.disk import Disk
from jetbroker.store.log.commit import GroupCommit
from jetbroker.store.log.filelog import FileLog

SyncTarget = int | str | Callable[[], object]


class Creation:
    """A member of the group: `log` and the open file `note` (stream.json) stand in a folder with a hidden name."""

    def __init__(self, group: GroupCommit, disk: Disk, log: FileLog, note: int, directory: str) -> None:
        self._group = group
        self._disk = disk
        self._log = log
        self._note = note
        self._directory = directory
        self.path = log.directory  # where the folder is, given its name or not
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def finish(self) -> None:
        """Give the folder its name `directory`; the stream is durable when this returns. Raises StorageError."""
        self._group.request(self)
        await self._done

    def begin_sync(self) -> list[SyncTarget] | None:
        """What the round must do; the name is given when everything behind it is on disk."""
        own = self._log.begin_sync()
        if own is None:
            self._fail(self._log.failed or StorageError(f"{self._directory}: nothing could be written"))
            return None
        self._group.forget(self._log)
        return [self._note, *own, self._rename, os.path.dirname(self._directory)]

    def _rename(self) -> None:
        self._disk.rename(self.path, self._directory)
        self.path = self._directory

    def end_sync(self, error: OSError | None) -> None:
        """The outcome of the round."""
        if error is not None:
            self._fail(StorageError(f"{self._directory}: {error.strerror}"))
            return
        self._log.end_sync(None)
        self._log.moved_to(self._directory)
        if not self._done.done():
            self._done.set_result(None)

    def _fail(self, error: Exception) -> None:
        if not self._done.done():
            self._done.set_exception(error)
