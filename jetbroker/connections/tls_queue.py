"""The TLS handshakes that are going on at all listeners together: bounded, as each needs memory."""

import asyncio
from typing import Protocol

from jetbroker import limits
from jetbroker.connections.unauthenticated import Unauthenticated


class Handshaker(Protocol):
    """A connection that has sent the first bytes of a handshake."""

    def shake(self, data: bytes) -> bool:
        """Begin the handshake with its first bytes, and read on. True when they were enough for an answer."""

    def pause(self) -> None:
        """Read no more until shake()."""

    def cut_off(self) -> None:
        """Close the connection; TlsQueue.end() is called before this returns."""


class TlsQueue:
    """So many handshakes at once; the others wait for their turn, with what they have sent so far.

    Who takes long has to go when others wait: those who never finish must not keep out everybody else. The least
    patience is with who does not even send a whole hello, for which no answer is needed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, unauthenticated: Unauthenticated) -> None:
        self._loop = loop
        self._unauthenticated = unauthenticated  # what those that wait keep
        self._begun: dict[Handshaker, float] = {}  # until when they may take, the loop's time
        self._waiting: dict[Handshaker, bytes] = {}
        self._timer: asyncio.Handle | None = None

    def begin(self, handshaker: Handshaker, data: bytes) -> None:
        """A handshake's first bytes are there: go on with it now, or when there is room."""
        if len(self._begun) < limits.TLS_HANDSHAKES:
            self._start(handshaker, data)
            return
        handshaker.pause()
        self._waiting[handshaker] = data
        self._unauthenticated.keep(handshaker, len(data))
        self._look_again()

    def end(self, handshaker: Handshaker) -> None:
        """Done with, whatever came of it; harmless when it never began."""
        if self._waiting.pop(handshaker, None) is not None:
            self._unauthenticated.forget(handshaker)
        elif self._begun.pop(handshaker, None) is not None and self._waiting:
            self._look_again()

    def _start(self, handshaker: Handshaker, data: bytes) -> None:
        now = self._loop.time()
        self._begun[handshaker] = now + limits.TLS_HANDSHAKE_SECONDS
        if not handshaker.shake(data) and handshaker in self._begun:
            self._begun[handshaker] = now + limits.TLS_HELLO_SECONDS

    def _look_again(self) -> None:
        """As soon as there is room, or somebody has taken too long."""
        if len(self._begun) < limits.TLS_HANDSHAKES:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_soon(self._next)
        elif self._timer is None:
            soonest = self._loop.time() + limits.TLS_QUEUE_SECONDS
            self._timer = self._loop.call_at(max(soonest, min(self._begun.values())), self._next)

    def _next(self) -> None:
        self._timer = None
        now = self._loop.time()
        late = [handshaker for handshaker, until in self._begun.items() if until <= now]
        for handshaker in late[: len(self._waiting)]:
            handshaker.cut_off()
        while self._waiting and len(self._begun) < limits.TLS_HANDSHAKES:
            handshaker, data = next(iter(self._waiting.items()))
            self.end(handshaker)
            self._start(handshaker, data)
        if self._waiting:
            self._look_again()
