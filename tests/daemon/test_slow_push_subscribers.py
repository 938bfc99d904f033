"""Push consumers wait for subscribers who are slower than the stream: they get everything, and cost little memory."""

from __future__ import annotations

import re
import select
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig

from tests.support.daemon import Daemon, Raw
from tests.support.slow_readers import MESSAGES, filled, patient, slow_reader

PENDING = 8 * 1024 * 1024
DELIVERED = re.compile(rb"MSG s\.(\d+) [^\r\n]*\r\n")


@pytest.fixture
def daemon(tmp_path: Path) -> Daemon:
    return patient(tmp_path, PENDING, "60s")


@pytest.fixture
async def client(daemon: Daemon) -> AsyncIterator[Client]:
    async with filled(daemon) as connection:
        yield connection
    assert not [line for line in daemon.log if "Traceback" in line or "Internal error" in line]


def subscriber(daemon: Daemon, queue: bytes = b"") -> Raw:
    return slow_reader(daemon, b"deliver " + queue)


async def consume(client: Client, group: str | None = None) -> None:
    config = ConsumerConfig(name="C", deliver_subject="deliver", deliver_group=group, ack_policy=AckPolicy.NONE)
    await client.jetstream().add_consumer("S", config)


async def delivered(client: Client) -> int:
    """How many the consumer has delivered, once two answers in a row say the same."""
    js = client.jetstream()
    before = -1
    while True:
        info = await js.consumer_info("S", "C")
        now = info.delivered.consumer_seq if info.delivered else 0
        if now == before:
            return now
        before = now


def read(connections: list[Raw], done: Callable[[list[int]], bool]) -> list[int]:
    """The numbers of the messages that come to these, until they are `done`."""
    rest = {connection.socket: b"" for connection in connections}
    found: list[int] = []
    while not done(found):
        for ready in select.select(list(rest), (), (), 30)[0]:
            more = ready.recv(1 << 20)
            assert more, "the broker has closed the connection"
            data = rest[ready] + more
            found += [int(number) for number in DELIVERED.findall(data)]
            rest[ready] = data[data.rfind(b"\n") + 1 :]
    return found


def to_the_last(found: list[int]) -> bool:
    return found[-1:] == [MESSAGES - 1]


async def test_one_who_is_slow_gets_everything(daemon: Daemon, client: Client) -> None:
    with subscriber(daemon) as slow:
        before = daemon.rss_bytes()
        await consume(client)
        assert await delivered(client) < MESSAGES
        assert daemon.rss_bytes() - before < 2 * PENDING
        assert read([slow], to_the_last) == list(range(MESSAGES))
    assert not [line for line in daemon.log if "Slow Consumer" in line]


async def test_one_who_is_slow_does_not_hold_up_others_with_the_same_subject(daemon: Daemon, client: Client) -> None:
    with subscriber(daemon) as deaf, subscriber(daemon) as quick:
        await consume(client)
        assert read([quick], to_the_last) == list(range(MESSAGES))
        line = daemon.wait_for("Slow Consumer Detected: MaxPending")
        assert f"127.0.0.1:{deaf.socket.getsockname()[1]} - " in line


async def test_a_group_waits_while_all_of_it_is_slow(daemon: Daemon, client: Client) -> None:
    with subscriber(daemon, b"g") as one, subscriber(daemon, b"g") as other:
        await consume(client, "g")
        assert await delivered(client) < MESSAGES
        assert sorted(read([one, other], lambda found: len(found) >= MESSAGES)) == list(range(MESSAGES))
    assert not [line for line in daemon.log if "Slow Consumer" in line]


async def test_another_subscriber_ends_the_wait(daemon: Daemon, client: Client) -> None:
    with subscriber(daemon):
        await consume(client)
        assert await delivered(client) < MESSAGES
        with subscriber(daemon) as quick:
            read([quick], to_the_last)


async def test_the_next_subscriber_gets_the_rest_of_one_who_leaves(daemon: Daemon, client: Client) -> None:
    with subscriber(daemon):
        await consume(client)
        assert await delivered(client) < MESSAGES
    with subscriber(daemon) as later:
        rest = read([later], to_the_last)
        assert rest == list(range(rest[0], MESSAGES))
