"""The process that ships the store of a running broker, pass after pass.

Its first line of input is the task. It ends when its input does, so that none outlives its broker, however that ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time

from jetbroker.errors import JetbrokerError
from jetbroker.store.offline.places import place_of
from jetbroker.store.shipping.pace import Pace
from jetbroker.store.shipping.shipper import Shipped, Shipper
from jetbroker.store.shipping.task import DAMAGE_RANGES, LINE_BYTES, Report, Task, decode_task, encode

NICENESS = 10  # the broker and its clients come first
GRACE_SECONDS = 3.0  # to give up an upload in good order
TOLD_SECONDS = 1.0  # between two lines about bytes


class _TellingPace(Pace):
    """Tells how much has moved, once a second: a first pass may take days."""

    def __init__(self, bytes_per_second: int | None) -> None:
        super().__init__(bytes_per_second)
        self._tell_at = 0.0

    def __call__(self, size: int) -> None:
        super().__call__(size)
        if time.monotonic() >= self._tell_at:
            self._tell_at = time.monotonic() + TOLD_SECONDS
            _tell(Report(moved=self.moved))


def main() -> int:
    """Ship until the input ends. Returns the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the broker gets it, too, and decides
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _interrupt)
    with contextlib.suppress(PermissionError):  # a hardened unit may refuse it
        os.nice(NICENESS)
    task = decode_task(sys.stdin.buffer.readline(LINE_BYTES))
    threading.Thread(target=_end_with_broker, daemon=True).start()
    try:
        _ship(task)
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(0)  # what a library's threads are about is not waited for
    return 1


def _interrupt(*_: object) -> None:
    """An unfinished upload is given up."""
    raise KeyboardInterrupt


def _end_with_broker() -> None:
    while sys.stdin.buffer.read(LINE_BYTES):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)


def _ship(task: Task) -> None:
    """For good."""
    pace = _TellingPace(task.rate)
    shipper: Shipper | None = None
    while True:
        try:
            if shipper is None:
                shipper = Shipper(
                    task.store, place_of(task.url), pace,
                    unsealed=task.unsealed, check=task.check, keep_dropped=task.keep_dropped,
                )  # fmt: skip
            _pass(shipper, pace)
        except (JetbrokerError, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            _tell(Report(moved=pace.moved, failed=str(error)))
        time.sleep(task.interval)


def _pass(shipper: Shipper, pace: Pace) -> None:
    streams = segments = 0
    for done in shipper.ship():
        streams += 1
        segments += done.segments
        if done.objects or done.damaged:
            _tell(_about(done, pace))
    _tell(Report(moved=pace.moved, passed=True, streams=streams, segments=segments))


def _about(done: Shipped, pace: Pace) -> Report:
    return Report(
        moved=pace.moved,
        objects=done.objects,
        bytes=done.bytes,
        account=done.account,
        stream=done.stream,
        damaged=done.damaged[:DAMAGE_RANGES],
        damaged_messages=sum(last - first + 1 for first, last in done.damaged),
    )


def _tell(report: Report) -> None:
    sys.stdout.buffer.write(encode(report))
    sys.stdout.buffer.flush()
