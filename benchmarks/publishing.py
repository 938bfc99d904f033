"""Publishing beyond plain messages: counters, and batches that are answered now and then."""

from __future__ import annotations

import re
import time
from pathlib import Path

from benchmarks.cases import Case, Row
from benchmarks.raw import client_of
from benchmarks.servers import Server

COUNTED, COUNTERS = 500_000, 1000
INCREMENT = b"NATS/1.0\r\nNats-Incr: 1\r\n\r\n"
BATCHED, PIECE, AHEAD, FLOW = 1_000_000, 125, 500, 250
PAYLOAD = b"x" * 128
TOLD = re.compile(rb'"seq":(\d+)')


def _counters(server: Server, _: Path, divisor: int) -> dict[str, float]:
    count = COUNTED // divisor
    with client_of(server) as client:
        config = {"name": "S", "subjects": ["c.*"], "storage": "file", "allow_msg_counter": True, "allow_direct": True}
        client.request("STREAM.CREATE.S", config)
        began = time.perf_counter()
        client.publish(lambda number: b"c.%d" % (number % COUNTERS), b"", count, headers=INCREMENT)
        return {"rate": count / (time.perf_counter() - began)}


def _fast_batch(server: Server, _: Path, divisor: int) -> dict[str, float]:
    """One batch, at most 500 messages ahead of its answers."""
    count = BATCHED // divisor
    with client_of(server, "fast.>") as client:
        client.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "storage": "file", "allow_batched": True})
        told = 0
        began = time.perf_counter()
        for first in range(1, count, PIECE):
            while first - told > AHEAD:
                told = max([told, *map(int, TOLD.findall(client.receive()))])
            numbers = range(first, min(first + PIECE, count))
            client.send(b"".join(_member(number, number != 1) for number in numbers))
        client.send(_member(count, 2))
        while b'"batch":' not in client.receive():
            continue
        return {"rate": count / (time.perf_counter() - began)}


def _member(number: int, operation: int) -> bytes:
    """0 begins a batch, 1 goes on with it, 2 ends it."""
    reply = b"fast.b.%d.fail.%d.%d.$FI" % (FLOW, number, operation)
    return b"PUB s " + reply + b" %d\r\n%b\r\n" % (len(PAYLOAD), PAYLOAD)


def publishing_cases() -> list[Case]:
    """Both."""
    return [
        Case("js-counters", _counters, (Row("rate", "increments of 1,000 counters, 1,000 in flight", must=3.0),)),
        Case("js-fast-batch", _fast_batch, (Row("rate", "fast batch, file, 128 B", must=3.0),)),
    ]
