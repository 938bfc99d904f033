"""Many messages are removed in turns: others are served in between, and every count is right."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from jetbroker import limits
from jetbroker.jetstream.streams.removals import enforce_limits, purge
from jetbroker.turns import at_once
from tests.jetstream.test_turns import Peer
from tests.support import process
from tests.support.streams import StreamBench

SUBJECTS = 200
ROUNDS = 300
MESSAGES = SUBJECTS * ROUNDS


def call(peer: Peer, subject: str, body: object = None) -> dict[str, Any]:
    """One request's answer."""
    peer.kept = b""
    peer.ask(f"$JS.API.{subject}", b"" if body is None else json.dumps(body).encode())
    text = peer.until(b"}\r\n")
    peer.kept = b""
    answer: dict[str, Any] = json.loads(text[text.index(b"{") :])
    return answer


def publish(peer: Peer, subject: str, count: int = 1) -> None:
    peer.socket.sendall(b"PUB %s 1\r\nx\r\n" % subject.encode() * count)


def fill(peer: Peer, storage: str = "memory") -> None:
    """`s.0` to `s.199` in turn, 300 messages each."""
    call(peer, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], "storage": storage})
    for _ in range(ROUNDS):
        peer.socket.sendall(b"".join(b"PUB s.%d 1\r\nx\r\n" % number for number in range(SUBJECTS)))
    peer.ping()


@pytest.fixture(params=["memory", "file"])
def pair(broker: process.ServerProcess, request: pytest.FixtureRequest) -> Iterator[tuple[Peer, Peer]]:
    """Two connections, and the filled stream S."""
    asker, bystander = Peer(broker.port), Peer(broker.port)
    fill(asker, request.param)
    yield asker, bystander
    call(bystander, "STREAM.DELETE.S")
    asker.socket.close()
    bystander.socket.close()


def consumer(peer: Peer, name: str, **config: Any) -> None:
    body = {"stream_name": "S", "config": {"durable_name": name, "ack_policy": "explicit", **config}}
    assert "error" not in call(peer, f"CONSUMER.CREATE.S.{name}", body)


def pending(peer: Peer, name: str) -> int:
    number: int = call(peer, f"CONSUMER.INFO.S.{name}")["num_pending"]
    return number


async def in_turns(
    monkeypatch: pytest.MonkeyPatch, work: Coroutine[Any, Any, Any], meanwhile: Callable[[], Any]
) -> Any:
    """Do it with the shortest turns, `meanwhile` after each; returns what it returns, and how many turns it took."""
    monkeypatch.setattr(limits, "TURN_NS", 0)
    task = asyncio.create_task(work)
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        meanwhile()
        turns += 1
    return await task, turns


@pytest.mark.parametrize("storage", ["memory", "file"])
@pytest.mark.parametrize(("pattern", "keep"), [("s.*", 0), ("s.*", 100), ("", 0), ("", 100), (">", 100)])
async def test_a_purge_takes_turns_and_leaves_what_is_published_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storage: str, pattern: str, keep: int
) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open(storage=storage)
    log: Any = stream.log
    for number in range(10_000):
        log.append_message(b"s.%d" % (number % 50), b"x")

    def meanwhile() -> None:
        log.append_message(b"s.7", b"new")

    monkeypatch.setattr(limits, "JS_PURGED_AT_ONCE", 9_999)
    purged, turns = await in_turns(monkeypatch, purge(stream, pattern, 0, keep), meanwhile)
    assert purged == 10_000 - keep
    assert turns >= 10_000 // 512
    assert log.first_seq == 10_001 - keep
    assert log.messages == turns + keep == log.last_seq - 10_000 + keep
    await bench.close()


