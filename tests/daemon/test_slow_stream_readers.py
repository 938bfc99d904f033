"""Readers of a stream that take nothing: cut off alone; the stream, its publishers and other readers go on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig

from tests.support.daemon import Daemon
from tests.support.slow_readers import BODY, MESSAGES, filled, patient, slow_reader

PENDING = 1024 * 1024
KERNEL_BYTES = 64 * 1024 * 1024  # sockets' buffers, both sides, and what a broker needs besides
NEXT = b"PUB $JS.API.CONSUMER.MSG.NEXT.S.slow inbox.1 13\r\n" + b'{"batch":400}' + b"\r\n"


@pytest.fixture
def daemon(tmp_path: Path) -> Daemon:
    return patient(tmp_path, PENDING, "2s")


@pytest.fixture
async def client(daemon: Daemon) -> AsyncIterator[Client]:
    async with filled(daemon) as connection:
        yield connection


async def others_go_on(daemon: Daemon, client: Client) -> None:
    """A stream's reader and its publisher, while another reader is cut off, and the stream after that."""
    js = client.jetstream()
    fast = await js.pull_subscribe("s.>", durable="fast")
    for number in range(MESSAGES):
        message = (await fast.fetch(1, timeout=10))[0]
        assert (message.subject, message.data) == (f"s.{number}", BODY)
        await message.ack_sync(timeout=10)
    assert (await js.publish("s.more", b"")).seq == MESSAGES + 1
    daemon.wait_for("Slow Consumer Detected")
    assert len([line for line in daemon.log if "Slow Consumer" in line]) == 1
    assert (await js.stream_info("S")).state.messages == MESSAGES + 1


async def test_a_push_consumers_client_that_never_reads(daemon: Daemon, client: Client) -> None:
    before = daemon.rss_bytes()
    with slow_reader(daemon, b"deliver.slow") as slow:
        js = client.jetstream()
        await js.add_consumer(
            "S", ConsumerConfig(name="slow", deliver_subject="deliver.slow", ack_policy=AckPolicy.NONE)
        )
        await others_go_on(daemon, client)
        slow.to_end()
        assert daemon.rss_bytes() - before < KERNEL_BYTES


async def test_a_pull_consumers_client_that_never_reads(daemon: Daemon, client: Client) -> None:
    before = daemon.rss_bytes()
    with slow_reader(daemon, b"inbox.1") as slow:
        js = client.jetstream()
        await js.add_consumer("S", ConsumerConfig(name="slow", ack_policy=AckPolicy.NONE))
        slow.socket.sendall(NEXT)
        await others_go_on(daemon, client)
        slow.to_end()
        assert daemon.rss_bytes() - before < KERNEL_BYTES
