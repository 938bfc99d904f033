"""Fixtures for tests against a real server process (see tests/support/process.py)."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import nats
import pytest
from hypothesis import HealthCheck, settings
from nats.aio.client import Client
from pytest_rerunfailures import StatusDB
from xdist.scheduler import LoadFileScheduling

from tests.support import process

Connect = Callable[..., Awaitable[Client]]

# how long an example takes says something of the machine only
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")
# for `--hypothesis-profile=nightly`: no bound of time (test_scripts.py), and tests play all they can (support/depth.py)
settings.register_profile("nightly", max_examples=3000, deadline=None)


# nats-server's own goroutines race: now and then it loses an advisory or answers late, and a comparison with it
# would fail without a fault of ours. These tests fail when they fail twice; the report names each that ran again.
# Some stand beside what they are about; they have the marker.
COMPARED = "tests/differential/"

# Few tests that take long: they begin first, or one worker would still be at them when the others have ended.
LONG = (
    "tests/spark/", "tests/leafnodes/test_link_loss.py", "tests/differential/test_sequences.py", "tests/crash/",
    "tests/walkthroughs/", "tests/testing/", "tests/fuzz/", "tests/tables/",
    "tests/daemon/test_background_shipping.py", "tests/monitor/test_ten_thousand_streams.py",
)  # fmt: skip

NEW_OBJECTS = 20_000  # between two looks for objects that nothing refers to

SPARK_SECONDS = 600  # some tests start a JVM, which takes a minute where other programs want the processors
# Spark gives a Python process ten seconds to start, however busy the machine is: with this, its tests run again.
SPARK_GAVE_UP = "Python worker failed to connect back"


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Each worker counts its tries itself, and looks for garbage more seldom.

    Else it asks the first process before each test that may run again. That costs up to 40 ms: two small writes in a
    row wait for the other side's delayed acknowledgement. Lost is a second try of a test that ended its worker.
    """
    gc.set_threshold(NEW_OBJECTS)
    if hasattr(config, "workerinput"):
        vars(config)["failures_db"] = StatusDB()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order in which workers take files: long ones, then those of many tests."""
    counts = Counter(_file(item.nodeid) for item in items)
    for item in items:
        if item.nodeid.startswith(LONG[0]):
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(SPARK_SECONDS))
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=SPARK_GAVE_UP))
        if item.nodeid.startswith(COMPARED) or item.get_closest_marker("differential"):
            _try_twice(item)

    def rank(item: pytest.Item) -> tuple[int, int, str]:
        file = _file(item.nodeid)
        return (next((at for at, long in enumerate(LONG) if file.startswith(long)), len(LONG)), -counts[file], file)

    items.sort(key=rank)


def _try_twice(item: pytest.Item) -> None:
    """The bound of time is set around the function, anew for each try; else it would stand for both and ring once."""
    item.add_marker(pytest.mark.flaky(reruns=1))
    bound = item.get_closest_marker("timeout")
    seconds = bound.args[0] if bound else float(item.config.getini("timeout"))
    item.add_marker(pytest.mark.timeout(seconds, func_only=True), append=False)


def pytest_collection_finish() -> None:
    """The collector need not look through thousands of tests each time."""
    gc.collect()
    gc.freeze()


class OneSpark(LoadFileScheduling):  # type: ignore[misc]
    """Workers take files, and one of them all that may want a Spark session: a start of Spark takes long."""

    def _split_scope(self, nodeid: str) -> str:
        return LONG[0] if nodeid.startswith(LONG[0]) else _file(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> OneSpark:
    """Of `--dist loadfile`, which is what `make test` asks for."""
    return OneSpark(config, log)


def _file(nodeid: str) -> str:
    return nodeid.split("::", 1)[0]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[process.ServerProcess]:
    """One jetbroker for the tests of a module, with JetStream on an empty store."""
    store: Path = tmp_path_factory.mktemp("store")
    with process.jetbroker("-js", "-sd", str(store)) as server:
        yield server


@pytest.fixture(scope="module")
def reference_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store directory of `reference_server`."""
    return tmp_path_factory.mktemp("reference")


@pytest.fixture(scope="module")
def reference_server(reference_store: Path) -> Iterator[process.ServerProcess]:
    """One nats-server for the tests of a module; skips them when there is none on this machine."""
    if process.find_nats_server() is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    with process.nats_server("-js", "-sd", str(reference_store)) as server:
        yield server


@pytest.fixture
async def connect(broker: process.ServerProcess) -> AsyncIterator[Connect]:
    """A function that opens a nats-py connection to `broker`; all are closed after the test."""

    async def open_connection(**options: Any) -> Client:
        client = await nats.connect(broker.url, **{"allow_reconnect": False, "connect_timeout": 5, **options})
        stack.push_async_callback(client.close)
        return client

    async with AsyncExitStack() as stack:
        yield open_connection
