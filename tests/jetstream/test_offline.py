"""Streams and consumers that a start cannot bring back are offline, each by itself; the broker serves the others."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from jetbroker import limits
from jetbroker.config.options import AccountJetStreamOptions
from jetbroker.jetstream import account as engine
from jetbroker.jetstream.host.advisories import Advisories
from jetbroker.jetstream.host.host import Host
from jetbroker.jetstream.models.config import ConsumerConfig, StreamConfig
from jetbroker.jetstream.models.contracts import ServerInfo
from jetbroker.jetstream.timing.work_turns import WorkTurns
from jetbroker.logs.logger import Logger
from jetbroker.routing.router import Router
from jetbroker.store.disk import Disk
from jetbroker.store.recovery.decisions import read_checked_json, write_checked_json
from jetbroker.store.store import Store
from jetbroker.tick import Tick
from tests.support.http import get_json
from tests.support.origins import Streams, connected
from tests.support.process import ServerProcess, free_port, jetbroker

FUTURE = {"_nats.req.level": "9"}
MANY = 150


def account(tmp_path: Path) -> Path:
    return tmp_path / "jetstream" / "%24G"


def change_stream(tmp_path: Path, name: str, **changes: Any) -> bytes:
    """Write another configuration into a stream's files, as a later release would; returns the file."""
    file = account(tmp_path) / name / "stream.json"
    meta = read_checked_json(Disk(), str(file))
    assert meta is not None
    meta["config"].update(changes)
    write_checked_json(Disk(), str(file), meta)
    return file.read_bytes()


async def request_error(streams: Streams, subject: str, body: Any = None) -> tuple[int, str]:
    answer = await streams.api(subject, body)
    assert "error" in answer, answer
    return answer["error"]["err_code"], answer["error"]["description"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"retention": "of the future"}, 'decoding error: can not unmarshal "\\"of the future\\""'),
        ({"metadata": FUTURE}, "unsupported - required API level: 9, current API level: 4"),
        ({"republish": {"src": "a.*", "dest": "b.{{wildcard(7)}}"}}, ""),
        ({"max_age": 2**70}, ""),
        ({"subjects": [5]}, ""),
    ],
)
async def test_a_stream_is_offline_until_it_is_deleted(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    monitor = free_port()
    with jetbroker("-js", "-sd", str(tmp_path), "-m", str(monitor)) as server:
        async with connected(server.url) as streams:
            for name in "ST":
                await streams.create(name, subjects=[name])
                await streams.publish(name, "kept")
        server.stop()
        written = change_stream(tmp_path, "S", **changes)
        server.start()
        async with connected(server.url) as streams:
            why = (await streams.api("STREAM.LIST"))["offline"]["S"]
            assert why == reason or not reason
            for subject, body in (
                ("STREAM.INFO.S", None),
                ("STREAM.CREATE.S", {"name": "S", "subjects": ["S"]}),
                ("STREAM.UPDATE.S", {"name": "S", "subjects": ["S"]}),
                ("STREAM.MSG.GET.S", {"seq": 1}),
                ("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": {"name": "c"}}),
            ):
                assert await request_error(streams, subject, body) == (10_194, f"stream is offline: {why}")
            listed = await streams.api("STREAM.LIST")
            assert (listed["total"], listed["missing"]) == (2, ["S"])
            assert [entry["config"]["name"] for entry in listed["streams"]] == ["T"]
            assert (await streams.api("STREAM.NAMES"))["streams"] == ["S", "T"]
            assert (await streams.api("INFO"))["streams"] == 2
            await streams.publish("T", "served")
            shown = get_json(monitor, "/jsz?streams=1")["account_details"][0]
            assert shown["offline"] == {"S": why}
            health = get_json(monitor, "/healthz")
            assert health["offline"] == [{"account": "$G", "stream": "S", "error": why}]
            assert (account(tmp_path) / "S" / "stream.json").read_bytes() == written
            assert (await streams.api("STREAM.DELETE.S"))["success"]
            assert not (account(tmp_path) / "S").exists()
            await streams.create("S", subjects=["S"])
        assert any("'$G > S' is offline" in line and "STREAM.DELETE" in line for line in server.log)


async def change_consumers(tmp_path: Path, **changes: Any) -> None:
    """Write another configuration into the logs of the consumers c0, c1... of a broker that is stopped."""
    store = Store.open(str(tmp_path / "jetstream"), Tick(asyncio.get_running_loop()))
    for stream in store.recover("$G"):
        for found in stream.consumers:
            if found.name.startswith("c"):
                found.state_log.update_config({**found.config, **changes})
                await found.state_log.commit()
    await store.close()


