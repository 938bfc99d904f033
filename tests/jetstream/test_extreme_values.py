"""Extremes in requests to JetStream: each gets an answer, and whatever was made of it, the broker starts again."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jetbroker.forms.gotext import parse_time
from tests.support.clients import settle
from tests.support.daemon import CONNECT, Daemon, Raw
from tests.support.origins import Streams, connected
from tests.support.process import ServerProcess, jetbroker

INT64 = (2**63 - 1, -(2**63), -1, 0, 1)
UINT64 = (2**64 - 1, 2**63, 1)
INT32 = (2**31 - 1, -(2**31), -1)
TIMES = (
    "9999-12-31T23:59:59.999999999Z",
    "2262-04-11T23:47:16.854775808Z",
    "1970-01-01T00:00:00Z",
    "1677-09-21T00:12:43.145224191Z",
    "1600-01-01T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "0000-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59-23:59",
)
STREAM_FIELDS: dict[str, tuple[Any, ...]] = {
    "max_consumers": INT64,
    "max_msgs": INT64,
    "max_bytes": INT64,
    "max_age": INT64,
    "max_msgs_per_subject": INT64,
    "max_msg_size": INT32,
    "num_replicas": INT64,
    "duplicate_window": INT64,
    "subject_delete_marker_ttl": INT64,
}
NESTED_STREAM_FIELDS: dict[str, tuple[dict[str, Any], ...]] = {
    "consumer_limits": tuple({key: value} for key in ("inactive_threshold", "max_ack_pending") for value in INT64),
    "mirror": tuple({"name": "O", "opt_start_time": time} for time in TIMES)
    + tuple({"name": "O", "opt_start_seq": seq} for seq in UINT64),
}
CONSUMER_FIELDS: dict[str, tuple[Any, ...]] = {
    "ack_wait": INT64,
    "max_deliver": INT64,
    "backoff": (*([value] for value in INT64), [2**63 - 1] * 20),
    "sample_freq": ("9" * 5000, str(2**63 - 1), "-1", "100%"),
    "max_waiting": INT64,
    "max_ack_pending": INT64,
    "max_batch": INT64,
    "max_expires": INT64,
    "max_bytes": INT64,
    "inactive_threshold": INT64[:-1],  # one nanosecond is over at once
    "num_replicas": INT64,
    "pause_until": TIMES,
    "priority_timeout": INT64,
}
PUSH_FIELDS: dict[str, tuple[Any, ...]] = {"rate_limit_bps": UINT64, "idle_heartbeat": INT64, "max_waiting": INT64}
PULL_FIELDS: dict[str, tuple[Any, ...]] = {
    "expires": INT64,
    "batch": INT64,
    "max_bytes": INT64,
    "idle_heartbeat": INT64,
    "min_pending": INT64,
    "min_ack_pending": INT64,
    "priority": INT64,
}
READS: tuple[tuple[str, dict[str, Any]], ...] = (
    *((f"STREAM.{kind}", {"offset": value}) for kind in ("NAMES", "LIST") for value in INT64),
    *((f"CONSUMER.{kind}.S", {"offset": value}) for kind in ("NAMES", "LIST") for value in INT64),
    *(("STREAM.INFO.S", {"offset": value, "subjects_filter": ">"}) for value in INT64),
    *(("STREAM.MSG.GET.S", {"start_time": time}) for time in TIMES),
    *(("STREAM.MSG.GET.S", {"start_time": time, "next_by_subj": "s"}) for time in TIMES),
    *(("STREAM.MSG.GET.S", {"seq": value, "next_by_subj": "s"}) for value in UINT64),
    *(("STREAM.MSG.GET.S", {"seq": value}) for value in UINT64),
    *(("STREAM.MSG.DELETE.S", {"seq": value}) for value in UINT64[:-1]),
    *(("STREAM.PURGE.S", {"keep": value}) for value in UINT64[:-1]),
    *(("CONSUMER.RESET.S.all", {"seq": value}) for value in UINT64),
    *(("CONSUMER.PAUSE.S.all", {"pause_until": time}) for time in TIMES),
)
DIRECT: tuple[dict[str, Any], ...] = (
    *({"start_time": time} for time in TIMES),
    *({"start_time": time, "batch": 2} for time in TIMES),
    *({"multi_last": [">"], "up_to_time": time} for time in TIMES),
    *({"multi_last": [">"], "up_to_seq": value} for value in UINT64),
    *({"seq": value, "batch": 2} for value in UINT64),
    *({"seq": 1, "batch": value} for value in INT64),
    *({"seq": 1, "batch": 2, "max_bytes": value} for value in INT64),
)
NO_WAIT = b'{"batch":1,"no_wait":true}'


def quiet(server: ServerProcess) -> list[str]:
    """Lines of the log that tell of a fault of the broker's own."""
    return [line for line in server.log if "[ERR]" in line or "Traceback" in line or "is offline" in line]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ServerProcess]:
    with jetbroker("-js", "-sd", str(tmp_path)) as broker:
        yield broker
        assert not quiet(broker)


