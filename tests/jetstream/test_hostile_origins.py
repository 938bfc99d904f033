"""An origin that means harm: what it answers, delivers and asks for is in range, or has no effect but an error."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from jetbroker.jetstream.sourcing.origin_answers import AnswerError, read_answer
from jetbroker.jetstream.sourcing.positions import last_positions
from jetbroker.routing.router import CallbackReceiver
from jetbroker.turns import at_once
from tests.jetstream.test_origin_life import ANSWER_SECONDS, KINDS, PlayedOrigin, open_stream, origin_of
from tests.jetstream.test_ttl import header
from tests.support.streams import StreamBench

BOUNDS = [2**53, 2**62 + 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1, 2**64, 10**5000]
GOOD: dict[str, Any] = {
    "name": "C",
    "delivered": {"stream_seq": 0},
    "num_pending": 0,
    "config": {"deliver_subject": "d", "ack_policy": "none"},
}
WRONG: list[Any] = [None, True, -1, 1.5, 1e308, "1", "9" * 5000, [], {}, [[]], {"a": 1}, 2**63, 2**64 - 1]


def changed(path: str, value: Any) -> bytes:
    answer = orjson.loads(orjson.dumps(GOOD))
    *way, last = path.split(".")
    at = answer
    for name in way:
        at = at[name]
    at[last] = value
    return orjson.dumps(answer)


@pytest.mark.parametrize("path", ["name", "delivered", "delivered.stream_seq", "num_pending", "config",
                                  "config.deliver_subject", "config.ack_policy"])  # fmt: skip
@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_answers_of_wrong_types_are_none(path: str, value: Any) -> None:
    is_text = isinstance(value, str) and path in ("name", "config.deliver_subject", "config.ack_policy")
    if is_text and len(value) < 200:
        return
    if is_text and path != "name":
        assert read_answer(changed(path, value))
        return
    with pytest.raises(AnswerError):
        read_answer(changed(path, value))


@pytest.mark.parametrize("name", ["", "a.b", "a b", "*", ">", "a\r\nPUB x 0", "n" * 300])
def test_a_consumer_cannot_have_any_name(name: str) -> None:
    with pytest.raises(AnswerError):
        read_answer(changed("name", name))


@pytest.mark.parametrize("body", [b"", b"x", b"null", b"[]", b"1", b'"a"', b"[" * 100_000, b"{}" + b" " * 300_000,
                                  b'{"error": 1}', b'{"error": []}', b'{"error": {"code": "x"}}',
                                  b'{"error": {"code": 1, "err_code": 99999999}}',
                                  b'{"error": {"code": 1, "description": 5}}'])  # fmt: skip
def test_what_is_no_answer(body: bytes) -> None:
    with pytest.raises(AnswerError):
        read_answer(body)


def test_errors_are_kept_short() -> None:
    error = read_answer(orjson.dumps({"error": {"code": 2**64 - 1, "err_code": 1, "description": "x" * 100_000}}))
    assert isinstance(error, dict)
    assert len(orjson.dumps(error)) < 1200


@pytest.mark.parametrize("kind", KINDS, ids=["mirror", "source"])
@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"error": []}', b'{"error": "x"}',
                                  changed("delivered.stream_seq", 2**64 - 1), changed("config.deliver_subject", ">"),
                                  changed("config.deliver_subject", "s.a")])  # fmt: skip
async def test_after_a_wrong_answer_it_is_asked_again(tmp_path: Path, kind: dict[str, Any], body: bytes) -> None:
    bench = StreamBench(tmp_path)
    origin = PlayedOrigin(bench)
    stream = open_stream(bench, kind)
    await origin.refuse(body)
    await origin.accept()
    origin.deliver(1, 1)
    assert stream.log.messages == 1
    await bench.close()


@pytest.mark.parametrize("kind", KINDS, ids=["mirror", "source"])
@pytest.mark.parametrize("number", BOUNDS, ids=lambda n: f"{n:.0e}" if n < 2**70 else "long")
async def test_numbers_of_deliveries_beyond_reach_do_no_harm(tmp_path: Path, kind: dict[str, Any], number: int) -> None:
    bench = StreamBench(tmp_path)
    origin = PlayedOrigin(bench)
    stream = open_stream(bench, kind)
    await origin.accept()
    router = bench.router
    text = "9" * 5000 if number > 2**64 else str(number)
    for place in range(5):
        numbers = ["1", "1", "1", "1700000000000000000", "0"]
        numbers[place] = text
        router.publish_bytes(origin.deliver_subject, f"$JS.ACK.O.C.{'.'.join(numbers)}".encode(), b"", b"x")
    for name in ("Nats-Last-Consumer", "Nats-Last-Stream", "Nats-Pending-Messages", "Nats-Pending-Bytes"):
        status = f"NATS/1.0 100 Idle Heartbeat\r\n{name}: {text}\r\n\r\n".encode()
        router.publish_bytes(origin.deliver_subject, None, status, b"")
    async with asyncio.timeout(ANSWER_SECONDS):
        while stream.log.messages < 2 or stream.log.failed is not None:
            if not origin.requests.empty():
                await origin.accept(delivered=min(stream.log.last_seq, stream.origins.all()[0].ingest.stream_seq))
            stand = stream.origins.all()[0].ingest
            origin.deliver(
                max(stand.stream_seq, stream.log.last_seq if "mirror" in kind else 0) + 1, stand.consumer_seq + 1
            )
            await asyncio.sleep(0)
    orjson.dumps(origin_of(stream))
    await bench.close()


async def test_only_flow_control_is_answered(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    origin = PlayedOrigin(bench)
    open_stream(bench, KINDS[0])
    await origin.accept()
    heard: list[bytes] = []
    bench.router.subscribe(CallbackReceiver(bench.tick, lambda subject, *rest: heard.append(subject)), b">")
    for subject in (b"$JS.API.STREAM.DELETE.S", b"s.a", b"$JS.FC.*", b"$JS.FC.a b", b"$JS.FC.>", b"$JS.FC..a"):
        status = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Consumer-Stalled: %b\r\n\r\n" % subject
        bench.router.publish_bytes(origin.deliver_subject, None, status, b"")
        if b" " not in subject:
            origin.ask_flow(subject)
    origin.ask_flow(b"$JS.FC.O.C.end")
    await origin.answers.get()
    assert [subject for subject in heard if subject != origin.deliver_subject] == [b"$JS.FC.O.C.end"]
    await bench.close()


@pytest.mark.parametrize("position", ["9" * 5000, "\u00b2", "-1", "18446744073709551615", "", "x"])
async def test_a_published_position_cannot_keep_a_stream_from_starting(tmp_path: Path, position: str) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open(storage="file")
    for value in (f"O {position} > >", f"O {position}"):
        await bench.ask("s.a", b"", header(Nats_Stream_Source=value))
    assert at_once(last_positions(stream.log, {"O > >"}, 0)) == {}
    await bench.ask("s.a", b"", header(Nats_Stream_Source="O 7 > > s.a"))
    assert at_once(last_positions(stream.log, {"O > >"}, 0)) == {"O > >": 7}
    await bench.close()


@pytest.mark.parametrize("storage", ["file", "memory"])
async def test_positions_are_found_beyond_a_gap_that_nobody_could_count_through(tmp_path: Path, storage: str) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open(storage=storage)
    await bench.ask("s.a", b"", header(Nats_Stream_Source="O 7 > > s.a"))
    stream.log.skip_to(2**52)
    await bench.ask("s.a", b"", header(A="b"))
    await bench.ask("s.a", b"x")
    steps = list(last_positions(stream.log, {"O > >", "P > >"}, 0))
    assert len(steps) <= 3
    assert at_once(last_positions(stream.log, {"O > >", "P > >"}, 0)) == {"O > >": 7}
    assert at_once(last_positions(stream.log, {"O > >"}, 1)) == {}
    await bench.close()
