"""Checks of passwords wait in turn by address, and by name within it, so that wrong logins delay nobody else.

Each check of a hash takes a thread for a tenth of a second, and strangers decide how many are asked for. So only hashes
that somebody has are checked. A refusal that needs none (of an unknown name, for example) waits for the same turn and
then for a timer, as long as checks took lately: it tells no more than a real one, and takes nobody's time. One name at
one address has one check at a time; which of those that wait is next is left to chance, so that no flood of wrong
logins keeps its owner out for certain.

Passwords that were given lately are remembered by a keyed digest: the good ones are good at once, the wrong ones are
refused without another check (but not sooner).
"""

import asyncio
import hashlib
import hmac
import os
import random
import socket
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from jetbroker import limits
from jetbroker.auth import passwords

TIMER_SECONDS = 0.001  # what a timer rounds to; every refusal ends with one
_IPV6_NETWORK_BYTES = 8  # of an address: who has one has all of its network


@dataclass(slots=True, eq=False)
class _Job:
    """One login that waits."""

    check: passwords.Check
    wanted: Callable[[], bool]
    done: Callable[[bool], None]


@dataclass(slots=True, eq=False)
class _Name:
    """The logins with one name from one address; one of them at a time is at work.

    `has_turn`: it is among its address's `turns`.
    """

    place: "_Address"
    name: str
    jobs: list[_Job] = field(default_factory=list)
    busy: bool = False
    has_turn: bool = False


@dataclass(slots=True, eq=False)
class _Address:
    """The names of one address. `turns`: those that wait and are not busy."""

    key: tuple[bytes, bool]
    names: dict[str, _Name] = field(default_factory=dict)
    turns: deque[_Name] = field(default_factory=deque)
    waiting: int = 0


class Remembered:
    """Digests of (hash, password) that were given lately. The key is this process's own."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._key = os.urandom(32)
        self._until: OrderedDict[bytes, float] = OrderedDict()

    def knows(self, check: passwords.Check) -> bool:
        """Was it given lately? If so it is remembered for longer."""
        digest = self._digest(check)
        if self._until.get(digest, 0.0) <= self._now():
            return False
        self._remember(digest)
        return True

    def add(self, check: passwords.Check) -> None:
        """It was given just now."""
        self._remember(self._digest(check))

    def _remember(self, digest: bytes) -> None:
        self._until[digest] = self._now() + limits.PASSWORD_REMEMBERED_SECONDS
        self._until.move_to_end(digest)
        if len(self._until) > limits.PASSWORDS_REMEMBERED:
            self._until.popitem(last=False)

    def _digest(self, check: passwords.Check) -> bytes:
        secret, given = (text.encode("utf-8", "surrogatepass") for text in (check.secret, check.given))
        return hmac.digest(self._key, hashlib.sha256(secret).digest() + given, "sha256")


class PasswordQueue:
    """All checks of a broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._threads: ThreadPoolExecutor | None = None
        self._free = limits.PASSWORD_THREADS
        self._stopped = False
        self._addresses: dict[tuple[bytes, bool], _Address] = {}
        self._turns: deque[_Address] = deque()  # addresses with somebody who could begin
        self._good = Remembered(loop.time)
        self._wrong = Remembered(loop.time)
        self._clock = _Clock(loop, self._measure)

    def ask(
        self,
        check: passwords.Check,
        address: str,
        name: str,
        wanted: Callable[[], bool],
        done: Callable[[bool], None],
        *,
        must_be_checked: bool = False,
    ) -> None:
        """Have `done` told, later, whether a password is good. Nothing is done for those that nobody wants any more.

        With too many from one address some are told False without a check. Not those that must be checked: these wait
        in a line of their own.
        """
        if check.secret and self._good.knows(check):
            self._loop.call_soon(done, True)
            return
        key = (network_of(address), must_be_checked)
        place = self._addresses.get(key)
        if place is None:
            place = self._addresses[key] = _Address(key)
        line = place.names.get(name)
        if line is None:
            line = place.names[name] = _Name(place, name)
        line.jobs.append(_Job(check, wanted, done))
        place.waiting += 1
        if not (line.busy or line.has_turn):
            self._give_turn(line)
        if place.waiting > limits.PASSWORD_QUEUE and not must_be_checked:
            self._drop_one(place)
        self._go_on()

    def stop(self) -> None:
        """End the threads; what they are at is thrown away, and nobody is told anything."""
        self._stopped = True
        self._turns.clear()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    # --- whose turn it is ---

    def _give_turn(self, line: _Name) -> None:
        if not line.place.turns:
            self._turns.append(line.place)
        line.place.turns.append(line)
        line.has_turn = True

    def _drop_one(self, place: _Address) -> None:
        """The oldest of the name with most."""
        line = max(place.names.values(), key=lambda other: len(other.jobs))
        self._loop.call_soon(line.jobs.pop(0).done, False)
        place.waiting -= 1
        if line.has_turn and not line.jobs:
            place.turns.remove(line)
            line.has_turn = False
            self._leave(line)
            if not place.turns:
                self._turns.remove(place)

    def _go_on(self) -> None:
        while self._free > 0 and self._turns and not self._stopped:
            place = self._turns.popleft()
            line = place.turns.popleft()
            line.has_turn = False
            if place.turns:
                self._turns.append(place)
            job = self._take(line)
            if job is None:
                self._leave(line)
                continue
            line.busy = True
            self._begin(line, job)

    def _take(self, line: _Name) -> _Job | None:
        """Any of those that are still wanted."""
        while line.jobs:
            job = line.jobs.pop(random.randrange(len(line.jobs)))
            line.place.waiting -= 1
            if job.wanted():
                return job
            job.done(False)
        return None

    def _leave(self, line: _Name) -> None:
        line.busy = False
        if line.jobs:
            self._give_turn(line)
            return
        place = line.place
        del place.names[line.name]
        if not place.names:
            del self._addresses[place.key]

    # --- at work ---

    def _begin(self, line: _Name, job: _Job) -> None:
        check, began = job.check, self._loop.time()
        if check.secret and self._good.knows(check):
            self._loop.call_soon(self._end, line, job, True)
        elif not check.secret or self._wrong.knows(check):
            self._clock.after(check.dearest, began, lambda: self._end(line, job, False))
        else:
            checked = partial(self._checked, line, job, began)
            self._in_thread(lambda: passwords.fits_hash(check.secret, check.given), checked)

    def _in_thread(self, work: Callable[[], bool], done: Callable[[bool], None]) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(limits.PASSWORD_THREADS, "jetbroker-passwords", _give_way_to_the_loop)
        self._free -= 1

        def worked(future: "asyncio.Future[bool]") -> None:
            if self._stopped:
                return
            self._free += 1
            error = future.exception()
            if error is not None:
                self._loop.call_exception_handler({"message": "Error checking a password", "exception": error})
            done(error is None and future.result())
            self._go_on()

        self._loop.run_in_executor(self._threads, work).add_done_callback(worked)

    def _checked(self, line: _Name, job: _Job, began: float, is_good: bool) -> None:
        check = job.check
        is_dearest = passwords.cost_of(check.secret) == check.dearest
        if is_dearest:
            self._clock.add(check.dearest, self._loop.time() - began)
        (self._good if is_good else self._wrong).add(check)
        if is_good:
            self._end(line, job, True)
        elif is_dearest:
            self._loop.call_later(TIMER_SECONDS, self._end, line, job, False)
        else:
            self._clock.after(check.dearest, began, lambda: self._end(line, job, False))

    def _measure(self, cost: int) -> None:
        began = self._loop.time()

        def work() -> bool:
            passwords.spend(cost)
            return False

        self._in_thread(work, lambda _: self._clock.add(cost, self._loop.time() - began))

    def _end(self, line: _Name, job: _Job, is_good: bool) -> None:
        self._leave(line)
        self._go_on()
        job.done(is_good)


