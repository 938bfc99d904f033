"""A store is shipped while its broker runs, by a process of its own that cannot keep the event loop waiting."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from jetbroker import limits
from jetbroker.store.shipping.task import DAMAGE_RANGES, LINE_BYTES, Report, Task, decode_report, encode

_ROOT = Path(__file__).resolve().parents[3]  # the folder in which the package is
# -P: nothing of the current folder stands before the libraries; of a checkout the package itself comes last
_CODE = """\
import sys
sys.path.append(sys.argv[1])
from jetbroker.store.shipping.worker import main
raise SystemExit(main())
"""
_LAST_WORDS = 300  # characters
_END_SECONDS = 5.0
_PAUSE_SECONDS = (1.0, 60.0)  # the least and the most before a process that ended is started again


class Log(Protocol):
    """What lines are written to."""

    def debug(self, text: str) -> None:
        """What only who looks for something wants to know."""

    def info(self, text: str) -> None:
        """What operators want to know."""

    def warn(self, text: str) -> None:
        """What they should look at."""

    def error(self, text: str) -> None:
        """What they have to mend."""


@dataclass
class ShippingFigures:
    """What was shipped since the broker began, for monitoring. Bytes; seconds since 1970.

    `moved` counts what was read back, too. `streams` and `segments` are those of the last pass that came to its end.
    """

    passes: int = 0
    failures: int = 0
    objects: int = 0
    bytes: int = 0
    moved: int = 0
    streams: int = 0
    segments: int = 0
    passed_at: float = 0.0
    error: str = ""
    damaged: dict[tuple[str, str], int] = field(default_factory=dict)


class BackgroundShipping:
    """Keeps the shipping process going, and tells log and monitoring of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, log: Log) -> None:
        self.task: Task | None = None
        self.figures = ShippingFigures()
        self._loop = loop
        self._log = log
        self._keeper: _Keeper | None = None
        self._moved_before = 0  # by processes that are gone
        self._moved = 0
        self._told_at = 0.0
        self._is_first = True  # pass of this task
        self._one_at_a_time = asyncio.Lock()

    async def follow(self, task: Task | None) -> None:
        """Ship so from now on; None: not at all. One process has ended before the next one begins."""
        async with self._one_at_a_time:
            if task == self.task:
                return
            await self._end()
            self.task = task
            if task is not None:
                self.figures.error = ""
                self.figures.damaged.clear()
                self._is_first = True
                self._log.info(f"Shipping the store to {task.url}")
                self._keeper = _Keeper(task, self._heard)
                self._keeper.start()

    async def _end(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            await asyncio.to_thread(keeper.end)
            self._moved_before, self._moved = self.figures.moved, 0

    def _heard(self, keeper: _Keeper, report: Report) -> None:
        """In the keeper's thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: the broker has ended
            self._loop.call_soon_threadsafe(self._take, keeper, report)

    def _take(self, keeper: _Keeper, report: Report) -> None:
        if keeper is not self._keeper or self.task is None:
            return
        figures = self.figures
        if report.moved < self._moved:  # of a new process
            self._moved_before += self._moved
        self._moved = report.moved
        figures.moved = self._moved_before + report.moved
        figures.objects += report.objects
        figures.bytes += report.bytes
        if report.stream:
            self._tell_damage(report)
        if report.passed:
            self._passed(report, self.task)
        elif report.failed:
            self._failed(report.failed, self.task)

    def _passed(self, report: Report, task: Task) -> None:
        figures = self.figures
        figures.passes += 1
        figures.streams, figures.segments = report.streams, report.segments
        figures.passed_at = time.time()
        copy = f"The copy at {task.url} has {report.segments} segments of {report.streams} streams"
        if figures.error or self._is_first:
            self._log.info(copy)
        else:
            self._log.debug(copy)
        figures.error = ""
        self._is_first = False

    def _failed(self, why: str, task: Task) -> None:
        """Another reason is told at once, the same one from time to time."""
        figures = self.figures
        figures.failures += 1
        now = time.monotonic()
        if why != figures.error or now >= self._told_at + limits.SHIP_REPORT_SECONDS:
            self._told_at = now
            self._log.error(f"Shipping the store to {task.url} failed: {why}; next try in {task.interval:g}s")
        figures.error = why

    def _tell_damage(self, report: Report) -> None:
        """Of each stream once, and again when there is more."""
        who = report.account, report.stream
        known = self.figures.damaged.get(who, 0)
        if not report.damaged_messages:
            self.figures.damaged.pop(who, None)
            return
        self.figures.damaged[who] = report.damaged_messages
        if report.damaged_messages > known:
            ranges = ", ".join(
                f"{first}" if first == last else f"{first}-{last}" for first, last in map(tuple, report.damaged)
            )
            more = ", …" if len(report.damaged) == DAMAGE_RANGES else ""
            self._log.warn(f"Stream '{who[0]} > {who[1]}' is shipped with messages that cannot be read: {ranges}{more}")


class _Keeper:
    """A thread that keeps one process after the other, until it is told to end."""

    def __init__(self, task: Task, heard: Callable[[_Keeper, Report], None]) -> None:
        self.task = task
        self._thread = threading.Thread(target=self._run, name="shipping", daemon=True)
        self._heard = heard
        self._ending = threading.Event()
        self._lock = threading.Lock()  # over starting a process and ending it
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        least, most = _PAUSE_SECONDS
        while not self._ending.is_set():
            why = self._run_one()
            if not self._ending.is_set():
                self._heard(self, Report(failed=why))
                self._ending.wait(min(max(self.task.interval, least), most))

    def end(self) -> None:
        """Return when the process is gone."""
        with self._lock:
            self._ending.set()
            process = self._process
            if process is not None:
                _close(process.stdin)
        self._thread.join(_END_SECONDS)
        if process is not None:
            process.kill()
        self._thread.join()

    def _run_one(self) -> str:
        """Returns why it ended."""
        try:
            process = self._started()
        except (OSError, ValueError) as error:
            return f"its process cannot be started: {error}"
        if process is None or process.stdout is None:
            return ""
        last_words = ""
        with process.stdout as lines:
            while line := lines.readline(LINE_BYTES):
                report = decode_report(line)
                if report is not None:
                    self._heard(self, report)
                elif words := line.decode(errors="replace").strip():
                    last_words = words[:_LAST_WORDS]
        code = process.wait()
        _close(process.stdin)
        return f"its process ended with exit code {code}" + (f" ({last_words})" if last_words else "")

    def _started(self) -> subprocess.Popen[bytes] | None:
        """None: the end has come."""
        with self._lock:
            if self._ending.is_set():
                return None
            command = [sys.executable, "-P", "-c", _CODE, str(_ROOT), "ship", self.task.url]
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            if self._process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):  # it ended already: its last words say why
                    self._process.stdin.write(encode(self.task))
                    self._process.stdin.flush()
            return self._process


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with contextlib.suppress(BrokenPipeError):
            pipe.close()
