"""What answers about the server is loaded when somebody asks first, in a thread: the clients do not wait for it."""

import asyncio
import importlib
import threading

_MODULES = ("endpoints", "http", "query", "services", "sources")
_all = threading.Event()


async def loaded() -> None:
    """Wait until every module that answers is there."""
    if not _all.is_set():
        await asyncio.to_thread(load)
        _all.set()


def load() -> None:
    """Load every module that answers."""
    for name in _MODULES:
        importlib.import_module(f"jetbroker.monitor.{name}")
