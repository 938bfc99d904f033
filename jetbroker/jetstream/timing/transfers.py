"""What takes long and belongs to an account: its streams' backups and restores under way."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from jetbroker import limits


class Transfers:
    """Those of one account; they end with it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: set[str] = set()

    @property
    def full(self) -> bool:
        """Are there as many as there may be?"""
        return len(self._tasks) >= limits.JS_TRANSFERS

    def claim(self, stream: str) -> bool:
        """Begin the one backup that a stream may have; False: there is one."""
        if stream in self._busy:
            return False
        self._busy.add(stream)
        return True

    def release(self, stream: str) -> None:
        """The stream's backup has ended."""
        self._busy.discard(stream)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this until it ends, or the account does."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Cancel all, and wait until they have cleaned up."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
