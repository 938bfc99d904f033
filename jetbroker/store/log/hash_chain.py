"""The file of a stream's hash chain, as a broker writes it. What it holds can be made again as long as the messages
are there, so it is never synced: a start goes on behind its last whole entry."""

import os

from jetbroker.errors import StorageError
from jetbroker.store.disk import Disk
from jetbroker.store.format import hash_chain as form


class ChainFile:
    """A chain up to sequence `at`, whose hash is `head`. All methods raise StorageError."""

    def __init__(self, directory: str, algorithm: str, begins: int, disk: Disk | None = None) -> None:
        """Go on with the file in this folder, or begin one at sequence `begins`. A file keeps its own algorithm."""
        self.disk = disk or Disk()
        self.path = os.path.join(directory, form.FILE_NAME)
        self.cut = 0  # bytes at the end that were no whole entries
        try:
            self._fd = self.disk.open(self.path, os.O_RDWR | os.O_CREAT)
            size = self.disk.size(self._fd)
            if size < form.HEAD.size:
                self.disk.write_all(self._fd, form.new_header(algorithm, begins, self.disk.time_ns()), 0)
                size = form.HEAD.size
            self.header = form.read_header(self.disk.read(self._fd, form.HEAD.size, 0))
            self.head, self.at = self.header.genesis, self.header.begins - 1
            self._size = self._sound_size(size)
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror}") from None
        except StorageError as error:
            raise type(error)(f"{self.path}: {error}") from None

    def _sound_size(self, size: int) -> int:
        """Where the last entry ends that follows the one before it; takes its position over."""
        end = size - (size - form.HEAD.size) % form.ENTRY.size
        while end > form.HEAD.size:
            start = max(end - 2 * form.ENTRY.size, form.HEAD.size - 32)
            data = self.disk.read(self._fd, end - start, start)
            before = data[-form.ENTRY.size - 32 : -form.ENTRY.size]
            at = len(data) - form.ENTRY.size
            if form.holds(self.header.hash, before, data, at):
                last = form.read_entry(data, at)
                self.head = last.chain
                self.at = last.first - 1 if last.kind == form.REWOUND else last.last
                break
            end -= form.ENTRY.size
        self.cut = size - end
        if self.cut:
            self.disk.truncate(self._fd, end)
        return end

    def write(self, data: bytes, at: int, head: bytes) -> None:
        """Add these entries; the chain then reaches sequence `at`."""
        try:
            self.disk.write_all(self._fd, data, self._size)
        except OSError as error:
            raise StorageError(f"{self.path}: {error.strerror}") from None
        self._size += len(data)
        self.at, self.head = at, head

    def close(self) -> None:
        """Write no more."""
        if self._fd >= 0:
            self.disk.close(self._fd)
            self._fd = -1
