"""What accounts give each other follows their tokens, and ends at its time, by a clock that the test sets."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from jetbroker.accounts.graph import Graph
from jetbroker.accounts.resolver import Effects, Resolver
from jetbroker.config.options import AccountOptions, ActivationOptions, ExportOptions, ImportOptions, Options
from jetbroker.logs.logger import Logger
from tests.support.jwts import Account, Operator

END = 1_000_000


class Timer:
    def __init__(self, seconds: float, call: Callable[[], object]) -> None:
        self.seconds = seconds
        self.call = call

    def cancel(self) -> None:
        self.call = lambda: None


class Clock:
    """The wall clock and the loop's timers: they are kept, and called by the test."""

    def __init__(self) -> None:
        self.now = END - 10.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        """The loop's."""
        return self.now

    def call_later(self, seconds: float, callback: Callable[..., object], *arguments: object) -> Timer:
        self.timers.append(Timer(seconds, lambda: callback(*arguments)))
        return self.timers[-1]


def sharing() -> Options:
    """Account B imports a stream from A, with a permission that ends."""
    activation = ActivationOptions(importer="B", subject="x", issuer="A", issuer_account="", issued_at=1, expires=END)
    options = Options()
    options.accounts = {
        "A": AccountOptions("A", exports=[ExportOptions("stream", "x", activated=True, signers=frozenset(("A",)))]),
        "B": AccountOptions("B", imports=[ImportOptions("stream", "A", "x", activation=activation)]),
    }
    return options


@pytest.mark.parametrize("early", [0.0, 0.0004])
def test_a_permission_to_import_ends_although_its_timer_is_early(monkeypatch: pytest.MonkeyPatch, early: float) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "time", lambda: clock.now)
    imports: list[int] = []

    def apply(graph: Graph, only: set[str] | None) -> None:
        imports.append(len(graph["B"].streams))
        clock.now += 0.001  # it takes its time, in which the permission may end

    loop: Any = clock
    effects = Effects(apply, changed=lambda before, now: None, expired=lambda known: None)
    resolver = Resolver(sharing(), loop, Logger(), effects)
    resolver.reload()
    while imports[-1] and len(imports) < 5:
        timer = clock.timers.pop()
        clock.now += timer.seconds - early
        timer.call()
    assert imports[-1] == 0
    assert END <= clock.now < END + 0.01
    assert clock.timers == []


class Broker:
    """A resolver of operator mode with these accounts, and what it asks of its broker."""

    def __init__(self, clock: Clock, *accounts: Account) -> None:
        self.operator = Operator()
        self.options = Options()
        self.options.operator.trusted_keys = [self.operator.key.public]
        self.graph: Graph = {}
        self.expired: list[str] = []
        loop: Any = clock
        effects = Effects(self._apply, lambda before, now: None, lambda known: self.expired.append(known.name))
        self.resolver = Resolver(self.options, loop, Logger(), effects)
        for account in accounts:
            self.preload(account)

    def preload(self, account: Account, **outer: Any) -> str:
        """Put the account's token, as it is now, into the configuration."""
        token = account.token(self.operator.key, **outer)
        self.options.operator.preload[account.public] = token
        return token

    def _apply(self, graph: Graph, only: set[str] | None) -> None:
        self.graph = graph


def exports(subject: str) -> list[dict[str, Any]]:
    return [{"name": subject, "subject": subject, "type": "stream"}]


def imports(subject: str, account: Account) -> list[dict[str, Any]]:
    return [{"name": subject, "subject": subject, "account": account.public, "type": "stream"}]


def test_an_account_that_another_one_read_in_expires_after_a_reload_too(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "time", lambda: clock.now)
    exporter = Account("exporter", more={"exports": exports("x")})
    importer = Account("importer", more={"imports": imports("x", exporter)})
    broker = Broker(clock, importer)
    broker.preload(exporter, exp=END)
    broker.resolver.find(importer.public)  # the exporter comes with it
    importer.more = {**importer.more, "tags": ["other"]}
    broker.preload(importer)
    broker.resolver.reload()
    clock.now = float(END)
    for timer in clock.timers:
        timer.call()
    assert broker.expired == [exporter.public]
    assert broker.resolver.find(exporter.public).expired


def test_nothing_is_imported_of_what_was_the_last_thing_shared() -> None:
    exporter = Account("exporter", more={"exports": exports("x")})
    importer = Account("importer", more={"imports": imports("x", exporter)})
    late = Account("late", more={"imports": imports("x", exporter)})
    broker = Broker(Clock(), exporter, importer, late)
    broker.resolver.find(importer.public)
    assert len(broker.graph[importer.public].streams) == 1
    for account in (importer, exporter):
        account.more = {}
        broker.resolver.update(account.public, broker.preload(account))
    assert broker.graph == {}
    broker.resolver.find(late.public)
    assert broker.graph[late.public].streams == []


def test_a_reload_takes_no_token_of_another_account() -> None:
    first, second = Account("first"), Account("second")
    broker = Broker(Clock(), first, second)
    for account in (first, second):
        broker.resolver.find(account.public)
    broker.options.operator.preload[first.public] = broker.options.operator.preload[second.public]
    broker.resolver.reload()
    assert broker.resolver.knows(first.public) is None
    assert set(broker.options.accounts) == {second.public}
