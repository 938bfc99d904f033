"""Plays raw protocol input against a server and brings the answer into a form that two servers can share.

A `Row` is a whole conversation: what the client sends, and how many PONGs end it when it stays open.  The letters
`foo` in a row become a name of its own for each play, so that plays may run side by side on one server.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.support.daemon import without_pings
from tests.support.depth import IS_DEEP
from tests.support.link import Link

ANSWER_TIMEOUT_S = 20.0
GAP_S = 0.001  # between two pieces, so that the server reads them one by one
LONG_INPUT_BYTES = 200
CUTS_OF_LONG_INPUT = 24
CUTS = 3  # of each row; `make test-deep`: all

# what conversations begin with
QUIET = b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n'
PLAIN = b'CONNECT {"verbose":false}\r\n'
PEDANTIC = b'CONNECT {"verbose":true,"pedantic":true}\r\n'
LENIENT = b'CONNECT {"verbose":true,"pedantic":false,"headers":true}\r\n'
PING = b"PING\r\n"

_ALPHABET = string.ascii_letters + string.digits
# no text of a server has such letters
_NAMES = itertools.cycle(f"Q{a}{b}".encode() for a in _ALPHABET for b in _ALPHABET)


@dataclass(frozen=True)
class Row:
    """`watch`: subject of a second connection that records deliveries. `pongs`: the answer is whole with so many."""

    name: str
    send: bytes
    pongs: int = 1
    watch: bytes | None = None
    watch_connect: bytes = b'{"verbose":false,"headers":true}'
    cut: bool = True  # also byte by byte and cut in two


@dataclass(frozen=True)
class Answer:
    """What a client saw. `end` is "open", "closed" or "silent" (neither closed nor the PONGs in time)."""

    received: bytes
    end: str
    watched: bytes


def split_ways(data: bytes) -> Iterator[tuple[str, Sequence[bytes]]]:
    """Whole, byte by byte, and cut in two: `make test-deep` at every place (of long input: the ends, some between).

    Otherwise at a few of these places, which differ from row to row.
    """
    yield "whole", [data]
    size = len(data)
    places: Sequence[int] = range(1, size)
    if size > LONG_INPUT_BYTES:
        yield "in pieces of 97", [data[at : at + 97] for at in range(0, size, 97)]
        ends = {*range(1, CUTS_OF_LONG_INPUT), *range(size - CUTS_OF_LONG_INPUT, size)}
        places = sorted(ends | set(range(CUTS_OF_LONG_INPUT, size - 1, size // CUTS_OF_LONG_INPUT)))
    else:
        yield "byte by byte", [data[at : at + 1] for at in range(size)]
    if not IS_DEEP:
        places = random.Random(data).sample(places, min(CUTS, len(places)))
    for at in places:
        yield f"cut at {at}", [data[:at], data[at:]]


class _Client(Link):
    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.received = b""

    async def until(self, pattern: bytes, count: int = 1) -> str:
        """Read until `pattern` was seen so often ("open") or the connection ends ("closed")."""
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                while not self.closed and self.received.count(pattern) < count:
                    self.received += await self.receive()
        except TimeoutError:
            return "silent"
        return "closed" if self.closed else "open"


def normalised(received: bytes, name: bytes) -> bytes:
    """`name` is foo again; of an INFO only its kind is left, of PINGs nothing: a server asks when it likes."""

    def kind(match: re.Match[bytes]) -> bytes:
        info = json.loads(match[1])
        return b"INFO connect_info\r\n" if info.get("connect_info") else b"INFO\r\n"

    return re.sub(rb"INFO (\{.*?\}) ?\r\n", kind, without_pings(received).replace(name, b"foo"))


async def play(port: int, row: Row, pieces: Sequence[bytes], name: bytes) -> Answer:
    """One conversation. `pieces` already carry `name`."""
    client, watcher = _Client(port), _Client(port)
    try:
        if row.watch is not None:
            await watcher.open()
            await watcher.send(
                b"CONNECT %b\r\nSUB %b 9\r\nPING\r\n" % (row.watch_connect, row.watch.replace(b"foo", name))
            )
            await watcher.until(b"PONG\r\n")
        await client.open()
        await client.until(b"\r\n")
        for index, piece in enumerate(pieces):
            if index:
                await asyncio.sleep(GAP_S if len(pieces) < LONG_INPUT_BYTES else 0)
            await client.send(piece)
        end = await client.until(b"PONG\r\n", row.pongs)
        if row.watch is not None:
            await watcher.send(b"PING\r\n")
            await watcher.until(b"PONG\r\n", 2)
        watched = watcher.received.partition(b"PONG\r\n")[2]
        return Answer(normalised(client.received, name), end, normalised(watched, name))
    finally:
        client.close()
        watcher.close()


async def answers(port: int, row: Row, at_once: int = 16) -> dict[str, Answer]:
    """The answers to a row by way of cutting it."""
    gate = asyncio.Semaphore(at_once)

    async def one(pieces_of: str, sizes: Sequence[int]) -> tuple[str, Answer]:
        async with gate:
            name = next(_NAMES)
            data = row.send.replace(b"foo", name)
            pieces, at = [], 0
            for size in sizes:
                pieces.append(data[at : at + size])
                at += size
            return pieces_of, await play(port, row, pieces, name)

    ways = [(way, [len(piece) for piece in pieces]) for way, pieces in split_ways(row.send)]
    return dict(await asyncio.gather(*(one(*way) for way in (ways if row.cut else ways[:1]))))
