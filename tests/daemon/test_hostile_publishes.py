"""Publishes and acks with every extreme, to one broker: it goes on, and starts again on the same store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
from nats.aio.client import Client

from tests.differential.number_rows import cases as number_cases
from tests.differential.schedule_rows import cases as schedule_cases
from tests.support.clients import settle
from tests.support.daemon import Daemon
from tests.support.publishes import Publish, Publisher

PATTERNS = ["@at 1600-01-01T00:00:00Z", "@at 0001-01-01T00:00:00Z", "@at 0001-01-01T00:00:01Z",
            "@at 1970-01-01T00:00:00Z", "@at 9999-12-31T23:59:59Z", "@every 9223372036854775807ns",
            ", * * * * *", "0 0 0 31 2 *", "0 0 0 29 2 ,"]  # fmt: skip
TEXTS = [b"", b"0", b"-1", b"1", b"9" * 5000, b"1e999", b"9223372036854775807", b"9223372036854775808",
         b"18446744073709551616", b"2562047h47m16.854775807s", b"2562048h", b"-2562048h", b"-1s", b"1ns",
         b"1" * 250 + b"h",
         b"1h" * 2000, b"{}", b"{", b"[" * 250, b'{"delay":' * 120, b"\xff", b"null", b'{"delay":null}',
         b'{"delay":"1s"}', b'{"delay":[]}', b'{"delay":true}', b'{"delay":-1}', b'{"delay":1.5}', b'{"delay":1e30}',
         b'{"delay":NaN}', b'{"delay":9223372036854775807}', b'{"delay":9223372036854775808}',
         b'{"delay":-9223372036854775809}', b'{"delay":' + b"9" * 900 + b"}", b'{"batch":1,"expires":1}',
         b'{"batch":9223372036854775807,"expires":9223372036854775807}', b'{"batch":-1}', b'{"batch":1e30}',
         b'{"batch":' + b"9" * 5000 + b"}", b'{"no_wait":1}', b'{"expires":-9223372036854775808}']  # fmt: skip
WORDS = [b"+ACK", b"-NAK ", b"-NAK", b"+WPI", b"+WPI ", b"+NXT ", b"+TERM ", b"+OK", b"x"]
NUMBERS = ["0", "-1", "x", "", "9223372036854775807", "9223372036854775808", "18446744073709551615",
           "18446744073709551616", "9" * 3000]  # fmt: skip


@asynccontextmanager
async def running(store: Path) -> AsyncIterator[tuple[Daemon, Publisher]]:
    with Daemon("-js", "-sd", str(store)) as broker:
        client = await nats.connect(broker.url, allow_reconnect=False)
        publisher = Publisher(client)
        await publisher.start()
        publisher.plays = 1
        yield broker, publisher
        await client.close()
    assert not [line for line in broker.log if "rror" in line or "Traceback" in line]


async def goes_on(publisher: Publisher) -> None:
    answer, _ = await publisher.ask(Publish("s.plain", (), b"x"))
    assert b'"seq":' in answer and b"error" not in answer, answer


async def test_any_header_may_be_published(tmp_path: Path) -> None:
    config = {"name": "S1", "subjects": ["s.>"], "allow_msg_schedules": True, "allow_msg_ttl": True,
              "allow_atomic": True, "allow_rollup_hdrs": True}  # fmt: skip
    async with running(tmp_path) as (_, publisher):
        await publisher.api("STREAM.CREATE.S1", config)
        for case in [*number_cases(), *schedule_cases()]:
            for publish in case.publishes:
                await publisher.send(publish)
        for text in PATTERNS:
            await publisher.send(
                Publish("s.hostile", (("Nats-Schedule", text), ("Nats-Schedule-Target", "s.target")), b"x")
            )
            await goes_on(publisher)
    for _ in range(2):
        async with running(tmp_path) as (_, publisher):
            assert (await publisher.api("STREAM.INFO.S1"))["state"]["messages"] > 0
            await goes_on(publisher)


async def test_any_ack_may_be_given(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, publisher):
        await publisher.api("STREAM.CREATE.S1", {"name": "S1", "subjects": ["s.>"]})
        consumer = {"durable_name": "C", "ack_policy": "explicit", "max_ack_pending": 100_000}
        await publisher.api("CONSUMER.CREATE.S1.C", {"stream_name": "S1", "config": consumer})
        client = publisher.client
        inbox = client.new_inbox()
        deliveries = await client.subscribe(inbox)
        for word in WORDS:
            for text in TEXTS:
                await goes_on(publisher)
                await client.publish("$JS.API.CONSUMER.MSG.NEXT.S1.C", b"1", reply=inbox)
                message = await deliveries.next_msg(10)
                await client.publish(message.reply, word + text, reply=inbox + ".none")
        await play_numbers(client)
        await goes_on(publisher)
        assert (await publisher.api("CONSUMER.INFO.S1.C"))["num_ack_pending"] > 0
    async with running(tmp_path) as (_, publisher):
        assert (await publisher.api("CONSUMER.INFO.S1.C"))["num_ack_pending"] > 0
        await goes_on(publisher)


async def play_numbers(client: Client) -> None:
    for place in range(5):
        for number in NUMBERS:
            numbers = ["1", "1", "1", "1700000000000000000", "0"]
            numbers[place] = number
            for body in (b"", b"-NAK", b"+WPI", b"+TERM", b'-NAK {"delay":9223372036854775807}'):
                subject = f"$JS.ACK.S1.C.{'.'.join(numbers)}"
                await client._send_command(b"PUB %b %d\r\n%b\r\n" % (subject.encode(), len(body), body))
            await settle(client)
