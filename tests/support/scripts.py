"""Scripts of several clients: steps in an order that is the same for every server, and what each client saw.

After each step every client is asked for a PONG, its author first: whatever the step has led to is there then.
"""

from __future__ import annotations

import asyncio
import itertools
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.support.link import Link
from tests.support.transcript import Item, Reader

BARRIER_TIMEOUT_S = 5.0
GAP_S = 0.001  # between two pieces, so that the server reads them one by one
QUEUE_SID = b"Q"  # sids of queue subscriptions start so: which member gets a message is the server's to choose

_PEDANTIC = Item("-ERR", (b"-ERR 'Invalid Publish Subject'",))
_ALPHABET = string.ascii_letters + string.digits
# no text of a server has such letters
_NAMES = itertools.cycle(f"Z{a}{b}".encode() for a in _ALPHABET for b in _ALPHABET)

Login = Callable[[bytes], bytes]  # from the server's nonce to the fields of CONNECT, as `"user":"a",` or b""


@dataclass(frozen=True)
class Step:
    """Client number `client` sends `data`, cut at these places. `pongs`: PINGs among it.

    `login`: what `LOGIN` stands for instead of the client's own.
    """

    client: int
    data: bytes
    cuts: tuple[int, ...] = ()
    pongs: int = 0
    login: Login | None = None


@dataclass(frozen=True)
class Script:
    """`logins`: one for each client, in its steps `LOGIN` stands for what it gives."""

    logins: tuple[Login, ...]
    steps: tuple[Step, ...]


@dataclass
class Seen:
    """What came of a script: a list for each client, and what members of queue groups got, whoever it was."""

    clients: list[list[Item]]
    ends: list[str]
    queued: list[tuple[bytes | None, ...]] = field(default_factory=list)


class _Client(Link):
    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.reader = Reader()
        self.silent = False
        self.asked = 0

    async def open(self) -> None:
        await super().open()
        async with asyncio.timeout(BARRIER_TIMEOUT_S):
            while not self.closed and not self.reader.items:
                self.reader.feed(await self.receive())

    async def barrier(self) -> None:
        """Wait until the server has handled everything up to here, or has closed."""
        if self.closed or self.silent:
            return
        self.asked += 1
        await self.send(b"PING\r\n")
        try:
            async with asyncio.timeout(BARRIER_TIMEOUT_S):
                while not self.closed and self.reader.pongs < self.asked:
                    self.reader.feed(await self.receive())
        except TimeoutError:
            self.silent = True


def new_name() -> bytes:
    """What `foo` becomes in one play; the same for all servers, since some things depend on the letters."""
    return next(_NAMES)


async def play(port: int, script: Script, name: bytes) -> Seen:
    """Play a script against one server. The letters `foo` in it become `name`."""
    clients = [_Client(port) for _ in script.logins]
    try:
        for client in clients:
            await client.open()
        for step in script.steps:
            client = clients[step.client]
            if client.closed:
                continue
            login = (step.login or script.logins[step.client])(client.reader.nonce)
            client.asked += step.pongs
            for index, piece in enumerate(_pieces(step, name, login)):
                if index:
                    await asyncio.sleep(GAP_S)
                await client.send(piece)
            await client.barrier()
            await asyncio.gather(*(other.barrier() for other in clients if other is not client))
        await asyncio.gather(*(client.barrier() for client in clients))
        return _seen(clients, name)
    finally:
        for client in clients:
            client.close()


def _pieces(step: Step, name: bytes, login: bytes) -> Sequence[bytes]:
    data = step.data.replace(b"foo", name).replace(b"LOGIN", login)
    places = sorted({cut for cut in step.cuts if 0 < cut < len(data)})
    return [data[start:stop] for start, stop in itertools.pairwise([0, *places, len(data)])]


def _seen(clients: Sequence[_Client], name: bytes) -> Seen:
    seen = Seen([], [])
    for client in clients:
        kept: list[Item] = []
        for item in (_named_foo(item, name) for item in client.reader.items):
            if item.kind in ("MSG", "HMSG") and (item.fields[1] or b"").startswith(QUEUE_SID):
                queue = (item.fields[1] or b"").partition(b"-")[0]
                seen.queued.append((queue, item.fields[0], item.fields[2], item.payload))
            elif item != _PEDANTIC or kept[-1:] != [_PEDANTIC]:  # it is repeated for each read of the payload
                kept.append(item)
        seen.clients.append(_in_any_order(kept))
        end = "silent" if client.silent else "closed" if client.closed else "open"
        seen.ends.append(end + repr(client.reader.unread) if client.reader.unread else end)
    seen.queued.sort(key=repr)
    return seen


def _named_foo(item: Item, name: bytes) -> Item:
    return Item(item.kind, tuple(part if part is None else part.replace(name, b"foo") for part in item.fields))


def _in_any_order(items: list[Item]) -> list[Item]:
    """The copies of one message to several subscriptions of a client come in an order of the server's own."""
    ordered: list[Item] = []
    copies: list[Item] = []
    for item in items:
        if copies and (item.kind not in ("MSG", "HMSG") or item.payload != copies[0].payload):
            ordered += sorted(copies, key=repr)
            copies = []
        (copies if item.kind in ("MSG", "HMSG") else ordered).append(item)
    return ordered + sorted(copies, key=repr)
