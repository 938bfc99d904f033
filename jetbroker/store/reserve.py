"""Disk space kept back, so that removals and acks can still be recorded when the disk is full."""

from __future__ import annotations

import contextlib
import os

from jetbroker.store.disk import Disk

RESERVE_BYTES = 1024 * 1024


class Reserve:
    """A preallocated file in the store's folder that is given up on the first failed write."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._held = False

    def restore(self) -> bool:
        """Take the space (again); False when the disk does not have it."""
        if self._held:
            return True
        try:
            fd = self._disk.open(self._path, os.O_RDWR | os.O_CREAT)
        except OSError:
            return False
        try:
            self._disk.allocate(fd, RESERVE_BYTES)
            self._held = True
        except OSError:
            self._give_up(fd)
        finally:
            self._disk.close(fd)
        return self._held

    def _give_up(self, fd: int) -> None:
        """What was allocated in part is of no use."""
        with contextlib.suppress(OSError):  # the next attempt finds it, and takes the rest
            self._disk.truncate(fd, 0)

    def free(self) -> None:
        """Give the space to whoever must write now; when that fails, so does the write, and it says so."""
        if not self._held:
            return
        try:
            fd = self._disk.open(self._path, os.O_RDWR)
        except OSError:
            return
        try:
            self._disk.truncate(fd, 0)
            self._held = False
        except OSError:
            return
        finally:
            self._disk.close(fd)
