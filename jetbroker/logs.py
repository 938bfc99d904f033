"""The log, line by line as nats-server writes it: `[pid] 2026/01/02 15:04:05.000000 [INF] text`.

Test helpers and operators read these lines, so their form is part of the interface. Written by hand: the `logging`
package costs start-up time and gives nothing needed here. Writing never raises into the caller; lines that could not
be written are counted in :attr:`Logger.lost_lines`.

    log = Logger(options)
    log.info("Server is ready")
"""

import os
import time
from typing import TYPE_CHECKING, Final

from jetbroker.errors import ConfigError

if TYPE_CHECKING:
    from jetbroker.config.options import Options

_STDERR: Final = 2
_FILE_MODE: Final = 0o640
_COLOURS: Final = {"INF": "32", "DBG": "36", "WRN": "0;93", "ERR": "31", "FTL": "31", "TRC": "33"}


class Logger:
    """One log. `debug_enabled` and `trace_enabled` are there to be asked before an expensive text is built."""

    def __init__(self, options: "Options | None" = None) -> None:
        """Without options: to stderr, no debug, no trace."""
        self.debug_enabled = False
        self.trace_enabled = False
        self.lost_lines = 0
        self.path = ""
        self._fd = _STDERR
        self._logtime = True
        self._utc = False
        self._second = -1
        self._second_text = ""
        self._set_labels(_STDERR)
        if options is not None:
            self.configure(options)

    def configure(self, options: "Options") -> None:
        """Follow the options, at start and at each reload.

        Raises :class:`~jetbroker.errors.ConfigError` when the file cannot be opened; the log stays as it was then.
        """
        path = options.log_file
        if path != self.path:
            fd = _open(path) if path else _STDERR
            self._close()
            self._fd, self.path = fd, path
        self.debug_enabled = options.debug
        self.trace_enabled = options.trace
        self._logtime = options.logtime
        self._utc = options.logtime_utc
        self._second = -1
        self._set_labels(self._fd)

    def reopen(self) -> None:
        """Open the file again by its name, after it was moved away (SIGUSR1). Never raises."""
        if not self.path:
            self.info("File log re-open ignored, not a file logger")
            return
        try:
            fd = _open(self.path)
        except ConfigError as error:
            self.error(f"Unable to re-open the log file: {error}")
            return
        self._close()
        self._fd = fd
        self.info("File log re-opened")

    def close(self) -> None:
        """Close the file; later lines go to stderr."""
        self._close()
        self._fd, self.path = _STDERR, ""
        self._set_labels(_STDERR)

    def info(self, text: str) -> None:
        """What an operator wants to see."""
        self._write("INF", text)

    notice = info  # nats-server's name of the level

    def warn(self, text: str) -> None:
        """Something to look at; the broker goes on as asked."""
        self._write("WRN", text)

    def error(self, text: str) -> None:
        """Something failed; the broker goes on."""
        self._write("ERR", text)

    def fatal(self, text: str) -> None:
        """The broker ends because of this. Only writes: ending is the caller's."""
        self._write("FTL", text)

    def debug(self, text: str) -> None:
        """Written with `debug` only."""
        if self.debug_enabled:
            self._write("DBG", text)

    def trace(self, text: str) -> None:
        """Protocol traffic, written with `trace` only."""
        if self.trace_enabled:
            self._write("TRC", text)

    def _write(self, level: str, text: str) -> None:
        if not text.isprintable():
            # Names and subjects come from clients: a line end in one must not forge a line of the log.
            text = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
        line = f"{self._labels[0]}{self._stamp()}{self._labels[1][level]}{text}\n"
        data = line.encode("utf-8", "backslashreplace")
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError:
            self.lost_lines += 1

    def _stamp(self) -> str:
        if not self._logtime:
            return ""
        second, micros = divmod(time.time_ns() // 1000, 1_000_000)
        if second != self._second:
            parts = time.gmtime(second) if self._utc else time.localtime(second)
            self._second_text = time.strftime("%Y/%m/%d %H:%M:%S", parts)
            self._second = second
        return f"{self._second_text}.{micros:06d} "

    def _set_labels(self, fd: int) -> None:
        try:
            coloured = os.isatty(fd)
        except OSError:
            coloured = False
        labels = {
            name: f"[\x1b[{code}m{name}\x1b[0m] " if coloured else f"[{name}] " for name, code in _COLOURS.items()
        }
        self._labels = (f"[{os.getpid()}] ", labels)

    def _close(self) -> None:
        if self._fd != _STDERR:
            os.close(self._fd)
            self._fd = _STDERR


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _FILE_MODE)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"error opening file: open {path}: {why[:1].lower()}{why[1:]}") from error
