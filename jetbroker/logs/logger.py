"""The log, line by line as nats-server writes it: `[pid] 2026/01/02 15:04:05.000000 [INF] text`.

Test helpers and operators read these lines, so their form is part of the interface. Written by hand: the `logging`
package costs start-up time and gives nothing needed here. Writing never raises into the caller; lines that could not
be written are counted in :attr:`Logger.lost_lines`.

    log = Logger(options)
    log.info("Server is ready")
"""

import os
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from jetbroker import limits
from jetbroker.errors import ConfigError

if TYPE_CHECKING:
    from jetbroker.config.options import Options
    from jetbroker.logs.logfile import FormatLine, LogFile
    from jetbroker.logs.syslog import Syslog

_STDERR: Final = 2
_COLOURS: Final = {"INF": "32", "DBG": "36", "WRN": "0;93", "ERR": "31", "FTL": "31", "TRC": "33"}


class Opened(NamedTuple):
    """Where lines may go: to a file, to a syslog, else to stderr."""

    target: tuple[str, str]
    file: "LogFile | None" = None
    syslog: "Syslog | None" = None


class Logger:
    """One log. `debug_enabled` and `trace_enabled` are there to be asked before an expensive text is built."""

    def __init__(self, options: "Options | None" = None) -> None:
        """Without options: to stderr, no debug, no trace."""
        self.debug_enabled = False
        self.trace_enabled = False
        self._lost_lines = 0
        self._target = ("stderr", "")
        self._file: LogFile | None = None
        self._syslog: Syslog | None = None
        self._logtime = True
        self._utc = False
        self._second = -1
        self._second_text = ""
        self._warned: set[str] = set()  # in this second
        self._warned_in = 0
        self._set_labels()
        if options is not None:
            self.configure(options)

    @property
    def path(self) -> str:
        """The file, empty when the lines go elsewhere."""
        return self._target[1] if self._target[0] == "file" else ""

    @property
    def lost_lines(self) -> int:
        """Lines that could not be written."""
        return self._lost_lines + (self._syslog.lost_lines if self._syslog else 0)

    def configure(self, options: "Options", opened: "Opened | None" = None) -> None:
        """Follow the options, at start and at each reload: a file goes before a remote syslog, and that before the
        machine's own. `opened`: by :meth:`prepare` for these options.

        Raises :class:`~jetbroker.errors.ConfigError` when it cannot be opened; the log stays as it was then.
        """
        target = _target(options)
        if target != self._target:
            self._take(opened or _opened(target, self._line))
        self.debug_enabled = options.debug
        self.trace_enabled = options.trace
        self._logtime = options.logtime
        self._utc = options.logtime_utc
        self._second = -1
        self._set_labels()
        if self._file is not None and self._file.limit(options.log_size_limit, options.log_max_num):
            self.info("Rotating logfile...")

    def prepare(self, options: "Options") -> "Opened | None":
        """Open what :meth:`configure` will write to by these options; None: what there is. May run in a thread.

        Raises :class:`~jetbroker.errors.ConfigError`.
        """
        target = _target(options)
        return None if target == self._target else _opened(target, self._line)

    def reopen(self) -> None:
        """Open the file again by its name, after it was moved away (SIGUSR1). Never raises."""
        if self._file is None:
            self.info("File log re-open ignored, not a file logger")
            return
        try:
            self._file.reopen()
        except ConfigError as error:
            self.error(f"Unable to re-open the log file: {error}")
            return
        self.info("File log re-opened")

    def close(self) -> None:
        """Close file or connection; later lines go to stderr."""
        self._take(Opened(("stderr", "")))
        self._set_labels()

    def info(self, text: str) -> None:
        """What an operator wants to see."""
        self._write("INF", text)

    notice = info  # nats-server's name of the level

    def warn(self, text: str) -> None:
        """Something to look at; the broker goes on as asked."""
        self._write("WRN", text)

    def warn_seldom(self, text: str) -> None:
        """A warning that clients can cause as often as they like: each text once a second, as nats-server writes it."""
        second = int(time.monotonic())
        if second != self._warned_in:
            self._warned_in = second
            self._warned.clear()
        if text not in self._warned and len(self._warned) < limits.SELDOM_WARNINGS:
            self._warned.add(text)
            self.warn(text)

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
        if self._syslog is not None:
            self._syslog.send(level, text)
            return
        data = self._line(level, text)
        try:
            if self._file is not None:
                self._file.write(data)
                return
            while data:
                data = data[os.write(_STDERR, data) :]
        except OSError:
            self._lost_lines += 1

    def _line(self, level: str, text: str) -> bytes:
        line = f"{self._labels[0]}{self._stamp()}{self._labels[1][level]}{text}\n"
        return line.encode("utf-8", "backslashreplace")

    def _stamp(self) -> str:
        if not self._logtime:
            return ""
        second, micros = divmod(time.time_ns() // 1000, 1_000_000)
        if second != self._second:
            parts = time.gmtime(second) if self._utc else time.localtime(second)
            self._second_text = time.strftime("%Y/%m/%d %H:%M:%S", parts)
            self._second = second
        return f"{self._second_text}.{micros:06d} "

    def _set_labels(self) -> None:
        coloured = self._target[0] == "stderr" and _is_terminal(_STDERR)
        labels = {
            name: f"[\x1b[{code}m{name}\x1b[0m] " if coloured else f"[{name}] " for name, code in _COLOURS.items()
        }
        self._labels = (f"[{os.getpid()}] ", labels)

    def _take(self, opened: "Opened") -> None:
        """Send the lines elsewhere from now on."""
        if self._file is not None:
            self._file.close()
        if self._syslog is not None:
            self._lost_lines += self._syslog.lost_lines
            self._syslog.close()
        self._target, self._file, self._syslog = opened


def _target(options: "Options") -> tuple[str, str]:
    """Where the lines go."""
    if options.log_file:
        return "file", options.log_file
    if options.remote_syslog or options.syslog:
        return "syslog", options.remote_syslog
    return "stderr", ""


def _opened(target: tuple[str, str], line: "FormatLine") -> Opened:
    kind, where = target
    if kind == "file":
        from jetbroker.logs.logfile import LogFile  # start-up time, as below

        return Opened(target, file=LogFile(where, line))
    if kind == "syslog":
        from jetbroker.logs.syslog import Syslog
        from jetbroker.program import program_name

        return Opened(target, syslog=Syslog(where, program_name()))
    return Opened(target)


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False