class _Clock:
    """How long checks of the dearest hash take at present. `measure` makes one, for its time alone, and adds it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, measure: Callable[[int], None]) -> None:
        self._loop = loop
        self._measure = measure
        self._cost = 0
        self._seconds: deque[float] = deque(maxlen=limits.PASSWORD_MEASURES)
        self._next_measure = 0.0
        self._waiting: list[Callable[[], None]] = []

    def add(self, cost: int, seconds: float) -> None:
        """A check of this cost took so long."""
        self._follow(cost)
        self._seconds.append(seconds)
        self._next_measure = self._loop.time() + limits.PASSWORD_MEASURE_SECONDS
        waiting, self._waiting = self._waiting, []
        for go_on in waiting:
            go_on()

    def after(self, cost: int, began: float, done: Callable[[], None]) -> None:
        """Call when a check of this cost that was begun then would be done."""
        self._follow(cost)
        now = self._loop.time()
        if now >= self._next_measure:
            self._next_measure = now + limits.PASSWORD_MEASURE_SECONDS
            self._measure(cost)
        if not self._seconds:
            self._waiting.append(lambda: self.after(cost, began, done))
            return
        self._loop.call_later(max(began + random.choice(self._seconds) - now, 0.0) + TIMER_SECONDS, done)

    def _follow(self, cost: int) -> None:
        if cost != self._cost:
            self._cost = cost
            self._seconds.clear()
            self._next_measure = 0.0


def network_of(address: str) -> bytes:
    """What an address counts as where logins are bounded."""
    if ":" not in address:
        return address.encode()
    try:
        return socket.inet_pton(socket.AF_INET6, address.partition("%")[0])[:_IPV6_NETWORK_BYTES]
    except OSError:
        return address.encode()


def _give_way_to_the_loop() -> None:
    """A thread that checks hashes gets what the event loop leaves of the cores: strangers decide how many it checks."""
    if sys.platform == "linux":  # elsewhere it would be the whole process
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), limits.PASSWORD_NICENESS)