async def make_consumers(server: ServerProcess, retention: str, number: int = 1) -> None:
    """Stream S with the consumers `here` and c0, c1..., and a message for `here` and for c0."""
    async with connected(server.url) as streams:
        await streams.create("S", subjects=["s.*"], retention=retention)
        for name in ("here", *(f"c{each}" for each in range(number))):
            config = {"name": name, "durable_name": name, "ack_policy": "explicit", "filter_subject": f"s.{name}"}
            answer = await streams.api(f"CONSUMER.CREATE.S.{name}.s.{name}", {"stream_name": "S", "config": config})
            assert "error" not in answer, answer
        await streams.publish("s.c0", "for c0")
        await streams.publish("s.here", "for here")
    server.stop()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ack_policy": "of the future"}, "decoding error: "),
        ({"metadata": FUTURE}, "unsupported - required API level: 9, current API level: 4"),
        ({"sample_freq": "9" * 5000}, "ValueError: "),  # what no release wrote, and nobody has foreseen
    ],
)
async def test_a_consumer_is_offline_until_it_is_deleted(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    monitor = free_port()
    with jetbroker("-js", "-sd", str(tmp_path), "-m", str(monitor)) as server:
        await make_consumers(server, "limits")
        await change_consumers(tmp_path, **changes)
        log = account(tmp_path) / "S" / "consumers" / "c0.log"
        written = log.read_bytes()
        server.start()
        async with connected(server.url) as streams:
            listed = await streams.api("CONSUMER.LIST.S")
            assert [entry["name"] for entry in listed["consumers"]] == ["here"]
            assert (listed["total"], listed["missing"], [*listed["offline"]]) == (2, ["c0"], ["c0"])
            why = listed["offline"]["c0"]
            assert why.startswith(reason)
            assert (await streams.api("CONSUMER.NAMES.S"))["consumers"] == ["c0", "here"]
            create = {"stream_name": "S", "config": {"name": "c0", "ack_policy": "explicit"}}
            for subject, body in (
                ("CONSUMER.INFO.S.c0", None),
                ("CONSUMER.CREATE.S.c0", create),
                ("CONSUMER.PAUSE.S.c0", {"pause_until": "2100-01-01T00:00:00Z"}),
            ):
                assert await request_error(streams, subject, body) == (10_195, f"consumer is offline: {why}")
            assert await pulled(streams, "here") == b"for here"
            shown = get_json(monitor, "/jsz?consumers=1")["account_details"][0]["stream_detail"][0]
            assert shown["offline"] == {"c0": why}
            health = {"account": "$G", "stream": "S", "consumer": "c0", "error": why}
            assert get_json(monitor, "/healthz")["offline"] == [health]
            assert log.read_bytes() == written
            assert (await streams.api("CONSUMER.DELETE.S.c0"))["success"]
            assert not log.exists()
            assert "error" not in await streams.api("CONSUMER.CREATE.S.c0", create)
        assert any("'$G > S > c0' is offline" in line and "CONSUMER.DELETE" in line for line in server.log)


async def pulled(streams: Streams, consumer: str) -> bytes:
    inbox = streams.client.new_inbox()
    got = await streams.client.subscribe(inbox)
    await streams.client.publish(f"$JS.API.CONSUMER.MSG.NEXT.S.{consumer}", b"1", reply=inbox)
    message = await got.next_msg(30)
    await streams.client.request(message.reply, b"+ACK", timeout=30)
    return bytes(message.data)


async def test_what_an_offline_consumer_may_want_stays_in_a_stream_with_interest_retention(tmp_path: Path) -> None:
    with jetbroker("-js", "-sd", str(tmp_path)) as server:
        await make_consumers(server, "interest")
        await change_consumers(tmp_path, ack_policy="of the future")
        server.start()
        async with connected(server.url) as streams:
            assert await pulled(streams, "here") == b"for here"
            await streams.publish("s.c0", "more for c0")
            assert (await streams.api("STREAM.INFO.S"))["state"]["messages"] == 3
        server.stop()
        await change_consumers(tmp_path, ack_policy="explicit")
        server.start()
        async with connected(server.url) as streams:
            assert [await pulled(streams, "c0") for _ in range(2)] == [b"for c0", b"more for c0"]
            await streams.until("S", lambda info: info["state"]["messages"] == 0)


async def test_a_deleted_offline_consumer_wants_nothing_any_more(tmp_path: Path) -> None:
    with jetbroker("-js", "-sd", str(tmp_path)) as server:
        await make_consumers(server, "interest")
        await change_consumers(tmp_path, ack_policy="of the future")
        server.start()
        async with connected(server.url) as streams:
            assert (await streams.api("CONSUMER.DELETE.S.c0"))["success"]
            await streams.until("S", lambda info: info["state"]["messages"] == 1)
            assert await pulled(streams, "here") == b"for here"


async def test_a_work_queue_gives_nobody_else_what_an_offline_consumer_has(tmp_path: Path) -> None:
    with jetbroker("-js", "-sd", str(tmp_path)) as server:
        await make_consumers(server, "workqueue")
        await change_consumers(tmp_path, ack_policy="of the future")
        server.start()
        async with connected(server.url) as streams:
            config = {"name": "other", "ack_policy": "explicit", "filter_subject": "s.c0"}
            body = {"stream_name": "S", "config": config}
            assert (await request_error(streams, "CONSUMER.CREATE.S.other", body))[0] == 10_195
            assert (await streams.api("CONSUMER.DELETE.S.c0"))["success"]
            assert "error" not in await streams.api("CONSUMER.CREATE.S.other", body)


async def test_a_start_with_very_many_offline_assets_gets_ready(tmp_path: Path) -> None:
    with jetbroker("-js", "-sd", str(tmp_path)) as server:
        await make_consumers(server, "limits", MANY)
        await change_consumers(tmp_path, ack_policy="of the future")
        server.start()
        async with connected(server.url) as streams:
            assert len((await streams.api("CONSUMER.LIST.S"))["offline"]) == MANY
            assert await pulled(streams, "here") == b"for here"


async def test_times_that_an_earlier_release_could_not_restore_come_back(tmp_path: Path) -> None:
    with jetbroker("-js", "-sd", str(tmp_path)) as server:
        await make_consumers(server, "limits")
        time = "9999-12-31T23:59:59Z"
        await change_consumers(tmp_path, deliver_policy="by_start_time", opt_start_time=time, pause_until=time)
        server.start()
        async with connected(server.url) as streams:
            info = await streams.api("CONSUMER.INFO.S.c0")
            assert (info["config"]["opt_start_time"], info["paused"]) == (time, True)


# --- accept, then write ---


class Unforeseen:
    """Stands in for a class of the engine, and fails as nobody has foreseen."""

    def __init__(self, *arguments: object, **named: object) -> None:
        raise OverflowError("Python int too large to convert to C long")


async def test_what_cannot_be_built_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tick = Tick(asyncio.get_running_loop())
    store = Store.open(str(tmp_path), tick)
    info = ServerInfo("n", "id", "2.14.5", "")
    router = Router("$G", tick)
    host = Host(router, WorkTurns(tick), info, cast(Logger, SimpleNamespace()), Advisories(router, ""))
    js = engine.JetStream(host, store, AccountJetStreamOptions())
    js.start()
    stream = await js.create_stream(StreamConfig(name="S", subjects=["s"]))
    config = ConsumerConfig(name="c", durable_name="c", ack_policy="explicit")
    await (await js.create_consumer(stream, config)).state_log.commit()
    written = contents(tmp_path)
    monkeypatch.setattr(engine, "Consumer", Unforeseen)
    monkeypatch.setattr(engine, "Stream", Unforeseen)
    other = replace(config, name="d", durable_name="d")
    for refused in (
        js.create_consumer(stream, other),
        js.create_consumer(stream, replace(config, ack_wait=10**10)),
        js.create_stream(StreamConfig(name="T", subjects=["t"])),
        js.update_stream(StreamConfig(name="S", subjects=["s", "u"])),
    ):
        with pytest.raises(OverflowError):
            await refused
    assert contents(tmp_path) == written
    assert (list(js.streams), list(stream.consumers)) == (["S"], ["c"])
    monkeypatch.undo()
    await (await js.create_consumer(stream, other)).state_log.commit()
    await js.create_stream(StreamConfig(name="T", subjects=["t"]))
    js.stop()
    await store.close()


def contents(path: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in path.rglob("*") if file.suffix in (".json", ".log")}


# --- how many consumers of mirrors and sources there may be ---


@pytest.mark.parametrize("kind", [{"direct": True}, {"sourcing": True}])
async def test_consumers_of_mirrors_and_sources_are_bounded_beside_max_consumers(
    tmp_path: Path, kind: dict[str, bool]
) -> None:
    with jetbroker("-js", "-sd", str(tmp_path)) as server:
        async with connected(server.url) as streams:
            await streams.create("S", subjects=["s"], max_consumers=1)
            config = {"deliver_subject": "to", "ack_policy": "none", "inactive_threshold": 10**12, **kind}
            body = {"stream_name": "S", "config": config}
            for _ in range(limits.JS_SOURCING_CONSUMERS):
                assert "error" not in await streams.api("CONSUMER.CREATE.S", body)
            assert (await request_error(streams, "CONSUMER.CREATE.S", body))[0] == 10_026
            body["config"] = {"durable_name": "c", "name": "c"}
            assert "error" not in await streams.api("CONSUMER.CREATE.S.c", body)
