"""A stream that comes from elsewhere is built in a folder with a hidden name, with its consumers, and then named."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Any

from jetbroker.errors import StorageError
from jetbroker.store.disk import Disk
from jetbroker.store.format.names import encode_name
from jetbroker.store.log.commit import GroupCommit
from jetbroker.store.log.creation import SyncTarget
from jetbroker.store.log.filelog import FileLog
from jetbroker.store.log.statelog import StateLog
from jetbroker.tick import Tick


class Staging:
    """One such stream. Made, published and discarded by `Store`; a start removes what was neither."""

    def __init__(self, tick: Tick, disk: Disk, group: GroupCommit, log: FileLog, reserve: object) -> None:
        self._own = group.beside()  # no publisher waits for what arrives
        self.log = log
        log.group = self._own
        self.consumers: dict[str, StateLog] = {}
        self._tick = tick
        self._disk = disk
        self._group = group
        self._reserve = reserve

    def add_consumer(self, name: str, config: dict[str, Any], created_ns: int, state: bytes | None) -> StateLog:
        """A consumer's state log, beginning with this record, if any. Raises StorageError."""
        meta = self.log.meta
        head = {
            "stream": meta["name"],
            "account": meta["account"],
            "name": name,
            "created": created_ns,
            "config": config,
        }
        state_log = StateLog.create(
            self._tick, self._disk, self._group, self._path(name), self.log.stream_id, head, self._reserve
        )
        self.consumers[name] = state_log
        if state is not None:
            state_log.append_entry(state)
            state_log.recovered.append(state)
        return state_log

    async def publish(self, directory: str) -> None:
        """Give the folder its name `directory`; the stream is durable when this returns. Raises StorageError."""
        await self.log.commit()
        await self._own.close()
        self.log.group = self._group
        for state_log in self.consumers.values():
            await state_log.commit()
        naming = _Naming(self._group, self._disk, self.log, directory)
        self._group.request(naming)
        await naming.done
        for name, state_log in self.consumers.items():
            state_log.moved_to(self._path(name))

    async def close(self) -> None:
        """Close the files, which are of no use any more; no round may have them under way."""
        logs: list[StateLog | FileLog] = [*self.consumers.values(), self.log]
        for log in logs:
            with contextlib.suppress(StorageError):
                await log.close()
        await self._own.close()

    def _path(self, name: str) -> str:
        return f"{self.log.directory}/consumers/{encode_name(name)}.log"


class _Naming:
    """A member of the group: the last of the log, then the folder's name. No round touches the folder meanwhile."""

    def __init__(self, group: GroupCommit, disk: Disk, log: FileLog, directory: str) -> None:
        self._group = group
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._disk = disk
        self._log = log
        self._directory = directory
        self._began = self._is_renamed = False

    def begin_sync(self) -> list[SyncTarget] | None:
        """What the round must do."""
        own = self._log.begin_sync()
        if self._log.failed is not None:
            self._fail(self._log.failed)
            return None
        self._group.forget(self._log)
        self._began = own is not None
        return [*(own or ()), self._rename, os.path.dirname(self._directory)]

    def _rename(self) -> None:
        self._disk.rename(self._log.directory, self._directory)
        self._is_renamed = True

    def end_sync(self, error: OSError | None) -> None:
        """The outcome of the round."""
        if self._is_renamed:  # also where the folder around it could not be synced: it is removed there
            self._log.moved_to(self._directory)
        if self._began:
            self._log.end_sync(error)
        if error is not None:
            self._fail(StorageError(f"{self._directory}: {error.strerror}"))
            return
        if not self.done.done():
            self.done.set_result(None)

    def _fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)
