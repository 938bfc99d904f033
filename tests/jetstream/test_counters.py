"""Counters: sums of any size, kept over restarts and kills, damage is never counted from, sources told apart."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
from hypothesis import given, settings
from hypothesis import strategies as st

from jetbroker.store.log.memlog import MemoryLog
from tests.jetstream.test_ttl import FullDisk, header
from tests.support.origins import Streams, connected
from tests.support.process import ServerProcess, jetbroker
from tests.support.publishes import Publish, Publisher
from tests.support.streams import StreamBench, stream_config

NUMBERS = st.one_of(st.integers(-200, 200), st.integers(-(10**18), 10**18), st.integers(-(10**60), 10**60))


def total(answer: dict[str, Any]) -> int:
    return int(answer["val"])


@given(st.lists(NUMBERS, max_size=12), st.data())
@settings(max_examples=30, deadline=None)
def test_a_total_is_the_sum(numbers: list[int], data: st.DataObject) -> None:
    async def add_up(directory: Path) -> None:
        bench = StreamBench(directory)
        bench.open(allow_msg_counter=True)
        expected = 0
        for number in numbers:
            zeros = "0" * data.draw(st.integers(0, 3))
            sign = "-" if number < 0 else data.draw(st.sampled_from(["", "+"]))
            expected += number
            answer = await bench.ask("s.a", b"", header(Nats_Incr=f"{sign}{zeros}{abs(number)}"))
            assert answer["val"] == str(expected)
        await bench.close()

    asyncio.run(add_up(Path()))


async def test_a_full_disk_takes_back_what_it_added(tmp_path: Path) -> None:
    disk = FullDisk()
    bench = StreamBench(tmp_path, disk=disk)
    stream = bench.open(storage="file", allow_msg_counter=True)
    assert total(await bench.ask("s.a", b"", header(Nats_Incr="5"))) == 5
    disk.full = True
    assert (await bench.ask("s.a", b"", header(Nats_Incr="7")))["error"]["err_code"] == 10077
    disk.full = False
    async with asyncio.timeout(10):
        while "error" in (answer := await bench.ask("s.a", b"", header(Nats_Incr="1"))):
            await asyncio.sleep(0.01)  # the log tries again after a pause
    assert total(answer) == 6
    assert stream.log.get(stream.log.last_seq)[3] == b'{"val":"6"}'
    await bench.close()


async def test_an_increment_adds_to_what_is_last_now(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open(storage="file", allow_msg_counter=True)

    async def add(number: int, subject: str = "s.a") -> int:
        return total(await bench.ask(subject, b"", header(Nats_Incr=str(number))))

    assert [await add(1), await add(2), await add(5, "s.b"), await add(4)] == [1, 3, 5, 7]
    stream.log.remove(4)
    assert await add(10) == 13
    stream.log.append_message(b"s.a", b'{"val":"-100"}')
    assert [await add(1), await add(-1)] == [-99, -100]
    stream.log.purge(b"s.a", 0, 0)
    assert [await add(3), await add(1, "s.b")] == [3, 6]
    for _ in range(2):
        assert await add(99_999_999_999_999_999)
    assert [await add(2), await add(-2)] == [200_000_000_000_000_003, 200_000_000_000_000_001]
    await bench.close()


async def test_what_is_no_total_is_not_counted_from(tmp_path: Path) -> None:
    bodies = [b"", b"x", b"5", b"{", b'{"val":5}', b'["val"]', b'{"val":"5"} {}', b'{"val":{}}']
    taken = {b"{}": 0, b"null": 0, b'{"VAL":"3"}': 3, b'{ "val" : "-04" }': -4, b'{"val":"5x"}': 5, b'{"val":null}': 0}
    bench = StreamBench(tmp_path)
    for body in [*bodies, *taken]:
        log = MemoryLog(bench.tick)
        bench.start_stream(stream_config(allow_msg_counter=True), log)
        log.append_message(b"s.a", body)
        answer = await bench.ask("s.a", b"", header(Nats_Incr="1"))
        if body in taken:
            assert total(answer) == taken[body] + 1, body
        else:
            assert answer["error"]["err_code"] == 10172, body
        bench.stream.stop()
    await bench.close()


async def test_totals_are_there_after_a_kill(tmp_path: Path) -> None:
    server = jetbroker("-js", "-sd", str(tmp_path))
    with server:
        await count(server.url, "1", "2" * 30, create=True)
        server.kill()
    with server:
        assert await count(server.url, "1") == 1 + int("2" * 30) + 1
    with server:
        assert await count(server.url, "-1") == 1 + int("2" * 30)


async def count(url: str, *values: str, create: bool = False) -> int:
    nc = await nats.connect(url, allow_reconnect=False)
    publisher = Publisher(nc)
    await publisher.start()
    if create:
        config = {"name": "S0", "subjects": ["s.>"], "allow_msg_counter": True}
        await publisher.api("STREAM.CREATE.S0", config)
    for value in values:
        answer, _ = await publisher.ask(Publish("s.a", (("Nats-Incr", value),)))
    await nc.close()
    return total(json.loads(answer))


async def test_sources_show_what_they_cannot_count(broker: ServerProcess) -> None:
    async with connected(broker.url) as streams:
        await plain_origin(streams)
        info = await streams.until("S", lambda info: "error" in info.get("sources", [{}])[0])
        assert info["sources"][0]["error"]["err_code"] == 10169
        assert info["state"]["messages"] == 0
        for name in ("S", "A"):
            await streams.api(f"STREAM.DELETE.{name}")


async def plain_origin(streams: Streams) -> None:
    await streams.create("A", subjects=["a"])
    await streams.publish("a", "1")
    await streams.create("S", sources=[{"name": "A"}], subjects=["own"], allow_msg_counter=True)
