"""Bytes no client should send, and clients that do not read: the broker answers, closes, and goes on."""

from __future__ import annotations

import asyncio
import random
import socket
from asyncio import StreamReader, StreamWriter
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import Connect
from tests.support.clients import settle
from tests.support.daemon import Daemon
from tests.support.process import ServerProcess


async def open_raw(broker: ServerProcess) -> tuple[StreamReader, StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    assert (await reader.readline()).startswith(b"INFO {")
    return reader, writer


async def read_to_end(reader: StreamReader) -> bytes:
    received = b""
    with suppress(ConnectionResetError):  # closed with our bytes unread: what came before is what counts
        async with asyncio.timeout(5):
            while data := await reader.read(65536):
                received += data
    return received


async def end_input_and_read(reader: StreamReader, writer: StreamWriter) -> bytes:
    with suppress(OSError):  # the broker may have closed already
        writer.write_eof()
    return await read_to_end(reader)


async def assert_alive(connect: Connect) -> None:
    client = await connect()
    subscription = await client.subscribe("alive")
    await client.publish("alive", b"yes")
    assert (await subscription.next_msg(timeout=5)).data == b"yes"


@pytest.mark.parametrize("seed", range(20))
async def test_garbage_closes_one_connection_only(broker: ServerProcess, connect: Connect, seed: int) -> None:
    chance = random.Random(seed)
    start = chance.choice([b"", b"CONNECT {}\r\n", b"PUB a 5\r\n", b"HPUB a 3 9\r\n", b"SUB ", b'CONNECT {"a":'])
    reader, writer = await open_raw(broker)
    writer.write(start + chance.randbytes(chance.randrange(1, 20_000)) + b"\r\n\r\n")
    await end_input_and_read(reader, writer)
    writer.close()
    await assert_alive(connect)


@pytest.mark.parametrize("seed", range(20))
async def test_damaged_commands_never_take_the_broker_down(broker: ServerProcess, connect: Connect, seed: int) -> None:
    chance = random.Random(seed)
    commands = bytearray(
        b'CONNECT {"verbose":false,"headers":true}\r\nSUB a.> q 1\r\nPUB a.b re 5\r\nhello\r\n'
        b"HPUB a.b 12 14\r\nNATS/1.0\r\n\r\nhi\r\nUNSUB 1 5\r\nPING\r\n" * 5
    )
    for _ in range(chance.randrange(1, 8)):
        commands[chance.randrange(len(commands))] = chance.randrange(256)
    reader, writer = await open_raw(broker)
    writer.write(bytes(commands))
    await end_input_and_read(reader, writer)
    writer.close()
    await assert_alive(connect)


async def test_a_payload_above_the_limit_is_refused_before_it_is_sent(broker: ServerProcess) -> None:
    reader, writer = await open_raw(broker)
    writer.write(b'CONNECT {"verbose":false}\r\nPUB big 1048577\r\n')
    assert await read_to_end(reader) == b"-ERR 'Maximum Payload Violation'\r\n"
    writer.close()


async def test_an_endless_line_is_cut(broker: ServerProcess) -> None:
    reader, writer = await open_raw(broker)
    writer.write(b"SUB " + b"x" * 5000)
    assert await read_to_end(reader) == b"-ERR 'maximum control line exceeded'\r\n"
    writer.close()


async def test_half_a_message_is_never_delivered(broker: ServerProcess, connect: Connect) -> None:
    client = await connect()
    subscription = await client.subscribe("half")
    await settle(client)
    reader, writer = await open_raw(broker)
    writer.write(b"CONNECT {}\r\nPUB half 10\r\n12345")
    await writer.drain()
    assert await reader.readline() == b"+OK\r\n"
    writer.close()
    await writer.wait_closed()
    await client.publish("half", b"whole")
    assert (await subscription.next_msg(timeout=5)).data == b"whole"


async def test_a_client_that_does_not_read_is_cut_and_others_are_served(
    broker: ServerProcess, connect: Connect
) -> None:
    reader, writer = await open_raw(broker)
    writer.write(b'CONNECT {"verbose":false}\r\nSUB flood 1\r\nPING\r\n')
    assert await reader.readline() == b"PONG\r\n"
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    publisher, healthy = await connect(), await connect()
    subscription = await healthy.subscribe("flood", pending_msgs_limit=-1, pending_bytes_limit=-1)
    await settle(healthy)
    payload = b"x" * 1_000_000
    for _ in range(150):
        await publisher.publish("flood", payload)
        await settle(publisher)
        assert (await subscription.next_msg(timeout=30)).data == payload
    writer.transport.abort()


ASKING = {
    "PONG": (b"CONNECT {}\r\n", b"PING\r\n"),
    "OK": (b'CONNECT {"verbose":true}\r\n', b"UNSUB 1\r\n"),
    "ERR": (b'CONNECT {"verbose":false}\r\n', b"SUB a..b 1\r\n"),
    "503": (b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\nSUB r 1\r\n', b"PUB none r 0\r\n\r\n"),
}


@pytest.mark.parametrize("answer", ASKING)
def test_a_client_that_takes_no_answers_is_cut(answer: str, tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.write_text("max_pending: 64KB\nmax_payload: 1KB\nwrite_deadline: '1h'\n")
    first, asking = ASKING[answer]
    with Daemon("-c", str(conf)) as daemon, daemon.open() as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.exchange(first)
        for _ in range(200):  # more than the kernel keeps
            client.send(asking * (100_000 // len(asking)))
        daemon.wait_for("Slow Consumer Detected: MaxPending of 65536 Exceeded")
        with daemon.open() as other:
            assert other.exchange(b'CONNECT {"verbose":false}\r\n') == b"PONG\r\n"


async def test_a_connection_that_resets_leaves_no_subscription(broker: ServerProcess, connect: Connect) -> None:
    client = await connect()
    replies = await client.subscribe("re")
    _, writer = await open_raw(broker)
    writer.write(b"CONNECT {}\r\nSUB gone 1\r\nPING\r\n")
    await writer.drain()
    writer.transport.abort()
    async with asyncio.timeout(5):
        while True:  # the broker learns of the reset in its own time; then there are no responders
            await client.publish("gone", b"", reply="re")
            with suppress(TimeoutError):
                message = await replies.next_msg(timeout=0.2)
                assert message.headers is not None and message.headers["Status"] == "503"
                return
