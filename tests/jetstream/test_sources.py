"""Sources: streams that collect the messages of others, and where each of them goes on."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from nats.js.api import AckPolicy, ConsumerConfig

from tests.support import process
from tests.support.origins import SOURCE, Streams, connected, flood, flood_and_kill, kill_at

MINUTE = 60_000_000_000


def shown(content: list[dict[str, Any]]) -> list[str]:
    """Subject, data and source header of each message."""
    return [f"{one['subject']} {one['data'].decode()} | {one['headers'].get(SOURCE, '')}" for one in content]


async def test_several_sources_and_own_subjects(streams: Streams) -> None:
    await streams.create("A", subjects=["a.>"])
    await streams.create("B", subjects=["b.>"])
    await streams.publish("a.x", "1", "2")
    await streams.publish("a.y", "3", K="v", Nats_Expected_Stream="A")
    await streams.publish("b.x", "4")
    sources = [
        {"name": "A", "filter_subject": "a.x"},
        {"name": "A", "filter_subject": "a.y"},
        {"name": "B", "subject_transforms": [{"src": "b.*", "dest": "c.{{wildcard(1)}}"}]},
    ]
    created = await streams.create("T", subjects=["t"], sources=sources)
    assert [source["active"] for source in created["sources"]] == [-1, -1, -1]
    info = await streams.until_last("T", 4)
    assert [(source["name"], source["lag"]) for source in info["sources"]] == [("A", 0), ("A", 0), ("B", 0)]
    assert info["sources"][1]["filter_subject"] == "a.y"
    await streams.publish("t", "own")
    found = await streams.content("T")
    assert sorted(shown(found)) == [
        "a.x 1 | A 1 a.x > a.x", "a.x 2 | A 2 a.x > a.x", "a.y 3 | A 3 a.y > a.y",
        "c.x 4 | B 1 b.* c.{{wildcard(1)}} b.x", "t own | ",
    ]  # fmt: skip
    (third,) = [one for one in found if one["data"] == b"3"]
    assert list(third["headers"]) == ["K", SOURCE]
    assert (await streams.api("CONSUMER.LIST.A"))["consumers"] == []


async def test_a_chain_shows_its_last_link(streams: Streams) -> None:
    await streams.create("A", subjects=["a"])
    await streams.create("B", sources=[{"name": "A"}])
    await streams.create("C", sources=[{"name": "B"}], storage="memory")
    await streams.publish("a", "1", "2")
    await streams.until_last("C", 2)
    assert shown(await streams.content("C")) == ["a 1 | B 1 > > a", "a 2 | B 2 > > a"]


async def test_where_a_source_begins(streams: Streams) -> None:
    await streams.create("A", subjects=["a"])
    await streams.publish("a", "1", "2", "3")
    second = await streams.message("A", 2)
    assert second is not None
    await streams.create("T", sources=[{"name": "A", "opt_start_seq": 3}])
    await streams.create("U", sources=[{"name": "A", "opt_start_time": second["time"]}])
    await streams.until_last("T", 1)
    await streams.until_last("U", 2)
    assert await streams.payloads("T") == ["3"]
    assert await streams.payloads("U") == ["2", "3"]


async def test_sources_come_and_go(streams: Streams) -> None:
    await streams.create("A", subjects=["a"])
    await streams.create("B", subjects=["b"])
    await streams.create("T", sources=[{"name": "A"}])
    await streams.publish("a", "1")
    await streams.publish("b", "2")
    await streams.until_last("T", 1)
    both = await streams.update("T", sources=[{"name": "A"}, {"name": "B"}])
    assert [source["name"] for source in both["sources"]] == ["A", "B"]
    await streams.until_last("T", 2)
    left = await streams.update("T", sources=[{"name": "B"}])
    assert [source["name"] for source in left["sources"]] == ["B"]
    await streams.publish("a", "3")
    await streams.publish("b", "4")
    await streams.until_last("T", 3)
    assert await streams.payloads("T") == ["1", "2", "4"]
    await streams.api("STREAM.PURGE.T")
    await streams.update("T", sources=[{"name": "A"}, {"name": "B"}])
    await streams.until_last("T", 4)
    assert await streams.payloads("T") == ["3"]
    none = await streams.update("T", subjects=["t"])
    assert "sources" not in none
    await streams.publish("a", "5")
    await streams.publish("t", "6")
    assert await streams.payloads("T") == ["3", "6"]


async def test_duplicates_are_left_out(streams: Streams) -> None:
    await streams.create("A", subjects=["a"])
    await streams.create("B", subjects=["b"])
    created = await streams.create("T", sources=[{"name": "A"}, {"name": "B"}], duplicate_window=MINUTE)
    assert created["config"]["duplicate_window"] == MINUTE
    await streams.publish("a", "1", Nats_Msg_Id="one")
    await streams.until_last("T", 1)
    await streams.publish("b", "again", Nats_Msg_Id="one")
    await streams.publish("b", "2", Nats_Msg_Id="two")
    await streams.until_last("T", 2)
    assert await streams.payloads("T") == ["1", "2"]
    await streams.create("U", sources=[{"name": "A"}, {"name": "B"}])  # without a window nothing is one
    await streams.until_last("U", 3)


async def test_full_with_discard_new_it_waits(streams: Streams) -> None:
    await streams.create("A", subjects=["a"])
    await streams.create("T", sources=[{"name": "A"}], max_msgs=2, discard="new", retention="workqueue")
    await streams.publish("a", *"12345")
    full = await streams.until("T", lambda info: "error" in info["sources"][0])
    assert full["sources"][0]["error"]["description"] == "maximum messages exceeded"
    assert await streams.payloads("T") == ["1", "2"]
    js = streams.client.jetstream()
    pull = await js.pull_subscribe("", durable="d", stream="T")
    taken: list[Any] = []
    while len(taken) < 5:
        for message in await pull.fetch(1, timeout=30):
            taken.append(message.data.decode())
            await message.ack()
    assert taken == list("12345")


async def test_what_is_too_large_waits_and_is_told(streams: Streams) -> None:
    await streams.create("T", sources=[{"name": "A"}], max_msg_size=200)
    await streams.create("A", subjects=["a"])
    await streams.publish("a", "1", b"x" * 300, "3")
    held = await streams.until("T", lambda info: info["sources"][0].get("error", {}).get("err_code") == 10054)
    assert held["state"]["messages"] == 1
    await streams.update("T", sources=[{"name": "A"}], max_msg_size=1000)
    await streams.until_last("T", 3)
    assert await streams.refusal("U", sources=[{"name": "A"}, {"name": "T"}], max_msg_size=10) == (
        10046, "stream source must have max message size >= target")  # fmt: skip


@pytest.mark.parametrize(("allowed", "kept"), [(True, ["a.x 3", "a.y 2"]), (False, ["a.x 1", "a.x 3", "a.y 2"])])
async def test_roll_ups(streams: Streams, allowed: bool, kept: list[str]) -> None:
    await streams.create("A", subjects=["a.*"], allow_rollup_hdrs=True)
    await streams.create("T", sources=[{"name": "A"}], allow_rollup_hdrs=allowed)
    await streams.create("M", mirror={"name": "A"}, allow_rollup_hdrs=allowed)
    await streams.publish("a.x", "1")
    await streams.publish("a.y", "2")
    for name in "TM":
        await streams.until_last(name, 2)
    await streams.publish("a.x", "3", Nats_Rollup="sub")
    for name in "TM":
        await streams.until_last(name, 3)
        assert sorted(f"{one['subject']} {one['data'].decode()}" for one in await streams.content(name)) == kept


async def test_configurations(streams: Streams) -> None:
    for sources, refusal in (
        ([{"name": "T"}], (10052, "detected cycle")),
        ([{"name": "a.b"}], (10141, "sourced stream name is invalid")),
        ([{"name": "A"}, {"name": "A"}], (10140, "duplicate source configuration detected")),
        (
            [{"name": "A", "subject_transforms": [{"src": "a.*", "dest": ""}, {"src": "a.>", "dest": ""}]}],
            (10147, "source filters can not overlap"),
        ),
        (
            [{"name": "A", "external": {"api": "a.*", "deliver": ""}}],
            (10052, 'stream external api prefix "a.*" must be a valid subject without wildcards'),
        ),
        (
            [{"name": "A", "external": {"api": "$JS.API", "deliver": ""}}],
            (10021, "stream external api prefix $JS.API must not overlap with $JS.API"),
        ),
        (
            [{"name": "A", "opt_start_seq": 5, "consumer": {"name": "C", "deliver_subject": "d"}}],
            (10215, "stream source consumer config is invalid"),
        ),
    ):
        assert await streams.refusal("T", subjects=["t"], sources=sources) == refusal
    # its own subjects do not fit the filter: no cycle
    await streams.create("T", subjects=["t"], sources=[{"name": "T", "filter_subject": "x"}])


async def test_many_sources(streams: Streams) -> None:
    names = [f"S{number}" for number in range(60)]
    for name in names:
        await streams.create(name, subjects=[name.lower()], storage="memory")
    await streams.create("T", sources=[{"name": name} for name in names])
    for name in names:
        await streams.publish(name.lower(), "1", "2")
    await streams.until_last("T", 120)
    found = Counter(one["headers"][SOURCE].split(" ", 1)[0] for one in await streams.content("T"))
    assert found == dict.fromkeys(names, 2)
    assert len((await streams.api("STREAM.INFO.T"))["sources"]) == 60


async def numbers_of(streams: Streams, name: str, count: int) -> list[int]:
    """The origin's sequences of all stored messages, read by a consumer."""
    js = streams.client.jetstream()
    pull = await js.pull_subscribe("", stream=name, config=ConsumerConfig(ack_policy=AckPolicy.NONE))
    found: list[int] = []
    while len(found) < count:
        found += [int((one.headers or {})[SOURCE].split(" ")[1]) for one in await pull.fetch(500, timeout=30)]
    await pull.unsubscribe()
    return found