async def pull(streams: Streams, consumer: str, body: bytes) -> str:
    """The first that a pull request brings: a payload, or the status."""
    inbox = streams.client.new_inbox()
    got = await streams.client.subscribe(inbox)
    await streams.client.publish(f"$JS.API.CONSUMER.MSG.NEXT.S.{consumer}", body, reply=inbox)
    message = await got.next_msg(30)
    await got.unsubscribe()
    return (message.headers or {}).get("Status") or message.data.decode()


def answered(answer: dict[str, Any]) -> dict[str, Any]:
    assert "internal error" not in json.dumps(answer), answer
    return answer


async def ask(streams: Streams, kind: str, fields: dict[str, tuple[Any, ...]], **usual: Any) -> int:
    """How many were made: one stream or consumer for each field and value."""
    made = 0
    for field, values in fields.items():
        for value in values:
            name = f"{kind}-{field}-{made}"
            config = {"name": name, **usual, field: value}
            if kind == "stream":
                answer = answered(await streams.api(f"STREAM.CREATE.{name}", {**config, "subjects": [name]}))
            else:
                body = {"stream_name": "S", "config": {**config, "durable_name": name}}
                answer = answered(await streams.api(f"CONSUMER.CREATE.S.{name}", body))
            made += "error" not in answer
    return made


async def test_streams_of_extremes_start_again(server: ServerProcess) -> None:
    async with connected(server.url) as streams:
        await streams.create("O", subjects=["o"])
        made = await ask(streams, "stream", STREAM_FIELDS)
        for field, values in NESTED_STREAM_FIELDS.items():
            for number, value in enumerate(values):
                name = f"nested-{field}-{number}"
                config = {"name": name, field: value} | ({"subjects": [name]} if field != "mirror" else {})
                made += "error" not in answered(await streams.api(f"STREAM.CREATE.{name}", config))
        for name in (await streams.api("STREAM.NAMES"))["streams"]:
            if name.startswith("stream"):
                await streams.client.request(name, b"x", timeout=30)
    assert made > 30
    server.kill()
    server.start()
    async with connected(server.url) as streams:
        assert (await streams.api("STREAM.NAMES"))["total"] == made + 1


@pytest.mark.parametrize("kind", ["pull", "push", "timed"])
async def test_consumers_of_extremes_start_again(server: ServerProcess, kind: str) -> None:
    async with connected(server.url) as streams:
        await streams.create("S", subjects=["s"])
        await streams.publish("s", "1", "2")
        if kind == "pull":
            made = await ask(streams, kind, CONSUMER_FIELDS, ack_policy="explicit")
        elif kind == "push":
            made = await ask(streams, kind, {**CONSUMER_FIELDS, **PUSH_FIELDS}, deliver_subject="to")
        else:
            made = await ask(streams, kind, {"opt_start_time": TIMES}, deliver_policy="by_start_time")
            made += await ask(streams, "seq", {"opt_start_seq": UINT64}, deliver_policy="by_start_sequence")
        listed = await streams.api("CONSUMER.NAMES.S")
        assert listed["total"] == made > 7
        for name in listed["consumers"]:
            answered(await streams.api(f"CONSUMER.INFO.S.{name}"))
            await streams.client.publish(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}", b"1", reply="to")
        await settle(streams.client)
    server.kill()
    server.start()
    async with connected(server.url) as streams:
        assert (await streams.api("CONSUMER.NAMES.S"))["total"] == made


async def test_requests_for_extremes_are_answered(server: ServerProcess) -> None:
    async with connected(server.url) as streams:
        await streams.create("S", subjects=["s"], allow_direct=True)
        await streams.api("CONSUMER.CREATE.S.all", {"stream_name": "S", "config": {"name": "all"}})
        await streams.publish("s", "1", "2")
        for subject, body in READS:
            answered(await streams.api(subject, body))
        await streams.publish("s", "1", "2")
        for asked in DIRECT:
            await streams.client.request("$JS.API.DIRECT.GET.S", json.dumps(asked).encode(), timeout=30)
        level = {"Nats-Required-Api-Level": "9" * 3000}
        for subject in ("STREAM.NAMES", "DIRECT.GET.S.s", "CONSUMER.MSG.NEXT.S.all"):
            refused = await streams.client.request(f"$JS.API.{subject}", b"", timeout=30, headers=level)
            assert b"10185" in refused.data or (refused.headers or {}).get("Status") == "412", subject
    server.kill()
    server.start()


