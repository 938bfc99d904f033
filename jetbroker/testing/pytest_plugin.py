"""What pytest finds by itself once jetbroker is installed: a broker, a client of it, its JetStream.

    async def test_an_order_is_stored(jetstream):
        await jetstream.add_stream(name="ORDERS", subjects=["orders.>"])
        assert (await jetstream.publish("orders.1", b"...")).seq == 1

Nothing of the broker is loaded before a fixture is used. Each process of pytest-xdist has a broker of its own.
"""

import os
from collections.abc import AsyncIterator, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from jetbroker.testing.in_process import EmbeddedBroker


@pytest.fixture(scope="session")
def nats_broker_config() -> "str | os.PathLike[str]":
    """The broker's configuration, for projects to override: a text, or the `Path` of a file."""
    return ""


@pytest.fixture(scope="session")
def nats_client_options() -> dict[str, Any]:
    """What `nats_client` passes to `nats.connect`, for projects to override: user, password, tls, ..."""
    return {}


@pytest.fixture(scope="session")
def nats_broker_session(nats_broker_config: "str | os.PathLike[str]") -> "Iterator[EmbeddedBroker]":
    """A broker with JetStream in this process, one for all tests: what one of them leaves, the next one finds."""
    from jetbroker.testing import embedded

    with embedded(config=nats_broker_config) as broker:
        yield broker


@pytest.fixture
def nats_broker(nats_broker_session: "EmbeddedBroker") -> "Iterator[EmbeddedBroker]":
    """That broker, empty: its streams and connections go when the test is over."""
    yield nats_broker_session
    nats_broker_session.reset()


@pytest.fixture
def jetstream(nats_client: Any) -> Any:
    """The JetStream context of `nats_client`."""
    return nats_client.jetstream()


async def _client(nats_broker: "EmbeddedBroker", nats_client_options: dict[str, Any]) -> AsyncIterator[Any]:
    """A client of nats-py that is connected to `nats_broker`."""
    nats = pytest.importorskip("nats", reason="nats_client needs nats-py: pip install nats-py")
    client = await nats.connect(nats_broker.url, **nats_client_options)
    yield client
    await client.close()


def _no_client() -> None:
    pytest.fail("nats_client is asynchronous: install pytest-asyncio (or anyio)", pytrace=False)


def pytest_configure(config: pytest.Config) -> None:
    """Asynchronous fixtures belong to whichever plugin runs them."""
    plugins = config.pluginmanager
    made: Any
    if plugins.hasplugin("asyncio"):
        import pytest_asyncio  # it is loaded: pytest has found it, too

        made = pytest_asyncio.fixture(_client, name="nats_client")
    elif plugins.hasplugin("anyio"):
        made = pytest.fixture(_client, name="nats_client")
    else:
        made = pytest.fixture(_no_client, name="nats_client")
    clients = ModuleType("jetbroker-clients")
    clients.nats_client = made  # type: ignore[attr-defined]
    plugins.register(clients, clients.__name__)
