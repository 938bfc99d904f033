"""Whose password is checked when, and when refusals are told: in a time that goes on only when told."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetbroker import limits
from jetbroker.auth import password_queue, passwords
from jetbroker.auth.password_queue import TIMER_SECONDS, PasswordQueue
from jetbroker.auth.passwords import Check

RIGHT = "right"
DEAREST = 10
HERE, THERE = "127.0.0.1", "10.0.0.1"


def hashed(name: str, cost: int = DEAREST) -> str:
    return f"$2a${cost:02}$" + name.ljust(53, ".")


def seconds(cost: int) -> float:
    return 2.0 ** (cost - DEAREST) / 16


class Done:
    """A thread's result, as the loop tells it."""

    def __init__(self, result: bool) -> None:
        self._result = result
        self.callback: Callable[[Any], None] = lambda _: None

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self.callback = callback

    def cancelled(self) -> bool:
        return False

    def exception(self) -> None:
        return None

    def result(self) -> bool:
        return self._result


class Clockwork:
    """A loop whose threads take as long as their hashes cost. `hashes` are those that were computed."""

    def __init__(self) -> None:
        self.now = 0.0
        self.hashes: list[str] = []
        self.at_work = 0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = count()

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> None:
        self.call_later(0.0, callback, *args)

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> None:
        heapq.heappush(self._due, (self.now + delay, next(self._count), lambda: callback(*args)))

    def run_in_executor(self, _: object, work: Callable[[], bool]) -> Done:
        before = len(self.hashes)
        future = Done(work())
        self.at_work += 1
        assert self.at_work <= limits.PASSWORD_THREADS

        def end() -> None:
            self.at_work -= 1
            future.callback(future)

        self.call_later(sum(seconds(passwords.cost_of(secret)) for secret in self.hashes[before:]), end)
        return future

    def fits(self, secret: str, given: str) -> bool:
        self.hashes.append(secret)
        return given == RIGHT

    def run(self, until: float = float("inf")) -> None:
        while self._due and self._due[0][0] <= until:
            self.now, _, callback = heapq.heappop(self._due)
            callback()
        self.now = until if until != float("inf") else self.now


class Bench:
    """A queue, and who was told what when."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = Clockwork()
        monkeypatch.setattr(passwords, "fits_hash", self.loop.fits)
        monkeypatch.setattr(password_queue, "ThreadPoolExecutor", lambda *_: None)
        self.queue = PasswordQueue(self.loop)  # type: ignore[arg-type]
        self.told: dict[str, tuple[bool, float]] = {}

    def ask(self, label: str, name: str, given: str, address: str = HERE, *, secret: str | None = None) -> None:
        def done(is_good: bool) -> None:
            assert label not in self.told
            self.told[label] = (is_good, self.loop.now)

        check = Check(hashed(name) if secret is None else secret, given, DEAREST)
        self.queue.ask(check, address, name, lambda: True, done)

    def is_good(self, label: str) -> bool:
        return self.told[label][0]

    def at(self, label: str) -> float:
        return self.told[label][1]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    random.seed(1)
    yield Bench(monkeypatch)


def test_unknown_names_take_nobodys_time(bench: Bench) -> None:
    for number in range(200):
        bench.ask(f"wrong {number}", f"nobody {number}", "x", secret="")
    bench.ask("ann", "ann", RIGHT)
    bench.loop.run()
    assert bench.is_good("ann")
    assert bench.at("ann") == seconds(DEAREST)
    # one was made to know how long they take
    assert len(bench.loop.hashes) == 2
    assert not any(bench.is_good(f"wrong {number}") for number in range(200))


@pytest.mark.parametrize("address", [HERE, THERE])
def test_wrong_logins_for_one_name_leave_a_thread_to_the_others(bench: Bench, address: str) -> None:
    for number in range(100):
        bench.ask(f"wrong {number}", "ann", f"x{number}", address)
    bench.ask("bob", "bob", RIGHT)
    bench.loop.run(until=seconds(DEAREST))
    assert bench.is_good("bob")


def test_addresses_have_their_turns(bench: Bench) -> None:
    """However many names one address tries that are somebody's."""
    for number in range(100):
        bench.ask(f"wrong {number}", f"user {number}", "x", THERE)
    bench.ask("ann", "ann", RIGHT)
    bench.loop.run(until=2 * seconds(DEAREST))
    assert bench.is_good("ann")


def test_one_network_of_ipv6_is_one_address(bench: Bench) -> None:
    for number in range(100):
        bench.ask(f"wrong {number}", f"user {number}", "x", f"2001:db8::1:{number:x}")
    bench.ask("ann", "ann", RIGHT, "2001:db8:0:1::1")
    bench.loop.run(until=2 * seconds(DEAREST))
    assert bench.is_good("ann")


def test_a_password_that_was_good_lately_is_good_at_once(bench: Bench) -> None:
    bench.ask("first", "ann", RIGHT)
    bench.loop.run()
    for number in range(100):
        bench.ask(f"wrong {number}", "ann", f"x{number}")
    bench.ask("again", "ann", RIGHT)
    bench.loop.run(until=bench.loop.now)
    assert bench.told["again"] == (True, bench.at("first"))
    bench.queue.ask(Check(hashed("other"), RIGHT, DEAREST), HERE, "ann", lambda: True, lambda _: None)
    hashes = len(bench.loop.hashes)
    bench.loop.run()
    assert len(bench.loop.hashes) > hashes  # a new hash is another one
    bench.loop.run(until=bench.loop.now + limits.PASSWORD_REMEMBERED_SECONDS)
    hashes = len(bench.loop.hashes)
    bench.ask("later", "ann", RIGHT)
    bench.loop.run()
    assert bench.is_good("later")
    assert len(bench.loop.hashes) == hashes + 1


