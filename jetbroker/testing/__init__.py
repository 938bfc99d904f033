"""A broker for users' own tests: in this process or in one of its own.

    async with jetbroker.testing.embedded() as broker:
        client = await nats.connect(broker.url)

May import everything; nothing in jetbroker imports it. What a test does not use is not loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jetbroker.testing.in_process import EmbeddedBroker, embedded
    from jetbroker.testing.places import ServerError
    from jetbroker.testing.server import Server

__all__ = ["EmbeddedBroker", "Server", "ServerError", "embedded"]

_MODULES = {"EmbeddedBroker": "in_process", "Server": "server", "ServerError": "places", "embedded": "in_process"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = found
    return found
