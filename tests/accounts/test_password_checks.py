"""Hashes are checked in threads: the event loop goes on meanwhile, and nobody's time is spent on those who left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from jetbroker.auth import passwords
from jetbroker.auth.authenticator import Authenticator
from jetbroker.config.options import AuthorizationOptions, Options, UserOptions
from jetbroker.connections.client import ClientProtocol
from jetbroker.connections.events import Witness
from jetbroker.connections.login import Logins
from tests.support.inprocess import FakeTransport, World

HASH = "$2a$04$" + "a" * 53
CONNECT = b'{"user":"hal","pass":"%d","verbose":false}'
PATIENCE_S = 10.0


class Checks:
    """Stands for bcrypt: every check waits for `go`."""

    def __init__(self) -> None:
        self.count = 0
        self.begun = threading.Semaphore(0)
        self.go = threading.Event()

    def __call__(self, secret: str, given: str) -> bool:
        self.count += 1
        self.begun.release()
        return self.go.wait(PATIENCE_S)


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Checks]:
    made = Checks()
    monkeypatch.setattr(passwords, "fits_hash", made)
    yield made
    made.go.set()


class Door:
    """Logins of one user with a hash, in the loop that runs."""

    def __init__(self) -> None:
        self.world = World()
        options = Options(authorization=AuthorizationOptions(users=[UserOptions(user="hal", password=HASH)]))
        accounts: Any = {"$G": self.world.account}
        log: Any = SimpleNamespace(debug=lambda text: None)
        who: Callable[[ClientProtocol], str] = str
        self.logins = Logins(Authenticator(options), accounts, options, asyncio.get_running_loop(), log, who, Witness())

    def knock(self, cid: int) -> ClientProtocol:
        client = ClientProtocol(self.world.shared, self.world.router, self.world.account, cid, True)
        client.connection_made(FakeTransport())
        self.logins.connect(client, CONNECT % cid)
        return client


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0)


async def test_the_loop_goes_on(checks: Checks) -> None:
    door = Door()
    client = door.knock(1)
    assert await asyncio.to_thread(checks.begun.acquire, timeout=PATIENCE_S)
    assert not client.connected
    checks.go.set()
    await until(lambda: client.connected)
    door.logins.stop()


async def test_who_left_is_not_checked(checks: Checks) -> None:
    door = Door()
    served = door.knock(1)
    assert await asyncio.to_thread(checks.begun.acquire, timeout=PATIENCE_S)
    gone, behind = door.knock(100), door.knock(101)
    gone.close("Client Closed")
    checks.go.set()
    await until(lambda: served.connected and behind.connected)
    assert not gone.connected
    door.logins.stop()
    assert checks.count == 2


async def test_nothing_begins_after_the_end(checks: Checks) -> None:
    faults: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    door = Door()
    served, behind = door.knock(1), door.knock(2)
    assert await asyncio.to_thread(checks.begun.acquire, timeout=PATIENCE_S)
    door.logins.stop()
    checks.go.set()
    await until(lambda: not [thread for thread in threading.enumerate() if "jetbroker-passwords" in thread.name])
    for _ in range(3):  # from the thread to the future, and from there to whoever waits
        await asyncio.sleep(0)
    assert (checks.count, served.connected, behind.connected, faults) == (1, False, False, [])