def test_many_reconnects_cost_one_check(bench: Bench) -> None:
    for number in range(200):
        bench.ask(f"{number}", "ann", RIGHT)
    bench.loop.run()
    assert all(bench.is_good(f"{number}") for number in range(200))
    assert len(bench.loop.hashes) == 1


def test_a_wrong_password_again_is_not_checked_but_refused_no_sooner(bench: Bench) -> None:
    bench.ask("wrong", "ann", "x")
    bench.loop.run()
    began = bench.loop.now
    bench.ask("again", "ann", "x")
    bench.loop.run()
    assert not bench.is_good("again")
    assert bench.at("again") - began == pytest.approx(bench.at("wrong"), abs=1e-9)
    assert len(bench.loop.hashes) == 1


@given(
    logins=st.lists(st.tuples(st.sampled_from([0.0, 0.01, 0.05, 0.2, 3.0]), st.sampled_from("abcd")), max_size=30),
    cost=st.sampled_from([4, 9, DEAREST]),
)
def test_a_refusal_comes_when_it_comes_for_others(logins: list[tuple[float, str]], cost: int) -> None:
    """Of a name that nobody has as of one that somebody has, whatever its hash costs and whatever came before."""
    told = []
    for secret in ("", hashed("ann", cost)):
        with pytest.MonkeyPatch.context() as patch:
            bench = Bench(patch)
            bench.ask("measure", "other", "x")
            bench.loop.run()
            for number, (gap, given_) in enumerate(logins):
                bench.loop.run(until=bench.loop.now + gap)
                bench.ask(str(number), "ann", given_, secret=secret)
            bench.loop.run()
            assert not any(good for good, _ in bench.told.values())
            told.append(sorted(at for _, at in bench.told.values()))
    assert told[0] == pytest.approx(told[1], abs=len(logins) * TIMER_SECONDS)


def test_what_waits_is_bounded_and_the_heaviest_pays(bench: Bench) -> None:
    for number in range(limits.PASSWORD_QUEUE * 2):
        bench.ask(f"wrong {number}", "ann", f"x{number}")
    bench.ask("bob", "bob", RIGHT)
    bench.loop.run(until=bench.loop.now)
    assert len(bench.told) >= limits.PASSWORD_QUEUE - 2
    assert "wrong 1" in bench.told
    bench.loop.run(until=seconds(DEAREST))
    assert bench.is_good("bob")
    bench.loop.run()
    assert len(bench.told) == limits.PASSWORD_QUEUE * 2 + 1
    assert not bench.queue._addresses, "what is done leaves nothing behind"


def test_names_by_the_thousand_leave_nothing_behind(bench: Bench) -> None:
    for name in ("ann", "bob"):
        bench.ask(name, name, "x")  # the threads are busy
    for number in range(limits.PASSWORD_QUEUE * 4):
        bench.ask(f"wrong {number}", f"nobody {number}", "x", secret="")
    (place,) = bench.queue._addresses.values()
    assert len(place.names) == limits.PASSWORD_QUEUE + 2
    bench.loop.run()
    assert len(bench.told) == limits.PASSWORD_QUEUE * 4 + 2
    assert not bench.queue._addresses
    assert not bench.queue._turns


def test_who_must_be_checked_is(bench: Bench) -> None:
    """Those who are connected when a reload comes."""
    good: list[bool] = []
    for number in range(limits.PASSWORD_QUEUE * 2):
        check = Check(hashed(f"user {number}"), RIGHT, DEAREST)
        bench.queue.ask(check, HERE, f"user {number}", lambda: True, good.append, must_be_checked=True)
    bench.loop.run()
    assert good == [True] * limits.PASSWORD_QUEUE * 2


LOGINS = st.tuples(
    st.sampled_from([0.0, 0.0, 0.01, 0.3, 20.0]),
    st.sampled_from(["ann", "bob", "cheap", "nobody", "none"]),
    st.sampled_from([RIGHT, "x", "y"]),
    st.sampled_from([HERE, THERE]),
)


@given(logins=st.lists(LOGINS, max_size=60), bound=st.integers(1, 5))
def test_everybody_is_told_once_and_right(logins: list[tuple[float, str, str, str]], bound: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "PASSWORD_QUEUE", bound)
        bench = Bench(patch)
        secrets = {"ann": hashed("ann"), "bob": hashed("bob"), "cheap": hashed("cheap", 4)}
        for number, (gap, name, given_, address) in enumerate(logins):
            bench.loop.run(until=bench.loop.now + gap)
            bench.ask(str(number), name, given_, address, secret=secrets.get(name, ""))
        bench.loop.run()
        for number, (_, name, given_, _) in enumerate(logins):
            assert not bench.is_good(str(number)) or (name in secrets and given_ == RIGHT)
        assert len(bench.told) == len(logins)
        assert not bench.queue._addresses
        assert bench.loop.at_work == 0
        bench.ask("last", "ann", RIGHT)
        bench.loop.run()
        assert bench.is_good("last")


def test_who_left_is_not_checked(bench: Bench) -> None:
    bench.ask("first", "ann", "x")
    bench.queue.ask(Check(hashed("ann"), "y", DEAREST), HERE, "ann", lambda: False, lambda _: None)
    bench.ask("last", "ann", RIGHT)
    bench.loop.run()
    assert (bench.is_good("last"), len(bench.loop.hashes)) == (True, 2)


def test_digests_are_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PASSWORDS_REMEMBERED", 3)
    for number in range(5):
        bench.ask(f"{number}", "ann", f"x{number}")
        bench.loop.run()
    assert len(bench.queue._wrong._until) == 3
    assert not any(text.encode() in digest for digest in bench.queue._wrong._until for text in ("x4", hashed("ann")))