async def test_a_direct_get_of_extremes_does_not_disturb_another_clients_batch(server: ServerProcess) -> None:
    async with connected(server.url) as streams:
        await streams.create("S", subjects=["s"], allow_direct=True)
        for number in range(2000):
            await streams.client.publish("s", b"%d" % number)
        await streams.until("S", lambda info: info["state"]["messages"] == 2000)
        got = await streams.client.subscribe("batch")
        await streams.client.publish("$JS.API.DIRECT.GET.S", b'{"seq":1,"batch":2000}', reply="batch")
        for asked in DIRECT:
            await streams.client.publish("$JS.API.DIRECT.GET.S", json.dumps(asked).encode(), reply="nobody")
        level = {"Nats-Required-Api-Level": "9" * 3000}
        await streams.client.publish("$JS.API.DIRECT.GET.S", b'{"seq":1}', reply="nobody", headers=level)
        messages = [await got.next_msg(30) for _ in range(2001)]
        assert (messages[-1].headers or {})["Status"] == "204"


async def test_pulls_of_extremes_take_what_there_is(server: ServerProcess) -> None:
    async with connected(server.url) as streams:
        await streams.create("S", subjects=["s"])
        await streams.publish("s", "1", "2")
        for field, values in PULL_FIELDS.items():
            for value in values:
                name = f"{field}{value}"
                config = {"name": name, "ack_policy": "explicit"}
                await streams.api(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": config})
                body = json.dumps({"batch": 2, field: value}).encode()
                await pull(streams, name, body)
        # two requests that wait for 2^63-1 messages each
        await streams.api("CONSUMER.CREATE.S.two", {"stream_name": "S", "config": {"name": "two"}})
        got = await streams.client.subscribe("two")
        for _ in range(2):
            asked = json.dumps({"batch": 2**63 - 1, "expires": 2**63 - 1}).encode()
            await streams.client.publish("$JS.API.CONSUMER.MSG.NEXT.S.two", asked, reply="two")
        assert {(await got.next_msg(30)).data for _ in range(2)} == {b"1", b"2"}
        assert await pull(streams, "two", NO_WAIT) == "404"


@pytest.mark.parametrize(
    ("field", "value"), [("ack_wait", 2**63 - 1), ("backoff", [2**63 - 1]), ("inactive_threshold", 2**63 - 1)]
)
async def test_a_wait_of_292_years_ends_neither_a_delivery_nor_a_consumer(
    server: ServerProcess, field: str, value: Any
) -> None:
    async with connected(server.url) as streams:
        await streams.create("S", subjects=["s"])
        await streams.publish("s", "1")
        config = {"name": "c", "ack_policy": "explicit", field: value}
        await streams.api("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})
        assert await pull(streams, "c", b"1") == "1"
        for _ in range(5):  # each look runs a tick of the consumer
            assert await pull(streams, "c", NO_WAIT) == "404"
        info = await streams.api("CONSUMER.INFO.S.c")
        assert (info["num_redelivered"], info["num_ack_pending"], info["config"][field]) == (0, 1, value)


def test_a_start_time_is_echoed_as_it_was_given(tmp_path: Path) -> None:
    """And what is beyond 64 bits of nanoseconds comes around at the other end, as in Go."""
    with Daemon("-js", "-sd", str(tmp_path)) as daemon, daemon.open() as client:
        client.exchange(CONNECT + b"SUB r 1\r\n")
        ask_raw(client, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        client.send(b"PUB s r 1\r\nx\r\n")
        client.until(b"}\r\n")
        ahead = {}
        for number, time in enumerate(TIMES):
            config = {"name": f"c{number}", "deliver_policy": "by_start_time", "opt_start_time": time}
            body = {"stream_name": "S", "config": config}
            info = ask_raw(client, f"CONSUMER.CREATE.S.c{number}", body)
            assert info["config"]["opt_start_time"] == time
            ahead[time] = info["num_pending"]
        stored_ns = parse_time("2026-01-01T00:00:00Z").unix_nano  # as good as the message's own time
        assert ahead == {time: int(parse_time(time).unix_nano < stored_ns) for time in TIMES}


def ask_raw(client: Raw, subject: str, body: dict[str, Any]) -> dict[str, Any]:
    data = json.dumps(body).encode()
    client.send(b"PUB $JS.API.%b r %d\r\n%b\r\n" % (subject.encode(), len(data), data))
    while not client.line().startswith(b"MSG r "):
        pass
    answer: dict[str, Any] = json.loads(client.line())
    return answer