@pytest.mark.parametrize("limit", [{"max_msgs": 10}, {"max_bytes": 400}, {"max_msgs_per_subject": 1}])
async def test_lower_limits_take_turns_and_no_publish_pays_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: dict[str, int]
) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open()
    log: Any = stream.log
    for number in range(10_000):
        log.append_message(b"s.%d" % (number % 50), b"x")
    for name, value in limit.items():
        setattr(stream.config, name, value)
    at_once(stream.applying(stream.config))
    dearest = 0

    def meanwhile() -> None:
        nonlocal dearest
        before = log.messages
        bench.publish("s.7", b"x")
        dearest = max(dearest, before + 1 - log.messages)

    _, turns = await in_turns(monkeypatch, enforce_limits(stream), meanwhile)
    assert turns >= 9_000 // 512
    assert dearest <= 2
    assert log.last_seq == 10_000 + turns
    meanwhile()
    assert log.messages == {"max_msgs": 10, "max_bytes": 20, "max_msgs_per_subject": 50}[next(iter(limit))]
    await bench.close()


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ({"filter": "s.*.x"}, MESSAGES),
        ({"filter": "s.1"}, MESSAGES - ROUNDS),
        ({"filter": "s.1", "keep": 7}, MESSAGES - ROUNDS + 7),
        ({"filter": "s.1", "seq": SUBJECTS + 3}, MESSAGES - 2),
        ({"keep": 1001}, 1001),
        ({"keep": MESSAGES}, MESSAGES),
        ({"seq": 20_001}, MESSAGES - 20_000),
        ({"seq": MESSAGES + 1}, 0),
        ({}, 0),
    ],
)
def test_what_a_purge_removes_and_what_consumers_still_have(
    pair: tuple[Peer, Peer], body: dict[str, Any], left: int
) -> None:
    asker, bystander = pair
    consumer(asker, "all")
    consumer(asker, "one", filter_subject="s.1")
    consumer(asker, "late", filter_subject="s.1", deliver_policy="by_start_sequence", opt_start_seq=10_000)
    consumer(asker, "latest", filter_subject="s.*", deliver_policy="last_per_subject")
    answer = call(asker, "STREAM.PURGE.S", body)
    assert answer["purged"] == MESSAGES - left
    publish(bystander, "s.1")
    bystander.ping()
    told = {name: pending(bystander, name) for name in ("all", "one", "late", "latest")}
    fresh: dict[str, dict[str, Any]] = {
        "all": {},
        "one": {"filter_subject": "s.1"},
        "late": {"filter_subject": "s.1", "deliver_policy": "by_start_sequence", "opt_start_seq": 10_000},
    }
    for name, config in fresh.items():
        consumer(asker, f"fresh_{name}", **config)
        assert told[name] == pending(asker, f"fresh_{name}"), name
    assert told["all"] == left + 1
    if not left:
        assert told["latest"] == 1


@pytest.mark.parametrize("limit", [{"max_msgs": 10}, {"max_bytes": 400}, {"max_msgs_per_subject": 1}])
def test_lower_limits_of_a_stream_hold_when_the_update_is_answered(
    pair: tuple[Peer, Peer], limit: dict[str, int]
) -> None:
    asker, bystander = pair
    consumer(asker, "late", filter_subject="s.1", deliver_policy="by_start_sequence", opt_start_seq=10_000)
    config = call(asker, "STREAM.INFO.S")["config"] | limit
    asker.ask("$JS.API.STREAM.UPDATE.S", json.dumps(config).encode())
    for _ in range(3):
        publish(bystander, "s.1", 5)
        bystander.ping()
    assert b'"error"' not in asker.until(b"}\r\n")
    state = call(bystander, "STREAM.INFO.S")["state"]
    assert state["last_seq"] == MESSAGES + 15
    if "max_msgs" in limit:
        assert state["messages"] == 10
    elif "max_bytes" in limit:
        assert 300 < state["bytes"] <= 400
    else:
        assert state["messages"] == state["num_subjects"] == SUBJECTS
    consumer(asker, "fresh", filter_subject="s.1", deliver_policy="by_start_sequence", opt_start_seq=10_000)
    assert pending(asker, "late") == pending(asker, "fresh") > 0


@pytest.mark.parametrize("pings", [0, 1, 3])
def test_a_kill_in_the_middle_of_a_purge_leaves_the_newest(tmp_path: Path, pings: int) -> None:
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        asker, bystander = Peer(server.port), Peer(server.port)
        fill(asker, "file")
        asker.ask("$JS.API.STREAM.PURGE.S", b'{"filter":"s.*"}')
        for _ in range(pings):
            bystander.ping()
        was_answered = asker.has_heard(b"}\r\n")
        server.kill()
        server.start()
        state = call(Peer(server.port), "STREAM.INFO.S")["state"]
    assert state["last_seq"] == MESSAGES
    assert state["messages"] == MESSAGES - state["first_seq"] + 1
    assert not (was_answered and state["messages"])
