"""What the disk refuses: told when it begins and when it is over, and when it is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jetbroker import limits

if TYPE_CHECKING:
    from jetbroker.logs.logger import Logger


@dataclass
class Fault:
    """A stream or a consumer that cannot be written now; `account` is empty when it is the store as a whole."""

    account: str
    stream: str
    consumer: str
    file: str
    reason: str

    def where(self) -> str:
        """For the log."""
        return " > ".join(name for name in (self.account, self.stream, self.consumer) if name) or "the store"


class Faults:
    """Those of one store that last. Whoever fails says so each time, and again when it works."""

    def __init__(self, loop: asyncio.AbstractEventLoop, log: Logger | None) -> None:
        self._loop = loop
        self._log = log
        self._told: dict[tuple[str, str, str], float] = {}  # when the log had a line last, where it may flap
        self._lasting: dict[object, Fault] = {}
        self._by_stream: dict[tuple[str, str], dict[object, Fault]] = {}

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._lasting.values())

    def begin(self, owner: object, fault: Fault) -> None:
        """`owner` cannot write or sync `fault.file`; one line of the log, unless it was told just now."""
        is_known = owner in self._lasting
        self._lasting[owner] = fault
        self._by_stream.setdefault((fault.account, fault.stream), {})[owner] = fault
        if self._log is not None and not is_known and self._may_tell(fault):
            self._log.error(f"JetStream storage of '{fault.where()}' failed, {fault.file}: {fault.reason}")

    def over(self, owner: object) -> None:
        """It works again."""
        fault = self.forget(owner)
        if fault is not None and self._log is not None:
            self._log.info(f"JetStream storage of '{fault.where()}' works again")

    def forget(self, owner: object) -> Fault | None:
        """It is gone; returns what it failed with."""
        fault = self._lasting.pop(owner, None)
        if fault is not None:
            of_stream = self._by_stream[fault.account, fault.stream]
            del of_stream[owner]
            if not of_stream:
                del self._by_stream[fault.account, fault.stream]
        return fault

    def of_stream(self, account: str, stream: str) -> list[Fault]:
        """Of one stream and its consumers."""
        return list(self._by_stream.get((account, stream), {}).values())

    def _may_tell(self, fault: Fault) -> bool:
        now = self._loop.time()
        oldest = now - limits.STORAGE_REPORT_SECONDS
        self._told = {key: told for key, told in self._told.items() if told > oldest}
        key = (fault.account, fault.stream, fault.consumer)
        if key in self._told:
            return False
        self._told[key] = now
        return True


class Retry:
    """When `action` is tried again: later each time, until it is told that it worked."""

    def __init__(self, loop: asyncio.AbstractEventLoop, action: Callable[[], object]) -> None:
        self._loop = loop
        self._action = action
        self._timer: asyncio.TimerHandle | None = None
        self._delay = 0.0

    @property
    def waits(self) -> bool:
        """Is a next try to come?"""
        return self._timer is not None

    def again(self) -> None:
        """It failed; what waits already stays."""
        if self._timer is not None:
            return
        self._delay = min(self._delay * 2 or limits.STORAGE_RETRY_SECONDS, limits.STORAGE_RETRY_MAX_SECONDS)
        self._timer = self._loop.call_later(self._delay, self._fire)

    def worked(self) -> None:
        """The next failure waits a short time again."""
        self.cancel()
        self._delay = 0.0

    def cancel(self) -> None:
        """No more tries."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def end(self) -> None:
        """No more tries, ever."""
        self.cancel()
        self._action = _nothing

    def _fire(self) -> None:
        self._timer = None
        self._action()


def _nothing() -> None:
    """What is left to try of something that is closed."""