async def test_killed_while_it_copies(tmp_path: Path) -> None:
    count = 10_000
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        async with connected(server.url) as streams:
            await streams.create("A", subjects=["a"])
            await flood(server.url, "a", count)
            await streams.create("T", sources=[{"name": "A"}])
            await streams.create("Q", sources=[{"name": "A"}], max_msgs=10)
        await kill_at(server, "T", count // 6, count // 3, count // 2)
        async with connected(server.url) as streams:
            await streams.until_last("T", count)
            await streams.publish("a", "last")
            await streams.until_last("T", count + 1)
            assert await numbers_of(streams, "T", count + 1) == list(range(1, count + 2))
            assert (await streams.until_last("Q", count + 1))["state"]["last_seq"] == count + 1


async def test_consumed_messages_do_not_come_again(tmp_path: Path) -> None:
    """Nothing that is left in the stream says how far the sources are."""
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        async with connected(server.url) as streams:
            await streams.create("A", subjects=["a"])
            await streams.create("B", subjects=["b"])
            await streams.create("T", sources=[{"name": "A"}, {"name": "B"}], retention="workqueue")
            await streams.publish("a", *"123")
            await streams.publish("b", *"45")
            await streams.until_last("T", 5)
            js = streams.client.jetstream()
            pull = await js.pull_subscribe("", durable="d", stream="T")
            for message in await pull.fetch(5, timeout=30):
                await message.ack_sync(timeout=30)
            await streams.publish("b", "6")
            await streams.until_last("T", 6)
        server.kill()
        server.start()
        async with connected(server.url) as streams:
            await streams.publish("a", "7")
            await streams.publish("b", "8")
            await streams.until_last("T", 8)
            assert sorted(await streams.payloads("T")) == ["6", "7", "8"]
            await streams.api("STREAM.PURGE.T")
        assert server.stop() == 0
        server.start()
        async with connected(server.url) as streams:
            await streams.publish("a", "9")
            await streams.until_last("T", 9)
            assert await streams.payloads("T") == ["9"]


async def test_without_the_record_the_headers_tell(tmp_path: Path) -> None:
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        async with connected(server.url) as streams:
            await streams.create("A", subjects=["a"])
            await streams.create("B", subjects=["b"])
            await streams.create("T", subjects=["t"], sources=[{"name": "A"}, {"name": "B"}])
            await streams.publish("b", "1")
            await streams.publish("a", "2", "3")
            await streams.until_last("T", 3)
            await streams.publish("t", "4")
        server.kill()
        (record,) = tmp_path.glob("jetstream/*/T/consumers/*.log")
        record.unlink()
        server.start()
        async with connected(server.url) as streams:
            await streams.publish("a", "5")
            await streams.publish("b", "6")
            await streams.until_last("T", 6)
            assert (await streams.api("STREAM.INFO.T"))["state"]["messages"] == 6


async def test_an_interest_origin_waits_for_a_broker_that_is_away(tmp_path: Path) -> None:
    count = 4_000
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        async with connected(server.url) as streams:
            await streams.create("A", subjects=["a"], retention="interest")
            await streams.create("T", sources=[{"name": "A"}])
            await streams.until("T", lambda info: info["sources"][0]["active"] >= 0)
        await flood_and_kill(server, "a", count, 2)
        async with connected(server.url) as streams:
            await streams.until_last("T", count)
            assert await numbers_of(streams, "T", count) == list(range(1, count + 1))
            await streams.until("A", lambda info: info["state"]["messages"] == 0)


async def test_monitoring_shows_them(tmp_path: Path) -> None:
    port = process.free_port()
    with process.jetbroker("-js", "-sd", str(tmp_path), "-m", str(port)) as server:
        async with connected(server.url) as streams:
            await streams.create("A", subjects=["a"])
            await streams.create("T", sources=[{"name": "A"}])
            await streams.create("M", mirror={"name": "A"})
            await streams.publish("a", "1")
            await streams.until_last("T", 1)
            await streams.until_last("M", 1)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /jsz?consumers=1 HTTP/1.0\r\n\r\n")
            body = (await reader.read()).partition(b"\r\n\r\n")[2]
            writer.close()
    shown = json.loads(body)
    details = {one["name"]: one for one in shown["account_details"][0]["stream_detail"]}
    assert details["T"]["sources"][0]["name"] == "A" and details["M"]["mirror"]["name"] == "A"
    assert shown["consumers"] == 0 and "consumer_detail" not in details["A"]
