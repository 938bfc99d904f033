"""Publishing into a stream: every check, text and order as nats-server 2.14.5 was seen to answer.

`publish_cases.json` and `direct_cases.json` hold what it answered to the same input (direct gets: of a memory
stream; its file streams answer "No Results" to an up_to_seq behind the end).
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.streams import Answer, StreamBench

HERE = Path(__file__).parent
PUBLISH_CASES = json.loads((HERE / "publish_cases.json").read_text())
DIRECT_CASES = json.loads((HERE / "direct_cases.json").read_text())
STORAGES = ["memory", "file"]
SILENCE = "(silence)"


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[StreamBench]:
    made = StreamBench(tmp_path)
    yield made
    await made.close()


async def answers_of(bench: StreamBench, publishes: list[list[str]]) -> list[str]:
    """The answers in order; a publish that was committed without one is silent."""
    queues = []
    for subject, headers, payload in publishes:
        queues.append(bench.send(subject, payload.encode(), headers.encode()))
        await bench.settle()
        await asyncio.sleep(0)
    return [queue.get_nowait()[1].decode() if queue.qsize() else SILENCE for queue in queues]


def stored_messages(stream: Any) -> list[list[Any]]:
    found = []
    for seq in range(max(stream.log.first_seq, 1), stream.log.last_seq + 1):
        result, subject, headers, _payload, _time = stream.log.get(seq)
        if result == 0:
            found.append([seq, subject.decode(), base64.b64encode(headers).decode()])
    return found


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("case", PUBLISH_CASES, ids=lambda case: case["name"])
async def test_a_publish_is_answered_as_by_nats_server(bench: StreamBench, case: dict[str, Any], storage: str) -> None:
    stream = bench.open(**{"storage": storage, "allow_direct": True, **case["config"]})
    expected = case.get("expected") or case[f"expected_{storage}"]
    assert await answers_of(bench, case["publishes"]) == expected["replies"]
    state = stream.state(deleted_details=True)
    del state["first_ts"], state["last_ts"]
    assert list(state.items()) == list(expected["state"].items())
    assert stored_messages(stream) == expected["messages"]


async def test_headers_above_64_kib_are_refused_but_the_size_limit_comes_first(bench: StreamBench) -> None:
    bench.open(max_msg_size=70_000)
    block = b"NATS/1.0\r\nA: %s\r\n\r\n"
    assert (await bench.ask("s.a", b"1", block % (b"b" * 65_600)))["error"]["err_code"] == 10097
    assert (await bench.ask("s.a", b"1" * 10_000, block % (b"b" * 65_600)))["error"]["err_code"] == 10054
    fits = 65_535 - len(block % b"")
    assert (await bench.ask("s.a", b"1", block % (b"b" * fits)))["seq"] == 1
    assert (await bench.ask("s.a", b"1", block % (b"b" * (fits + 1))))["error"]["err_code"] == 10097


async def test_the_domain_stands_in_acks_but_not_in_errors(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path, domain="hub")
    bench.open(max_msgs=1, discard="new")
    assert (await bench.send("s.a").get())[1] == b'{"stream":"S","domain":"hub","seq":1}'
    refusal = (await bench.send("s.a").get())[1]
    assert refusal == (
        b'{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},"stream":"S","seq":0}'
    )
    await bench.close()


async def test_a_sealed_stream_refuses(bench: StreamBench) -> None:
    stream = bench.open()
    await bench.ask("s.a")
    stream.config.sealed = True
    stream.apply_config(stream.config)
    assert (await bench.ask("s.a"))["error"]["err_code"] == 10109
    assert stream.log.last_seq == 1


# --- direct get ---


def as_recorded(answer: Answer) -> list[Any]:
    """[headers without the timestamp, payload, had a timestamp]"""
    first, *lines = answer[0].decode().split("\r\n")
    headers: dict[Any, Any] = {}
    if first[8:].strip():
        headers["Status"], headers["Description"] = first[8:].strip().split(" ", 1)
    headers |= dict(line.split(": ", 1) for line in lines if line)
    timestamp = headers.pop("Nats-Time-Stamp", None)
    return [headers, answer[1].decode(), timestamp is not None]


async def open_for_direct_get(bench: StreamBench, storage: str) -> Any:
    stream = bench.open(name="D", subjects=["a.>", "b.>", "h.>"], storage=storage, allow_direct=True)
    for subject in ("a.1", "a.2", "a.1", "b.1", "a.1", "a.2"):
        await bench.ask(subject, b"payload-" + subject.encode())
    await bench.ask("h.1", b"hh", b"NATS/1.0\r\nX: y\r\n\r\n")
    stream.delete_message(3)
    return stream


@pytest.mark.parametrize("storage", STORAGES)
async def test_direct_gets_are_answered_as_by_nats_server(bench: StreamBench, storage: str) -> None:
    await open_for_direct_get(bench, storage)
    for case in DIRECT_CASES:
        queue = bench.send("$JS.API.DIRECT.GET.D" + case["suffix"], case["body"].encode())
        answers = [as_recorded(await asyncio.wait_for(queue.get(), 5)) for _ in case["answers"]]
        assert answers == case["answers"], case
        assert queue.empty(), case


async def test_a_large_batch_comes_whole_and_in_order(bench: StreamBench) -> None:
    bench.open(allow_direct=True, storage="memory")
    for i in range(3_000):
        bench.publish("s.a", b"%d" % i)
    await bench.settle()
    queue = bench.send("$JS.API.DIRECT.GET.S", b'{"seq":1,"batch":5000}')
    answers = [await asyncio.wait_for(queue.get(), 5) for _ in range(3_001)]
    assert [payload for _, payload in answers[:-1]] == [b"%d" % i for i in range(3_000)]
    assert answers[-1][0].startswith(b"NATS/1.0 204 EOB\r\nNats-Num-Pending: 0\r\nNats-Last-Sequence: 3000\r\n")


async def test_a_too_high_api_level_is_refused(bench: StreamBench) -> None:
    await open_for_direct_get(bench, "memory")
    queue = bench.send("$JS.API.DIRECT.GET.D.a.1", b"", b"NATS/1.0\r\nNats-Required-Api-Level: 5\r\n\r\n")
    assert (await asyncio.wait_for(queue.get(), 5))[0] == b"NATS/1.0 412 Required Api Level\r\n\r\n"


async def test_too_many_subjects_are_refused(bench: StreamBench) -> None:
    bench.open(allow_direct=True)
    for i in range(1_025):
        bench.publish(f"s.{i}")
    await bench.settle()
    queue = bench.send("$JS.API.DIRECT.GET.S", b'{"multi_last":["s.*"]}')
    assert (await asyncio.wait_for(queue.get(), 5))[0] == b"NATS/1.0 413 Too Many Results\r\n\r\n"


def resident_bytes() -> int:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_a_burst_of_acks_gives_its_memory_back(bench: StreamBench) -> None:
    stream = bench.open(storage="file")
    count, reply = 60_000, b"r" * 1000
    for _ in range(count):
        bench.router.publish_bytes(b"s.a", reply, b"", b"")
    waiting = resident_bytes()
    await bench.settle()
    assert stream.log.committed == count
    assert waiting - resident_bytes() > count * len(reply) // 2
