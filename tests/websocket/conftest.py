"""The same configuration in jetbroker and in nats-server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.daemon import ANY_PORT, Daemon
from tests.support.process import find_nats_server

Pair = tuple[Daemon, Daemon]
StartPair = Callable[[str], Pair]
Start = Callable[[str], Daemon]


def no_traceback(daemon: Daemon) -> None:
    """A test that ends well may not have caused an internal error."""
    assert not [line for line in daemon.log if "Traceback" in line or "Internal error" in line], "\n".join(daemon.log)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts a jetbroker with a configuration; it ends with the module."""

    def run(config: str) -> Daemon:
        path: Path = tmp_path_factory.mktemp("websocket") / "conf"
        path.write_text(config)
        daemon = stack.enter_context(Daemon("-D", "-c", str(path)))
        stack.callback(no_traceback, daemon)
        return daemon

    with ExitStack() as stack:
        yield run


@pytest.fixture(scope="module")
def start_pair(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartPair]:
    """Starts a jetbroker and a nats-server with a configuration; they end with the module."""
    program = find_nats_server()
    if program is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")

    def run(config: str) -> Pair:
        path: Path = tmp_path_factory.mktemp("reference") / "conf"
        path.write_text(config)
        return start(config), stack.enter_context(Daemon("-D", "-c", str(path), command=(program, *ANY_PORT)))

    with ExitStack() as stack:
        yield run
