"""Mirrors: streams that copy another one, message by message, under the same sequences and times."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.support import process
from tests.support.origins import Streams, connected, flood, flood_and_kill, kill_at

SECOND = 1_000_000_000


@pytest.mark.parametrize("storage", ["file", "memory"])
async def test_a_mirror_is_a_copy(streams: Streams, storage: str) -> None:
    await streams.create("S", subjects=["s.>"])
    await streams.publish("s.a", "1", "2", "3")
    await streams.publish("s.b", "4", A="b", Nats_Expected_Last_Sequence="3", Nats_Msg_Id="id")
    await streams.publish("s.c", "5", Nats_Expected_Stream="S")
    await streams.api("STREAM.MSG.DELETE.S", {"seq": 2})
    await streams.create("M", mirror={"name": "S"}, storage=storage)
    await streams.until_last("M", 5)
    await streams.publish("s.a", "6", "7")
    info = await streams.until_last("M", 7)
    assert info["mirror"]["name"] == "S" and info["mirror"]["lag"] == 0 and info["mirror"]["active"] >= 0
    assert info["state"]["num_deleted"] == 1
    expected = await streams.content("S")
    for message in expected:
        message["headers"] = {k: v for k, v in message["headers"].items() if not k.startswith("Nats-Expected-")}
    assert await streams.content("M") == expected
    assert (await streams.api("CONSUMER.NAMES.S"))["consumers"] == []
    assert (await streams.api("STREAM.INFO.S"))["state"]["consumer_count"] == 0


async def test_what_never_expires_stays_in_copies_that_know_no_ttl(streams: Streams) -> None:
    await streams.create("S", subjects=["s.>"], allow_msg_ttl=True)
    await streams.publish("s.a", "old")
    await streams.publish("s.b", "kept", Nats_TTL="never")
    await streams.publish("s.c", "old")
    await streams.create("M", mirror={"name": "S"}, max_age=SECOND)
    await streams.create("C", sources=[{"name": "S"}], max_age=SECOND)
    for name in ("M", "C"):
        await streams.until_last(name, 3)
        await streams.until(name, lambda info: info["state"]["messages"] == 1)
        assert await streams.payloads(name) == ["kept"]
    assert (await streams.until_last("S", 3))["state"]["messages"] == 3


@pytest.mark.parametrize(
    ("origin", "kept"),
    [
        ({"filter_subject": "s.b"}, ["s.b 4"]),
        ({"opt_start_seq": 3}, ["s.a 3", "s.b 4"]),
        ({"subject_transforms": [{"src": "s.*", "dest": "t.{{wildcard(1)}}"}]}, ["t.a 1", "t.a 2", "t.a 3", "t.b 4"]),
        (
            {"subject_transforms": [{"src": "s.a", "dest": "x"}, {"src": "s.b", "dest": ""}]},
            ["x 1", "x 2", "x 3", "s.b 4"],
        ),
    ],
    ids=str,
)
async def test_a_part_of_the_origin(streams: Streams, origin: dict[str, Any], kept: list[str]) -> None:
    await streams.create("S", subjects=["s.>"])
    await streams.publish("s.a", "1", "2", "3")
    await streams.publish("s.b", "4")
    await streams.create("M", mirror={"name": "S", **origin})
    info = await streams.until_last("M", 4)
    found = await streams.content("M")
    assert [f"{message['subject']} {message['seq']}" for message in found] == kept
    assert info["state"]["first_seq"] == found[0]["seq"]
    shown = {key: value for key, value in origin.items() if key in ("filter_subject", "subject_transforms")}
    assert {key: info["mirror"][key] for key in shown} == shown


async def test_a_start_time(streams: Streams) -> None:
    await streams.create("S", subjects=["s"])
    await streams.publish("s", "1", "2", "3")
    second = await streams.message("S", 2)
    assert second is not None
    await streams.create("M", mirror={"name": "S", "opt_start_time": second["time"]})
    await streams.until_last("M", 3)
    assert await streams.payloads("M") == ["2", "3"]


async def test_what_is_removed_here_stays_away(streams: Streams) -> None:
    await streams.create("S", subjects=["s"])
    await streams.publish("s", *"12345")
    await streams.create("M", mirror={"name": "S"})
    await streams.until_last("M", 5)
    assert (await streams.api("STREAM.MSG.DELETE.M", {"seq": 2}))["success"]
    assert (await streams.api("STREAM.PURGE.S"))["purged"] == 5
    assert await streams.payloads("M") == ["1", "3", "4", "5"]
    assert (await streams.api("STREAM.PURGE.M"))["purged"] == 4
    await streams.publish("s", "6")
    await streams.until_last("M", 6)
    assert await streams.payloads("M") == ["6"]
    await streams.api("STREAM.PURGE.M", {"seq": 9})  # and everything to come below that
    await streams.publish("s", *"7890")
    await streams.until_last("M", 10)
    assert await streams.payloads("M") == ["9", "0"]


async def test_limits_of_its_own(streams: Streams) -> None:
    await streams.create("S", subjects=["s"])
    await streams.create("M", mirror={"name": "S"}, max_msgs=2)
    await streams.publish("s", *"12345")
    await streams.until_last("M", 5)
    assert await streams.payloads("M") == ["4", "5"]


async def test_promotion(streams: Streams) -> None:
    await streams.create("S", subjects=["s"])
    await streams.publish("s", "1", "2")
    await streams.create("M", mirror={"name": "S"})
    await streams.until_last("M", 2)
    refused = await streams.update("M", mirror={"name": "S", "filter_subject": "s"})
    assert refused["error"]["err_code"] == 10055
    assert (await streams.update("S", subjects=["s"], mirror={"name": "M"}))["error"]["err_code"] == 10034
    promoted = await streams.update("M", subjects=["m"])
    assert "mirror" not in promoted and "mirror" not in promoted["config"]
    await streams.publish("s", "3")
    await streams.publish("m", "own")
    assert await streams.payloads("M") == ["1", "2", "own"]
    with pytest.raises(nats.errors.NoRespondersError):
        await streams.publish("M", "not by its name")


async def test_direct_gets_for_the_origin(streams: Streams) -> None:
    await streams.create("S", subjects=["s"], allow_direct=True)
    await streams.publish("s", "1")
    created = await streams.create("M", mirror={"name": "S"})
    assert created["config"]["mirror_direct"] is True
    await streams.until_last("M", 1)
    answered: set[str] = set()
    while answered != {"S", "M"}:
        reply = await streams.client.request("$JS.API.DIRECT.GET.S", json.dumps({"seq": 1}).encode(), timeout=5)
        assert reply.headers is not None and reply.data == b"1"
        answered.add(reply.headers["Nats-Stream"])
    last = await streams.client.request("$JS.API.DIRECT.GET.S.s", b"", timeout=5)
    assert last.data == b"1"
    await streams.update("M")
    for _ in range(20):
        reply = await streams.client.request("$JS.API.DIRECT.GET.S", json.dumps({"seq": 1}).encode(), timeout=5)
        assert reply.headers is not None and reply.headers["Nats-Stream"] == "S"


async def test_no_direct_gets_for_an_origin_that_allows_none_any_more(streams: Streams) -> None:
    await streams.create("S", subjects=["s"], allow_direct=True)
    await streams.publish("s", "1")
    await streams.create("M", mirror={"name": "S"})
    await streams.until_last("M", 1)
    await streams.update("S", subjects=["s"], allow_direct=False)
    reply = await streams.client.request("$JS.API.DIRECT.GET.S", json.dumps({"seq": 1}).encode(), timeout=5)
    assert reply.headers is not None and reply.headers["Nats-Stream"] == "M"
    updated = await streams.update("M", mirror={"name": "S"})
    assert not updated["config"]["mirror_direct"]
    with pytest.raises(nats.errors.NoRespondersError):
        await streams.client.request("$JS.API.DIRECT.GET.S", json.dumps({"seq": 1}).encode(), timeout=5)


async def test_an_origin_that_comes_goes_and_comes_back(streams: Streams) -> None:
    await streams.create("M", mirror={"name": "S"})
    missing = await streams.until("M", lambda info: "error" in info["mirror"])
    assert missing["mirror"]["error"] == {"code": 404, "err_code": 10059, "description": "stream not found"}
    assert missing["mirror"]["active"] == -1
    await streams.create("S", subjects=["s"])
    await streams.publish("s", "1", "2")
    await streams.until_last("M", 2)
    await streams.api("STREAM.DELETE.S")
    await streams.until("M", lambda info: "error" in info["mirror"])
    await streams.create("S", subjects=["s"])
    await streams.publish("s", *"abcd")  # the first two have sequences that the mirror holds already
    info = await streams.until_last("M", 4)
    assert "error" not in info["mirror"]
    assert await streams.payloads("M") == ["1", "2", "c", "d"]


async def test_full_with_discard_new_it_waits(streams: Streams) -> None:
    await streams.create("S", subjects=["s"])
    await streams.create("M", mirror={"name": "S"}, max_msgs=2, discard="new")
    await streams.publish("s", *"1234")
    full = await streams.until("M", lambda info: "error" in info["mirror"])
    assert full["mirror"]["error"]["description"] == "maximum messages exceeded"
    assert await streams.payloads("M") == ["1", "2"]
    await streams.api("STREAM.PURGE.M")
    await streams.until_last("M", 4)
    assert await streams.payloads("M") == ["3", "4"]


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
async def test_a_queue_loses_a_message_when_it_is_in_the_mirror(streams: Streams, retention: str) -> None:
    await streams.create("S", subjects=["s"], retention=retention)
    await streams.create("M", mirror={"name": "S"})
    await streams.until("M", lambda info: info["mirror"]["active"] >= 0)
    await streams.publish("s", *"12345")
    await streams.until("S", lambda info: info["state"]["messages"] == 0)
    assert await streams.payloads("M") == ["1", "2", "3", "4", "5"]
    (name,) = (await streams.api("CONSUMER.NAMES.S"))["consumers"]
    consumer = await streams.api(f"CONSUMER.INFO.S.{name}")
    assert name.startswith("JS_MIRROR_") and consumer["config"]["ack_policy"] == "flow_control"
    await streams.api("STREAM.DELETE.M")
    while (await streams.api("CONSUMER.NAMES.S"))["consumers"]:
        await asyncio.sleep(0.01)


async def test_configurations(streams: Streams) -> None:
    await streams.create("S", subjects=["s"], max_msg_size=100)
    assert await streams.refusal("M", mirror={"name": "S"}, max_msg_size=99) == (
        10030, "stream mirror must have max message size >= source")  # fmt: skip
    assert await streams.refusal("M", mirror={"name": "M"}) == (10052, "detected cycle")
    await streams.create("A", mirror={"name": "S"})
    await streams.create("B", mirror={"name": "A"})
    assert (await streams.update("S", subjects=["s"], sources=[{"name": "B"}]))["error"] == {
        "code": 500, "err_code": 10052, "description": "detected cycle"}  # fmt: skip


@pytest.mark.parametrize("retention", ["limits", "workqueue"])
async def test_a_consumer_made_beforehand(streams: Streams, retention: str) -> None:
    await streams.create("S", subjects=["s.*"], retention=retention)
    consumer = {"durable_name": "C", "deliver_subject": "d", "ack_policy": "flow_control", "filter_subject": "s.a"}
    made = await streams.api("CONSUMER.CREATE.S.C.s.a", {"stream_name": "S", "config": consumer})
    assert "error" not in made, made
    await streams.publish("s.a", "1", "2")
    await streams.publish("s.b", "3")
    await streams.create("M", mirror={"name": "S", "consumer": {"name": "C", "deliver_subject": "d"}})
    await streams.until_last("M", 2)
    await streams.publish("s.a", "4")
    await streams.until_last("M", 4)
    assert await streams.payloads("M") == ["1", "2", "4"]
    left = 1 if retention == "workqueue" else 4
    await streams.until("S", lambda info: info["state"]["messages"] == left)
    await streams.api("STREAM.DELETE.M")
    assert (await streams.api("CONSUMER.NAMES.S"))["consumers"] == ["C"]
    plain = {"durable_name": "P", "deliver_subject": "p", "ack_policy": "explicit", "filter_subject": "s.b"}
    await streams.api("CONSUMER.CREATE.S.P.s.b", {"stream_name": "S", "config": plain})
    await streams.create("T", sources=[{"name": "S", "consumer": {"name": "P", "deliver_subject": "p"}}])
    refused = await streams.until("T", lambda info: "error" in info["sources"][0])
    assert refused["sources"][0]["error"]["err_code"] == 10217


async def test_killed_while_it_copies(tmp_path: Path) -> None:
    count = 20_000
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        async with connected(server.url) as streams:
            await streams.create("S", subjects=["s"])
            await flood(server.url, "s", count)
            await streams.create("M", mirror={"name": "S"})
            await streams.create("MM", mirror={"name": "M"})
        await kill_at(server, "M", count // 5, count // 3, count // 2)
        async with connected(server.url) as streams:
            for name in ("M", "MM"):
                state = (await streams.until_last(name, count))["state"]
                assert (state["messages"], state["first_seq"], state["last_seq"]) == (count, 1, count)
                for seq in range(1, count, 997):
                    assert await streams.message(name, seq) == await streams.message("S", seq)


async def test_a_queue_is_copied_whole_by_brokers_that_are_killed(tmp_path: Path) -> None:
    count = 6_000
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        async with connected(server.url) as streams:
            await streams.create("S", subjects=["s"], retention="workqueue")
            await streams.create("M", mirror={"name": "S"})
        await flood_and_kill(server, "s", count, 3)
        async with connected(server.url) as streams:
            state = (await streams.until_last("M", count))["state"]
            assert (state["messages"], state["first_seq"]) == (count, 1)
            assert [await streams.message("M", seq) is not None for seq in range(1, count, 499)].count(False) == 0
            await streams.until("S", lambda info: info["state"]["messages"] == 0)


ACCOUNTS = """
jetstream {store_dir: %s}
accounts {
  A {
    jetstream: enabled, users: [{user: a, password: a}]
    exports: [{service: "$JS.API.>"}, {stream: "toc.>"}, {service: "$JS.FC.>"}]
  }
  C {
    jetstream: enabled, users: [{user: c, password: c}]
    imports: [
      {service: {account: A, subject: "$JS.API.>"}, to: "JS.A.API.>"}
      {stream: {account: A, subject: "toc.>"}}
      {service: {account: A, subject: "$JS.FC.>"}}
    ]
  }
}
"""


async def test_a_mirror_in_another_account(tmp_path: Path) -> None:
    config = tmp_path / "server.conf"
    config.write_text(ACCOUNTS % (tmp_path / "store"))
    count = 5_000
    with process.jetbroker("-c", str(config)) as server:
        async with (
            connected(server.url, user="a", password="a") as a,
            connected(server.url, user="c", password="c") as c,
        ):
            await a.create("S", subjects=["s"])
            payload = b"x" * 1024  # enough for several answers to flow control
            await asyncio.gather(*[a.publish("s", payload) for _ in range(count)])
            external = {"api": "JS.A.API", "deliver": "toc"}
            await c.create("S", mirror={"name": "S", "external": external})
            info = await c.until_last("S", count)
            assert info["mirror"]["external"] == external and info["state"]["messages"] == count
            assert await c.message("S", 17) == await a.message("S", 17)
            await c.create("T", sources=[{"name": "S", "external": external, "opt_start_seq": count}])
            await c.until_last("T", 1)
            found = await c.message("T", 1)
            assert found is not None and found["headers"]["Nats-Stream-Source"].startswith("S:")
            server.kill()
            server.start()
        async with (
            connected(server.url, user="a", password="a") as a,
            connected(server.url, user="c", password="c") as c,
        ):
            await a.publish("s", "after")
            await c.until_last("S", count + 1)
            await c.until_last("T", 2)
            assert (await c.payloads("T"))[1] == "after"
