"""The other servers that are linked by their system account: they tell of themselves now and then, as this one does."""

import asyncio
from typing import Any

from jetbroker import limits
from jetbroker.accounts.account import Account
from jetbroker.monitor.envelope import Envelope
from jetbroker.monitor.loading import loaded
from jetbroker.routing.router import CallbackReceiver, Router
from jetbroker.tick import Tick

_HEARD = ("STATSZ", "SHUTDOWN", "LAMEDUCK")
_ID_TOKEN = 2  # of $SYS.SERVER.<id>.STATSZ


class OtherServers:
    """Who is there, as far as they say so."""

    def __init__(self, tick: Tick, envelope: Envelope) -> None:
        self._tick = tick
        self._loop = tick.loop
        self._envelope = envelope
        self._router: Router | None = None  # of the system account
        self._receiver = CallbackReceiver(tick, self._received)
        self._known: dict[str, float] = {}  # server id -> loop time when it was heard last
        self._pause = limits.FIRST_STATSZ_SECONDS
        self._last_told = -limits.STATSZ_SECONDS
        self._timer: asyncio.TimerHandle | None = None
        self._telling: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        """Of servers, this one included."""
        return len(self._known) + 1

    def attach(self, system: Account) -> None:
        """This is the system account now."""
        if self._router is system.router:
            return
        self._router = system.router
        for name in _HEARD:
            system.router.subscribe(self._receiver, f"$SYS.SERVER.*.{name}".encode())
        self.announce()

    # --- in ---

    def _received(self, subject: bytes, reply: bytes | None, headers: bytes, body: bytes, origin: object) -> None:
        tokens = subject.decode("utf-8", "replace").split(".")
        server, what = tokens[_ID_TOKEN], tokens[-1]
        if server == self._envelope.server_id or len(server) > limits.SERVER_ID_CHARACTERS:
            return
        if what != "STATSZ":
            self._known.pop(server, None)
            return
        is_new = server not in self._known
        if is_new and len(self._known) >= limits.KNOWN_SERVERS:
            return
        self._known[server] = self._loop.time()
        if is_new:
            self._schedule(0.0)

    # --- out ---

    def announce(self) -> None:
        """Others may be there that know nothing of this server yet: tell them often, and then ever less."""
        self._pause = limits.FIRST_STATSZ_SECONDS
        self._schedule(self._pause)

    def changed(self) -> None:
        """What this server says of itself is different now: others hear of it soon."""
        self._schedule(0.0)

    def asked_to_tell(self) -> bytes:
        """Where a request without a reply is answered: there all hear it, as if it were told unasked."""
        self._last_told = self._loop.time()
        return self._subject("STATSZ")

    def farewell(self, what: str) -> None:
        """This server is about to go: `what` is SHUTDOWN or LAMEDUCK."""
        from jetbroker.monitor.sources import compact

        if self._router is not None and self._is_heard(what):
            self._router.publish_bytes(self._subject(what), None, b"", compact(self._envelope.server()))

    def close(self) -> None:
        """The server has ended: nothing is told any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _subject(self, what: str) -> bytes:
        return f"$SYS.SERVER.{self._envelope.server_id}.{what}".encode()

    def _is_heard(self, what: str) -> bool:
        """Does anybody else listen?"""
        found = [] if self._router is None else self._router.matching(self._subject(what))
        return any(subscription.receiver is not self._receiver for subscription in found)

    def _schedule(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        earliest = self._last_told + limits.STATSZ_SECONDS - self._loop.time()
        self._timer = self._loop.call_later(max(seconds, earliest), self._beat)

    def _beat(self) -> None:
        now = self._loop.time()
        self._known = {name: at for name, at in self._known.items() if now - at < limits.SILENT_SERVER_SECONDS}
        self._pause = min(self._pause * 2, limits.MOST_STATSZ_SECONDS)
        if self._telling is None and self._is_heard("STATSZ"):
            self._last_told = now
            self._telling = self._loop.create_task(self._tell())
        self._schedule(self._pause)

    async def _tell(self) -> None:
        try:
            await loaded()
            from jetbroker.monitor import statistics
            from jetbroker.monitor.sources import compact

            figures: dict[str, Any] = await statistics.of_server(self._envelope.sources(), self.count)
            if self._router is not None:
                told = {"server": self._envelope.server(), "statsz": figures}
                self._router.publish_bytes(self._subject("STATSZ"), None, b"", compact(told))
        finally:
            self._telling = None
