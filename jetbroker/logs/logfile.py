"""A log in a file: appended to, opened again when it was moved away, begun anew at a size.

What was written before stays beside it as `<file>.2026.01.02.15.04.05.000000000`, the oldest of those removed when
there are too many.
"""

import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeAlias

from jetbroker.errors import ConfigError

FormatLine: TypeAlias = Callable[[str, str], bytes]
"""Makes a line of the log from a level and a text."""

_MODE: Final = 0o640
_STAMP: Final = re.compile(r"\d{4}(\.\d{2}){5}\.\d{1,9}")


class LogFile:
    """One log file. Safe to be written to from several threads."""

    def __init__(self, path: str, line: FormatLine) -> None:
        """Open it for appending. Raises :class:`~jetbroker.errors.ConfigError` when that fails."""
        self.path = path
        self._line = line
        self._lock = threading.Lock()
        self._limit = 0
        self._next_limit = 0
        self._files = 0
        self._fd = _open(path)
        self._size = _size(self._fd)

    def limit(self, size: int, files: int) -> bool:
        """Begin a new file once this one is larger than `size` bytes (0: never), and keep `files` in all (0: all).

        True when the file is that large already: the next line is its last.
        """
        with self._lock:
            self._limit = self._next_limit = max(size, 0)
            self._files = max(files, 0)
        return 0 < self._limit < self._size

    def write(self, data: bytes) -> None:
        """Append whole lines; a new file is begun behind them when this one got too large. Raises OSError."""
        with self._lock:
            self._append(data)
            if 0 < self._next_limit < self._size:
                self._rotate()

    def reopen(self) -> None:
        """Open the file again by its name. Raises :class:`~jetbroker.errors.ConfigError`, and stays as it was then."""
        fd = _open(self.path)
        with self._lock:
            old, self._fd = self._fd, fd
            self._size = _size(fd)
            self._next_limit = self._limit
        os.close(old)

    def close(self) -> None:
        """Close it; nothing is written afterwards."""
        with self._lock:
            os.close(self._fd)
            self._fd = -1

    def _append(self, data: bytes) -> None:
        while data:
            written = os.write(self._fd, data)
            self._size += written
            data = data[written:]

    def _rotate(self) -> None:
        now = time.time_ns()
        stamp = time.strftime("%Y.%m.%d.%H.%M.%S", time.localtime(now // 1_000_000_000))
        backup = f"{self.path}.{stamp}.{now % 1_000_000_000:09d}"
        try:
            os.rename(self.path, backup)
            fd = self._begin(backup)
        except (OSError, ConfigError) as error:
            # The lines go on where they went until now; the next attempt comes when the file is twice as large.
            self._next_limit *= 2
            why = f"Unable to begin a new logfile ({error}), will attempt next rotation at size {self._next_limit}"
            self._append(self._line("ERR", why))
            return
        os.close(self._fd)
        self._fd, self._size, self._next_limit = fd, _size(fd), self._limit
        self._append(self._line("INF", f'Rotated log, backup saved as "{backup}"'))
        if self._files:
            self._purge()

    def _begin(self, backup: str) -> int:
        """Open a new file in the place of `backup`, which gets its name back when that fails. Raises ConfigError."""
        try:
            return _open(self.path, os.O_NOFOLLOW)  # a link that came in just now is not ours
        except ConfigError:
            with suppress(OSError):  # something else has the name
                os.link(backup, self.path, follow_symlinks=False)
                os.unlink(backup)
            raise

    def _purge(self) -> None:
        """Remove the oldest backups; this file counts among those that are kept."""
        folder, name = os.path.split(self.path)
        try:
            entries = sorted(entry.name for entry in os.scandir(folder or ".") if not entry.is_dir())
        except OSError as error:
            self._append(self._line("ERR", f'Unable to read directory "{folder}" for log purge ({error})'))
            return
        prefix = f"{name}."
        backups = [entry for entry in entries if entry.startswith(prefix) and _STAMP.fullmatch(entry[len(prefix) :])]
        for backup in backups[: max(len(backups) - (self._files - 1), 0)]:
            try:
                os.unlink(os.path.join(folder, backup))
            except OSError as error:
                why = f'Unable to remove backup log file "{backup}" ({error}), will attempt next rotation'
                self._append(self._line("ERR", why))
                return
            self._append(self._line("INF", f'Purged log file "{backup}"'))


def _open(path: str, more: int = 0) -> int:
    try:
        return os.open(path, more | os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _MODE)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"error opening file: open {path}: {why[:1].lower()}{why[1:]}") from error


def _size(fd: int) -> int:
    """Bytes in the file; 0 for what is none, as a terminal."""
    return os.fstat(fd).st_size
