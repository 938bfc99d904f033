"""Dead letters: what a consumer gives up goes to another stream first."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import nats
import pytest
from nats.aio.client import Client

from jetbroker.jetstream.models.dead_letters import Origin, has_died_in, header_value, letter_headers
from tests.support import process
from tests.support.consumers import ConsumerBench

KEY = "jetbroker.dead_letter"
WAIT_SECONDS = 15
SECOND = 1_000_000_000


class Bench:
    """A client and shorthands for requests."""

    def __init__(self, client: Client, server: process.ServerProcess) -> None:
        self.client = client
        self.js = client.jetstream()
        self.server = server

    async def api(self, subject: str, body: object = b"") -> dict[str, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer: dict[str, Any] = json.loads((await self.client.request(f"$JS.API.{subject}", data, 30)).data)
        assert "error" not in answer, answer
        return answer

    async def stream(self, name: str, verb: str = "CREATE", **config: Any) -> None:
        await self.api(f"STREAM.{verb}.{name}", {"name": name, "subjects": [f"{name}.>"], **config})

    async def consumer(self, stream: str, name: str = "c", **config: Any) -> None:
        settings = {"durable_name": name, "ack_policy": "explicit", "ack_wait": 30 * SECOND, **config}
        await self.api(f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": settings})

    async def consumer_state(self, stream: str, name: str = "c") -> dict[str, Any]:
        return await self.api(f"CONSUMER.INFO.{stream}.{name}")

    async def messages(self, stream: str) -> int:
        found: int = (await self.api(f"STREAM.INFO.{stream}"))["state"]["messages"]
        return found

    async def until(self, stream: str, messages: int) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while await self.messages(stream) != messages:
                await asyncio.sleep(0.01)

    async def until_pending(self, stream: str, pending: int) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while (await self.consumer_state(stream))["num_ack_pending"] != pending:
                await asyncio.sleep(0.01)

    async def logged(self, text: str) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while not any(text in line for line in self.server.log):
                await asyncio.sleep(0.01)

    async def fetch(self, stream: str, name: str = "c", batch: int = 1) -> list[Any]:
        consumer = await self.js.pull_subscribe_bind(name, stream)
        return await consumer.fetch(batch, 10)

    async def terminate(self, stream: str, reason: str = "", name: str = "c") -> None:
        """Fetch one message and terminate it."""
        (message,) = await self.fetch(stream, name)
        await self.client.publish(message.reply, f"+TERM {reason}".encode())


@pytest.fixture
async def bench(broker: process.ServerProcess) -> AsyncIterator[Bench]:
    client = await nats.connect(broker.url)
    bench = Bench(client, broker)
    yield bench
    for name in (await bench.api("STREAM.NAMES"))["streams"] or []:
        await bench.api(f"STREAM.DELETE.{name}")
    await client.close()


async def test_a_terminated_message_goes_to_the_dead_letter_stream(bench: Bench) -> None:
    await bench.stream("S")
    await bench.stream("DEAD")
    await bench.consumer("S", metadata={KEY: "DEAD"})
    await bench.js.publish(
        "S.a", b"body", headers={"Kind": "test", "Nats-Msg-Id": "first", "Nats-Expected-Stream": "S"}
    )
    await bench.terminate("S", "no such order")
    await bench.until("DEAD", 1)
    letter = await bench.js.get_msg("DEAD", 1)
    assert (letter.subject, letter.data) == ("S.a", b"body")
    headers = dict(letter.headers or {})
    assert headers.pop("Nats-Msg-Id").startswith("S.1.c.")
    assert headers == {
        "Kind": "test",
        "Dead-Letter-Stream": "S",
        "Dead-Letter-Consumer": "c",
        "Dead-Letter-Subject": "S.a",
        "Dead-Letter-Sequence": "1",
        "Dead-Letter-Deliveries": "1",
        "Dead-Letter-Reason": "terminated: no such order",
        "Dead-Letter-Msg-Id": "first",
    }
    await bench.until_pending("S", 0)
    assert (await bench.consumer_state("S"))["ack_floor"]["stream_seq"] == 1


async def test_used_up_deliveries_need_no_further_request(bench: Bench) -> None:
    await bench.stream("S", retention="workqueue", metadata={KEY: "DEAD"})
    await bench.stream("DEAD")
    await bench.consumer("S", ack_wait=SECOND // 5, max_deliver=2)
    advisories = await bench.client.subscribe("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.c")
    await bench.js.publish("S.a", b"body")
    await bench.fetch("S")
    await bench.fetch("S")
    await bench.until("DEAD", 1)
    letter = await bench.js.get_msg("DEAD", 1)
    assert letter.headers is not None
    assert (letter.headers["Dead-Letter-Reason"], letter.headers["Dead-Letter-Deliveries"]) == ("max_deliver", "2")
    await bench.until("S", 0)  # a work queue lets go of it
    told = json.loads((await advisories.next_msg(10)).data)
    assert (told["stream_seq"], told["deliveries"]) == (1, 2)


async def test_a_consumers_own_word_counts(bench: Bench) -> None:
    await bench.stream("S", metadata={KEY: "DEAD"})
    await bench.stream("DEAD")
    await bench.stream("OTHER")
    await bench.consumer("S", "none", metadata={KEY: ""})
    await bench.consumer("S", "other", metadata={KEY: "OTHER"})
    await bench.js.publish("S.a", b"body")
    await bench.terminate("S", name="none")
    await bench.terminate("S", name="other")
    await bench.until("OTHER", 1)
    assert (await bench.consumer_state("S", "none"))["num_ack_pending"] == 0
    assert await bench.messages("DEAD") == 0


async def test_a_term_that_asks_for_an_answer_gets_it_with_the_letter(bench: Bench) -> None:
    await bench.stream("S")
    await bench.consumer("S", metadata={KEY: "DEAD"})
    await bench.js.publish("S.a", b"body")
    (message,) = await bench.fetch("S")
    receipts = await bench.client.subscribe("receipts")
    await bench.client.publish(message.reply, b"+TERM", reply="receipts")
    await bench.logged("its dead-letter stream 'DEAD' is missing")
    with pytest.raises(TimeoutError):
        await receipts.next_msg(0.05)
    await bench.client.publish(message.reply, b"-NAK")  # changes nothing any more
    await bench.stream("DEAD")
    await receipts.next_msg(WAIT_SECONDS)
    assert await bench.messages("DEAD") == 1
    await bench.until_pending("S", 0)


UNUSABLE: dict[str, tuple[str, dict[str, Any] | None, dict[str, Any], str]] = {
    # name: (stream named, its configuration, what repairs it, log)
    "full": ("DEAD", {"max_msgs": 1, "discard": "new"}, {"max_msgs": 10}, "refuses it: maximum messages exceeded"),
    "missing": ("GONE", None, {}, "'GONE' is missing"),
    "too small": ("DEAD", {"max_msg_size": 10}, {"max_msg_size": -1}, "refuses it: message size exceeds maximum"),
    "interest": ("DEAD", {"retention": "interest"}, {}, "has interest retention"),
    "mirror": ("DEAD", {"mirror": {"name": "X"}, "subjects": None}, {}, "is a mirror"),
    "counter": ("DEAD", {"allow_msg_counter": True}, {}, "holds counters"),
    "its own": ("S", None, {}, "would be its own dead-letter stream"),
    "strange": ("../../etc/pass wd\r\n", None, {}, "is missing"),
}


@pytest.mark.parametrize("name", UNUSABLE)
async def test_a_letter_that_cannot_be_stored_stays_pending(bench: Bench, name: str) -> None:
    receiver, config, repair, line = UNUSABLE[name]
    await bench.stream("S")
    if config is not None:
        await bench.stream("DEAD", **config)
    if name == "full":
        await bench.js.publish("DEAD.x", b"takes the place")
    await bench.consumer("S", metadata={KEY: receiver})
    await bench.js.publish("S.a", b"body")
    await bench.js.publish("S.b", b"next")
    await bench.terminate("S", "bad")
    await bench.logged(line)
    (following,) = await bench.fetch("S")  # the consumer goes on, and the held one does not come again
    assert following.subject == "S.b"
    await following.ack_sync(timeout=30)
    state = await bench.consumer_state("S")
    assert (state["num_ack_pending"], state["ack_floor"]["stream_seq"]) == (1, 0)
    assert await bench.messages("S") == 2
    if repair:
        await bench.stream("DEAD", "UPDATE", **{**(config or {}), **repair})
        await bench.until_pending("S", 0)
        assert await bench.messages("DEAD") == (2 if name == "full" else 1)


async def test_a_sealed_stream_takes_no_letters(bench: Bench) -> None:
    await bench.stream("S")
    await bench.stream("DEAD")
    await bench.stream("DEAD", "UPDATE", sealed=True)
    await bench.consumer("S", metadata={KEY: "DEAD"})
    await bench.js.publish("S.a", b"body")
    await bench.terminate("S")
    await bench.logged("its dead-letter stream 'DEAD' is sealed")
    assert (await bench.consumer_state("S"))["num_ack_pending"] == 1


async def test_letters_do_not_go_round_in_a_circle(bench: Bench) -> None:
    await bench.stream("S", metadata={KEY: "DEAD"})
    await bench.stream("DEAD", metadata={KEY: "S"})
    await bench.consumer("S")
    await bench.consumer("DEAD")
    await bench.js.publish("S.a", b"body")
    await bench.terminate("S")
    await bench.until("DEAD", 1)
    await bench.terminate("DEAD")
    await bench.logged("its dead-letter stream 'S' has had this message before")
    assert (await bench.messages("S"), await bench.messages("DEAD")) == (1, 1)


async def test_a_held_message_may_be_acked_and_removed(bench: Bench) -> None:
    await bench.stream("S")
    await bench.consumer("S", metadata={KEY: "GONE"})
    for subject in ("S.a", "S.b"):
        await bench.js.publish(subject, b"body")
    acked, removed = await bench.fetch("S", batch=2)
    for message in (acked, removed):
        await bench.client.publish(message.reply, b"+TERM")
    await bench.until_pending("S", 2)
    await acked.ack_sync(timeout=30)
    await bench.api("STREAM.MSG.DELETE.S", {"seq": 2})
    await bench.until_pending("S", 0)
    await bench.stream("GONE")
    await bench.js.publish("S.c", b"body")
    await bench.terminate("S")
    await bench.until("GONE", 1)
    letter = await bench.js.get_msg("GONE", 1)
    assert letter.subject == "S.c"


async def test_acks_of_all_below_end_with_the_letter(bench: Bench) -> None:
    await bench.stream("S", metadata={KEY: "DEAD"})
    await bench.stream("DEAD")
    await bench.consumer("S", ack_policy="all")
    for _ in range(3):
        await bench.js.publish("S.a", b"body")
    _, second, _ = await bench.fetch("S", batch=3)
    await bench.client.publish(second.reply, b"+TERM")
    await bench.until("DEAD", 1)
    await bench.until_pending("S", 1)
    assert (await bench.js.get_msg("DEAD", 1)).headers["Dead-Letter-Sequence"] == "2"  # type: ignore[index]


async def test_a_term_that_a_later_ack_of_all_has_overtaken_ends_with_its_letter(bench: Bench) -> None:
    await bench.stream("S", metadata={KEY: "DEAD"})
    await bench.stream("DEAD")
    await bench.consumer("S", ack_policy="all")
    for _ in range(3):
        await bench.js.publish("S.a", b"body")
    first, second, _ = await bench.fetch("S", batch=3)
    await bench.client.publish(first.reply, b"-NAK")
    (again,) = await bench.fetch("S")
    await again.ack_sync(timeout=30)  # its consumer sequence is above those of the others
    await bench.client.publish(second.reply, b"+TERM")
    await bench.until("DEAD", 1)
    await bench.until_pending("S", 1)
    assert (await bench.js.get_msg("DEAD", 1)).headers["Dead-Letter-Sequence"] == "2"  # type: ignore[index]


async def test_a_reset_forgets_letters_that_wait(tmp_path: Path) -> None:
    bench = ConsumerBench(tmp_path)
    bench.open()
    consumer = bench.consumer("c", metadata={KEY: "GONE"})
    await bench.fill("s.a")
    receipts = bench.mailbox()
    for deliveries in (1, 2):
        (message,) = (await bench.pull({"batch": 1})).take()
        bench.router.publish_bytes(message.reply.encode(), receipts.subject.encode(), b"", b"+TERM")
        await bench.turn()
        assert consumer.letters.waiting() == 1
        if deliveries == 1:
            assert receipts.take() == []
            consumer.reset()
            assert consumer.letters.waiting() == 0
            await bench.turn()
            assert len(receipts.take()) == 1  # who terminated it waits no longer
    await bench.ack(message)
    await bench.advance(2 * 60)
    assert (consumer.letters.waiting(), len(receipts.take())) == (0, 1)
    await bench.close()


async def test_a_push_consumer_has_dead_letters(bench: Bench) -> None:
    await bench.stream("S", metadata={KEY: "DEAD"})
    await bench.stream("DEAD")
    inbox = await bench.client.subscribe("inbox")
    await bench.consumer("S", deliver_subject="inbox", max_deliver=2, ack_wait=SECOND // 10)
    await bench.js.publish("S.a", b"body")
    for _ in range(2):
        await inbox.next_msg(10)
    await bench.until("DEAD", 1)


async def test_many_letters_at_once(bench: Bench) -> None:
    await bench.stream("S", retention="workqueue", metadata={KEY: "DEAD"})
    await bench.stream("DEAD", storage="memory")
    await bench.consumer("S", max_ack_pending=5000)
    for _ in range(3000):
        await bench.client.publish("S.a", b"body")
    await bench.until("S", 3000)
    for message in await bench.fetch("S", batch=3000):
        await bench.client.publish(message.reply, b"+TERM")
    await bench.until("DEAD", 3000)
    await bench.until("S", 0)


async def test_another_accounts_stream_is_missing(tmp_path: Path) -> None:
    config = tmp_path / "accounts.conf"
    config.write_text(
        f'jetstream {{ store_dir: "{tmp_path}/store" }}\n'
        "accounts { A { jetstream: enabled, users: [{user: a, password: a}] },"
        " B { jetstream: enabled, users: [{user: b, password: b}] } }\n"
    )
    with process.jetbroker("-c", str(config)) as server:
        a = Bench(await nats.connect(server.url, user="a", password="a"), server)
        b = Bench(await nats.connect(server.url, user="b", password="b"), server)
        await a.stream("S", metadata={KEY: "DEAD"})
        await a.consumer("S")
        await b.stream("DEAD")
        await a.js.publish("S.a", b"body")
        await a.terminate("S")
        await a.logged("[WRN] Consumer 'A > S > c' keeps message 1 pending: its dead-letter stream 'DEAD' is missing")
        assert await b.messages("DEAD") == 0
        for bench in (a, b):
            await bench.client.close()


async def test_a_restart_goes_on_where_letters_waited(tmp_path: Path) -> None:
    server = process.jetbroker("-js", "-sd", str(tmp_path))
    with server:
        bench = Bench(await nats.connect(server.url), server)
        await bench.stream("S", metadata={KEY: "DEAD"})
        await bench.consumer("S", max_deliver=1, ack_wait=SECOND // 10)
        await bench.js.publish("S.a", b"body")
        await bench.fetch("S")
        await bench.logged("is missing")
        await bench.client.close()
        server.kill()
        server.start()
        bench = Bench(await nats.connect(server.url), server)
        assert (await bench.consumer_state("S"))["num_ack_pending"] == 1
        await bench.stream("DEAD")
        await bench.until("DEAD", 1)
        await bench.until_pending("S", 0)
        await bench.client.close()


KILLED = Path(__file__).resolve().parent.parent / "support" / "killed_broker.py"


@pytest.mark.parametrize("calls", [14, 17, *(pytest.param(at, marks=pytest.mark.slow) for at in range(6, 26))])
async def test_a_kill_at_any_call_of_the_disk_leaves_one_letter(tmp_path: Path, calls: int) -> None:
    server = process.jetbroker("-js", "-sd", str(tmp_path))
    with server:
        bench = Bench(await nats.connect(server.url), server)
        await bench.stream("S", retention="workqueue", metadata={KEY: "DEAD"})
        await bench.stream("DEAD")
        await bench.consumer("S", ack_wait=SECOND // 10, max_deliver=2)
        await bench.js.publish("S.a", b"body")
        await bench.fetch("S")
        await bench.client.close()
    deadly = process.ServerProcess([sys.executable, str(KILLED), str(calls), "8388608"], ("-js", "-sd", str(tmp_path)))
    with contextlib.suppress(Exception):  # it may die anywhere, before it is ready, too
        deadly.start()
        client = await nats.connect(deadly.url, allow_reconnect=False, max_reconnect_attempts=0)
        bench = Bench(client, deadly)
        async with asyncio.timeout(3):
            await give_up(bench)
        await client.close()
    deadly.kill()
    with server:
        bench = Bench(await nats.connect(server.url), server)
        await give_up(bench)
        assert await bench.messages("DEAD") == 1
        await bench.client.close()


async def give_up(bench: Bench) -> None:
    """Ask for messages until none is left."""
    consumer = await bench.js.pull_subscribe_bind("c", "S")
    async with asyncio.timeout(WAIT_SECONDS):
        while await bench.messages("S"):
            with contextlib.suppress(TimeoutError):
                await consumer.fetch(1, 0.3)


def test_what_a_client_gives_as_reason_stays_one_line_of_a_header() -> None:
    assert header_value("bad\r\nNats-Rollup: all\x00 \ud800é") == "bad Nats-Rollup: all? ?é".encode()
    assert len(header_value("é" * 5000)) <= 1024


def test_headers_of_a_letter_keep_no_orders_to_the_server() -> None:
    origin = Origin("S", "c", b"s.a", 7, 1, 3, "max_deliver")
    block = b"NATS/1.0\r\nA: b\r\nNats-Rollup: all\r\nnats-x: y\r\nNats-Stream-Source: T 1\r\n\r\n"
    headers = letter_headers(block, origin)
    assert headers.startswith(b"NATS/1.0\r\nA: b\r\nNats-Msg-Id: S.7.c.1\r\nDead-Letter-Stream: S\r\n")
    assert b"ollup" not in headers and b"Source" not in headers and headers.endswith(b"\r\n\r\n")
    assert has_died_in(headers, "S") and not has_died_in(headers, "T")
    second = letter_headers(headers, Origin("T", "d", b"s.a", 1, 2, 1, "terminated"))
    assert b"Dead-Letter-Trail: S\r\n" in second and second.count(b"Dead-Letter-Stream:") == 1
    assert has_died_in(second, "S") and has_died_in(second, "T")
    assert b"Dead-Letter-Msg-Id" not in second


async def replay(bench: Bench, *words: str) -> tuple[int | None, str]:
    """Run the command; (exit code, all it printed)."""
    command = [sys.executable, "-m", "jetbroker", "replay", "-s", bench.server.url, *words]
    ran = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    out, _ = await ran.communicate()
    return ran.returncode, out.decode()


async def test_letters_are_replayed_to_where_they_came_from(bench: Bench) -> None:
    await bench.stream("S", metadata={KEY: "DEAD"})
    await bench.stream("DEAD")
    await bench.consumer("S")
    await bench.js.publish("DEAD.x", b"no letter")
    for number in range(3):
        await bench.js.publish(f"S.{number}", b"%d" % number, headers={"Kind": "test", "Nats-Msg-Id": f"id {number}"})
        await bench.terminate("S", "bad")
    await bench.until("DEAD", 4)
    assert await replay(bench, "DEAD", "--dry-run", "--subject", "S.1") == (
        0,
        "seq 3: S.1 (terminated: bad)\n1 letter to replay\n",
    )
    assert await replay(bench, "DEAD", "--limit", "1", "--keep") == (0, "seq 2: S.0 -> S 4\n1 letter replayed\n")
    assert await replay(bench, "DEAD", "--reason", "max_deliver") == (0, "0 letters replayed\n")
    assert await replay(bench, "DEAD", "--origin", "S", "--consumer", "c") == (
        0,
        "seq 2: S.0 -> S 4\nseq 3: S.1 -> S 5\nseq 4: S.2 -> S 6\n3 letters replayed\n",  # the first one: a duplicate
    )
    assert await bench.messages("DEAD") == 1
    again = await bench.js.get_msg("S", 5)
    assert (again.subject, again.data) == ("S.1", b"1")
    headers = dict(again.headers or {})
    assert headers.pop("Nats-Msg-Id").startswith("S.2.c.")
    assert headers == {"Kind": "test", "Dead-Letter-Msg-Id": "id 1", "Nats-Expected-Stream": "S"}


async def test_a_replay_without_its_stream_leaves_the_letters(bench: Bench) -> None:
    await bench.stream("S", metadata={KEY: "DEAD"})
    await bench.stream("DEAD")
    await bench.consumer("S")
    await bench.js.publish("S.a", b"body")
    await bench.terminate("S")
    await bench.until("DEAD", 1)
    await bench.api("STREAM.DELETE.S")
    assert await replay(bench, "DEAD") == (1, "seq 1: S.a: S.a: nobody listens\n0 letters replayed\n")
    assert await bench.messages("DEAD") == 1
    assert await replay(bench, "NONE") == (1, "jetbroker: stream not found\n")
    assert await replay(bench, "a b") == (2, ANY)
    assert await replay(bench, "DEAD", "-s", "nats://127.0.0.1:1") == (1, ANY)
    assert await replay(bench, "DEAD", "-s", "http://x") == (
        1,
        "jetbroker: 'http://x' is no URL of a server: nats://host:4222 or tls://host:4222\n",
    )
    code, told = await replay(bench, "--help")
    assert code == 0 and "--dry-run" in told


@pytest.mark.parametrize("login", ["user: ann, password: secret", 'token: "secret"'])
async def test_a_replay_logs_in(tmp_path: Path, login: str) -> None:
    config = tmp_path / "login.conf"
    config.write_text(f'jetstream {{ store_dir: "{tmp_path}/store" }}\nauthorization {{ {login} }}\n')
    with process.jetbroker("-c", str(config)) as server:
        who = "ann:secret" if "user" in login else "secret"
        url = server.url.replace("nats://", f"nats://{who}@")
        bench = Bench(await nats.connect(url), server)
        await bench.stream("DEAD")
        assert await replay(bench, "DEAD", "-s", url) == (0, "0 letters replayed\n")
        wrong = url.replace("secret", "wrong")
        assert await replay(bench, "DEAD", "-s", wrong) == (1, ANY)
        await bench.client.close()
