"""Permissions to import end at their time, by a clock that the test sets."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from jetbroker.accounts.graph import Graph
from jetbroker.accounts.resolver import Effects, Resolver
from jetbroker.config.options import AccountOptions, ActivationOptions, ExportOptions, ImportOptions, Options
from jetbroker.logs.logger import Logger

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

    def call_later(self, seconds: float, callback: Callable[..., object], *arguments: object) -> Timer:
        self.timers.append(Timer(seconds, lambda: callback(*arguments)))
        return self.timers[-1]


def sharing() -> Options:
    """Account B imports a stream from A, with a permission that ends."""
    activation = ActivationOptions(importer="B", issuer="A", issuer_account="", issued_at=1, expires=END)
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
