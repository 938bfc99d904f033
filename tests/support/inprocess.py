"""Clients of the real protocol code without sockets: what they are sent is collected, time goes on when told."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from jetbroker.auth.permissions import Permissions
from jetbroker.config.options import PermissionsOptions
from jetbroker.connections.client import ClientProtocol
from jetbroker.connections.halves import Shared
from jetbroker.connections.handshake import ConnectOptions
from jetbroker.errors import ProtocolError
from jetbroker.routing.router import Router
from jetbroker.tick import Tick


class FakeLoop:
    """The part of an event loop that the tick and the connections use; run() is one or more iterations."""

    def __init__(self) -> None:
        self.ready: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self.iterations = 0

    def time(self) -> float:
        return float(self.iterations)

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> None:
        self.ready.append((callback, args))

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> None:
        self.ready.append((callback, args))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        raise AssertionError(context)

    def run_once(self) -> bool:
        """What is due now; False when nothing was."""
        self.iterations += 1
        ready, self.ready = self.ready, []
        for callback, args in ready:
            callback(*args)
        return bool(ready)

    def run(self) -> None:
        """Until nothing is left to do."""
        while self.run_once():
            pass


class FakeTransport:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.paused = False
        self.closed = False

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        self.sent += data

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close


class FakeServer:
    """The broker's side of a connection's events: refusals are kept, the rest means nothing here."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.log = SimpleNamespace(debug_enabled=False)

    def client_refused(self, client: ClientProtocol, text: str) -> None:
        self.refused.append(text)

    def client_failed(self, client: ClientProtocol, error: ProtocolError) -> None:
        client.close(error.reason, error.text)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("client_"):
            raise AttributeError(name)
        return lambda *_: None


class World:
    """One account and its clients."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.tick = Tick(cast(Any, self.loop))
        self.server = FakeServer()
        self.shared = Shared(self.tick, self.server)
        self.router = Router("$G", self.tick)
        self.account = SimpleNamespace(name="$G", router=self.router, is_system=False, connections=0, links=0)
        self._cid = 0

    def client(
        self,
        permissions: PermissionsOptions | None = None,
        *,
        verbose: bool = False,
        echo: bool = True,
        no_responders: bool = False,
    ) -> FakeClient:
        """A client that has logged in."""
        self._cid += 1
        options = ConnectOptions()
        options.verbose, options.pedantic, options.headers = verbose, False, True
        options.echo, options.no_responders = echo, no_responders
        return FakeClient(self, self._cid, options, permissions)


class FakeClient:
    """One client; `say` hands it input and returns what it was sent since."""

    def __init__(self, world: World, cid: int, options: ConnectOptions, permissions: PermissionsOptions | None) -> None:
        self.world = world
        self.transport = FakeTransport()
        self.protocol = ClientProtocol(world.shared, world.router, world.account, cid, False)
        self.protocol.connection_made(self.transport)
        granted = None if permissions is None else Permissions(permissions)
        self.protocol.apply_connect(options, world.router, world.account, granted)
        self.heard()

    def feed(self, data: bytes) -> int:
        """One read of the beginning of `data`; returns how much fitted."""
        buffer = self.protocol.get_buffer(-1)
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        self.protocol.buffer_updated(size)
        return size

    def say(self, data: bytes) -> bytes:
        """Hand over all of it, whatever turns it takes."""
        while data:
            data = data[self.feed(data) :]
            self.world.loop.run()
        return self.heard()

    def heard(self) -> bytes:
        """What it was sent since the last time."""
        self.world.loop.run()
        sent = bytes(self.transport.sent)
        self.transport.sent.clear()
        return sent
