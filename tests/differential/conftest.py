"""Pairs of servers that are shared by all tests of a run, one pair for each configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.support import process
from tests.support.process import JETBROKER_COMMAND


@dataclass(frozen=True)
class Pair:
    """The same configuration twice."""

    reference: process.ServerProcess
    broker: process.ServerProcess


@pytest.fixture(scope="session")
def commands() -> list[tuple[str, ...]]:
    """What starts each server, nats-server first: for tests that end or reload theirs."""
    found = process.find_nats_server()
    if found is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    return [(found,), JETBROKER_COMMAND]


@pytest.fixture(scope="session")
def pair_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Pair]]:
    """A function from a configuration's text to its pair, started when first asked for."""
    if process.find_nats_server() is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    pairs: dict[str, Pair] = {}

    def pair(config: str) -> Pair:
        if config not in pairs:
            started = []
            for make in (process.nats_server, process.jetbroker):
                folder = tmp_path_factory.mktemp("pair")
                path = folder / "server.conf"
                path.write_text(config.replace("STORE", f"'{folder}'") + "\nserver_name: same\n")
                started.append(stack.enter_context(make("-c", str(path))))
            pairs[config] = Pair(*started)
        return pairs[config]

    with ExitStack() as stack:
        yield pair
