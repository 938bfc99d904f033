"""Subjects that are transformed before anything is stored: what routes keep of them, and updates under load."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jetbroker.jetstream.api.pages import subjects_page
from tests.support.streams import StreamBench, stream_config


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[StreamBench]:
    made = StreamBench(tmp_path)
    yield made
    await made.close()


def transform(src: str, dest: str) -> dict[str, dict[str, str]]:
    return {"subject_transform": {"src": src, "dest": dest}}


async def subjects(bench: StreamBench) -> dict[str, int]:
    await bench.settle()
    found, _ = await subjects_page(bench.stream, ">", 0, 100)
    return found


@pytest.mark.parametrize("storage", ["memory", "file"])
async def test_the_same_subject_again_and_again(bench: StreamBench, storage: str) -> None:
    bench.open(storage=storage, **transform("s.*", "t.{{wildcard(1)}}"))
    for _ in range(5):
        for subject in ("s.a", "s.b", "s.a.b"):
            bench.publish(subject)
    assert await subjects(bench) == {"s.a.b": 5, "t.a": 5, "t.b": 5}


async def test_two_subjects_become_one(bench: StreamBench) -> None:
    bench.open(max_msgs_per_subject=2, **transform("s.*", "t"))
    for number in range(6):
        assert (await bench.ask(f"s.{number}"))["seq"] == number + 1
    assert await subjects(bench) == {"t": 2}
    assert bench.stream.log.first_seq == 5


async def test_random_partitions_are_chosen_anew(bench: StreamBench) -> None:
    bench.open(**transform("s.*", "t.{{random(4)}}"))
    for _ in range(200):
        bench.publish("s.a")
    assert set(await subjects(bench)) == {"t.0", "t.1", "t.2", "t.3"}


async def test_an_update_holds_for_the_next_message(bench: StreamBench) -> None:
    stream = bench.open(storage="file")
    for settings in ({}, transform("s.*", "t.$1"), transform("s.*", "u.$1"), {}):
        stream.apply_config(stream_config(storage="file", **settings))
        bench.publish("s.a")
        bench.publish("s.a")
    assert await subjects(bench) == {"s.a": 4, "t.a": 2, "u.a": 2}


async def test_interest_is_asked_for_the_stored_subject(bench: StreamBench) -> None:
    from tests.support.consumers import ConsumerBench

    consumers = ConsumerBench(bench.directory)
    consumers.open(retention="interest", **transform("s.*", "t.{{wildcard(1)}}"))
    consumers.consumer("c", filter_subject="t.a")
    await consumers.fill("s.a", "s.b", "s.a")
    assert await subjects(consumers) == {"t.a": 2}
    await consumers.close()


async def test_a_result_without_any_token_keeps_the_subject(bench: StreamBench) -> None:
    bench.open(**transform("s.*", "{{split(1,-)}}"))
    bench.publish("s.-")
    bench.publish("s.a-b")
    assert await subjects(bench) == {"a.b": 1, "s.-": 1}
