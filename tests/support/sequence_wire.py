"""A connection for many conversations at once: a subscription for each inbox, messages in the order they came."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from typing import NamedTuple

CONNECT = b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'


class Received(NamedTuple):
    """A message; `headers` are the lines, "" when it has none."""

    subject: str
    reply: str
    headers: str
    data: bytes


class Wire:
    """A client that is told of each subscription's messages by a call, in the order of the socket."""

    def __init__(self) -> None:
        self._sids = itertools.count(1)
        self._calls: dict[bytes, Callable[[Received], None]] = {}

    async def open(self, port: int) -> Wire:
        """Connect to this port of 127.0.0.1."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        await self._reader.readline()
        self._writer.write(CONNECT)
        self._task = asyncio.create_task(self._read())
        return self

    async def close(self) -> None:
        """Close the connection."""
        self._task.cancel()
        self._writer.close()

    def subscribe(self, subject: str, call: Callable[[Received], None]) -> bytes:
        """What unsubscribe() takes."""
        sid = b"%d" % next(self._sids)
        self._calls[sid] = call
        self._writer.write(b"SUB %b %b\r\n" % (subject.encode(), sid))
        return sid

    def unsubscribe(self, sid: bytes) -> None:
        """Hear no more."""
        del self._calls[sid]
        self._writer.write(b"UNSUB %b\r\n" % sid)

    def publish(self, subject: str, data: bytes, reply: str = "", headers: dict[str, str] | None = None) -> None:
        """Send a message."""
        to = f"{subject} {reply} ".encode()
        if headers:
            lines = "NATS/1.0\r\n" + "".join(f"{key}: {value}\r\n" for key, value in headers.items()) + "\r\n"
            body = lines.encode() + data
            self._writer.write(b"HPUB %b%d %d\r\n%b\r\n" % (to, len(lines), len(body), body))
        else:
            self._writer.write(b"PUB %b%d\r\n%b\r\n" % (to, len(data), data))

    async def _read(self) -> None:
        while line := await self._reader.readline():
            words = line.split()
            if words[0] == b"PING":
                self._writer.write(b"PONG\r\n")
            elif words[0] in (b"MSG", b"HMSG"):
                body = (await self._reader.readexactly(int(words[-1]) + 2))[:-2]
                split = int(words[-2]) if words[0] == b"HMSG" else 0
                sizes = 2 if split else 1
                reply = words[3].decode() if len(words) == 4 + sizes else ""
                call = self._calls.get(words[2])
                if call is not None:
                    call(Received(words[1].decode(), reply, body[:split].decode(), body[split:]))
            elif words[0] == b"-ERR":
                raise AssertionError(line)


class Inbox:
    """A subject of its own, for answers."""

    def __init__(self, wire: Wire, subject: str) -> None:
        self.wire = wire
        self.subject = subject
        self.messages: asyncio.Queue[Received] = asyncio.Queue()
        self._sid = wire.subscribe(subject, self.messages.put_nowait)

    def close(self) -> None:
        self.wire.unsubscribe(self._sid)


def loads(message: Received) -> object:
    """The JSON of an answer."""
    return json.loads(message.data)
