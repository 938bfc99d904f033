"""The connection of a stream to one origin, which the test plays: order, gaps, flow control, errors, failed writes."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from itertools import accumulate
from pathlib import Path
from typing import Any

import orjson
import pytest

from jetbroker.forms.gotext import MILLISECOND
from jetbroker.jetstream.models.names import ORIGIN_POSITIONS
from jetbroker.jetstream.sourcing import origins, patience
from jetbroker.jetstream.sourcing.origins import Origins
from jetbroker.routing.router import CallbackReceiver
from jetbroker.store.store import Store
from tests.store.support import ACCOUNT, FaultyDisk
from tests.support.streams import StreamBench, stream_config

ANSWER_SECONDS = 10.0
NEVER_SECONDS = 3600.0
DAY_NS = 86_400 * 10**9


class PlayedOrigin:
    """Answers requests for consumers, and delivers what it is told to."""

    def __init__(self, bench: StreamBench, api: bytes = b"$JS.API") -> None:
        self.bench = bench
        self.requests: asyncio.Queue[tuple[str, bytes, dict[str, Any]]] = asyncio.Queue()
        self.answers: asyncio.Queue[tuple[bytes, bytes]] = asyncio.Queue()
        self.deliver_subject = b""
        for pattern, take in ((api + b".CONSUMER.>", self._asked), (b"$JS.FC.>", self._flow)):
            bench.router.subscribe(CallbackReceiver(bench.tick, take), pattern)

    def _asked(self, subject: bytes, reply: bytes | None, headers: bytes, payload: bytes, origin: object) -> None:
        if reply is not None:
            self.requests.put_nowait((subject.decode(), reply, orjson.loads(payload)["config"]))

    def _flow(self, subject: bytes, reply: bytes | None, headers: bytes, payload: bytes, origin: object) -> None:
        self.answers.put_nowait((subject, headers))

    async def accept(self, delivered: int = 0) -> dict[str, Any]:
        """Answer the next request; returns the configuration that was asked for."""
        _, reply, config = await asyncio.wait_for(self.requests.get(), ANSWER_SECONDS)
        answer = {"name": "C", "delivered": {"stream_seq": delivered}, "num_pending": 0, "config": config}
        self.bench.router.publish_bytes(reply, None, b"", orjson.dumps(answer))
        self.deliver_subject = config["deliver_subject"].encode()
        while not self.bench.router.interested(self.deliver_subject):
            await asyncio.sleep(0)
        return config

    async def refuse(self, error: dict[str, Any] | bytes) -> tuple[str, dict[str, Any]]:
        """Answer the next request with an error, or with these bytes; returns its subject and configuration."""
        subject, reply, config = await asyncio.wait_for(self.requests.get(), ANSWER_SECONDS)
        body = error if isinstance(error, bytes) else orjson.dumps({"error": error})
        self.bench.router.publish_bytes(reply, None, b"", body)
        return subject, config

    def deliver(
        self, stream_seq: int, consumer_seq: int, count: int = 1, payload: bytes = b"x", time_ns: int = 17 * 10**17
    ) -> None:
        reply = b"$JS.ACK.O.C.%d.%d.%d.%d.0" % (count, stream_seq, consumer_seq, time_ns)
        self.bench.router.publish_bytes(self.deliver_subject, reply, b"", payload)

    def heartbeat(self, consumer_seq: int) -> None:
        status = b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: %d\r\nNats-Last-Stream: 0\r\n\r\n" % consumer_seq
        self.bench.router.publish_bytes(self.deliver_subject, None, status, b"")

    def ask_flow(self, subject: bytes) -> None:
        status = b"NATS/1.0 100 FlowControl Request\r\n\r\n"
        self.bench.router.publish_bytes(self.deliver_subject, subject, status, b"")


KINDS: list[dict[str, Any]] = [{"mirror": {"name": "O"}, "subjects": []}, {"sources": [{"name": "O"}], "subjects": []}]


def open_stream(bench: StreamBench, kind: dict[str, Any]) -> Any:
    return bench.open(storage="file", **kind)


def origin_of(stream: Any) -> dict[str, Any]:
    info = stream.origins.info()
    found: dict[str, Any] = info["mirror"] if "mirror" in info else info["sources"][0]
    return found


@pytest.mark.parametrize("kind", KINDS, ids=["mirror", "source"])
async def test_an_origin_whose_clock_is_wrong_loses_nothing(tmp_path: Path, kind: dict[str, Any]) -> None:
    """A mirror shows its origin's times, but never an earlier one behind a later one; a stream with sources its own."""
    bench = StreamBench(tmp_path)
    origin = PlayedOrigin(bench)
    before = time.time_ns()
    stream = open_stream(bench, kind)
    await origin.accept()
    times = [before + DAY_NS, before - DAY_NS, 0, before + 2 * DAY_NS, before]
    for seq, time_ns in enumerate(times, 1):
        origin.deliver(seq, seq, payload=b"%d" % seq, time_ns=time_ns)
    shown = [stream.log.time_of(seq) for seq in range(1, 6)]
    if "mirror" in kind:
        assert shown == list(accumulate(times, max))
    else:
        assert before <= shown[0] <= shown[-1] < before + DAY_NS
    assert [stream.log.get(seq)[3] for seq in range(1, 6)] == [b"1", b"2", b"3", b"4", b"5"]
    await bench.close()


@pytest.mark.parametrize("kind", KINDS, ids=["mirror", "source"])
async def test_order(tmp_path: Path, kind: dict[str, Any]) -> None:
    bench = StreamBench(tmp_path)
    origin = PlayedOrigin(bench)
    stream = open_stream(bench, kind)
    first = await origin.accept()
    assert (first["deliver_policy"], first["direct"], first["sourcing"]) == ("all", True, True)
    assert (first["ack_policy"], first["flow_control"], first["idle_heartbeat"]) == ("none", True, 1_000_000_000)
    origin.deliver(1, 1)
    origin.deliver(1, 1, count=2)  # a redelivery
    origin.deliver(2, 2)
    origin.deliver(2, 3)  # old, but it counts
    origin.deliver(5, 4)  # 3 and 4 are gone at the origin
    origin.heartbeat(4)
    assert stream.log.messages == 3
    assert stream.log.last_seq == (5 if "mirror" in kind else 3)
    origin.deliver(9, 8)  # three deliveries are missing
    again = await origin.accept(delivered=5)
    assert (again["deliver_policy"], again["opt_start_seq"]) == ("by_start_sequence", 6)
    assert again["deliver_subject"] != first["deliver_subject"]
    origin.deliver(6, 1)
    origin.heartbeat(3)
    assert (await origin.accept(delivered=6))["opt_start_seq"] == 7
    assert stream.log.messages == 4
    await bench.close()


@pytest.mark.parametrize("kind", KINDS, ids=["mirror", "source"])
async def test_flow_control_is_answered_when_all_is_on_disk(tmp_path: Path, kind: dict[str, Any]) -> None:
    goes_on = threading.Event()

    def rule(call: str, path: str, size: int) -> int | None:
        if call == "fdatasync":
            goes_on.wait(ANSWER_SECONDS)
        return None

    goes_on.set()
    bench = StreamBench(tmp_path, disk=FaultyDisk(rule))
    origin = PlayedOrigin(bench)
    stream = open_stream(bench, kind)
    await origin.accept()
    origin.ask_flow(b"$JS.FC.O.C.none")
    assert await origin.answers.get() == (b"$JS.FC.O.C.none", b"")
    goes_on.clear()
    origin.deliver(4, 1)
    origin.ask_flow(b"$JS.FC.O.C.one")
    origin.heartbeat(1)
    for _ in range(20):
        await asyncio.sleep(0)
    assert origin.answers.empty() and stream.log.committed < stream.log.last_seq
    goes_on.set()
    subject, headers = await asyncio.wait_for(origin.answers.get(), ANSWER_SECONDS)
    assert subject == b"$JS.FC.O.C.one"
    assert headers == b"NATS/1.0\r\nNats-Last-Consumer: 1\r\nNats-Last-Stream: 4\r\n\r\n"
    assert stream.log.committed == stream.log.last_seq
    await bench.close()


@pytest.mark.parametrize("kind", KINDS, ids=["mirror", "source"])
async def test_what_could_not_be_written_is_asked_for_again(tmp_path: Path, kind: dict[str, Any]) -> None:
    is_full = False

    def rule(call: str, path: str, size: int) -> int | None:
        if is_full and call == "write":
            raise OSError(errno.ENOSPC, "No space left on device")
        return None

    bench = StreamBench(tmp_path, disk=FaultyDisk(rule))
    origin = PlayedOrigin(bench)
    stream = open_stream(bench, kind)
    await origin.accept()
    origin.deliver(1, 1)
    await stream.commit()
    is_full = True
    origin.deliver(2, 2)
    origin.deliver(3, 3)
    origin.ask_flow(b"$JS.FC.O.C.lost")
    asked = await origin.accept(delivered=1)
    assert asked["opt_start_seq"] == 2 and origin.answers.empty()
    is_full = False
    while stream.log.messages < 3:  # a failed log lets one append through to see whether writing works again
        start = asked["opt_start_seq"]
        for seq in range(start, 4):
            origin.deliver(seq, seq + 1 - start)
        if stream.log.messages < 3:
            asked = await origin.accept(delivered=start - 1)
    await stream.commit()
    assert (stream.log.messages, stream.log.last_seq) == (3, 3)
    await bench.close()


async def test_a_source_is_recorded_again_after_a_failed_write(tmp_path: Path) -> None:
    is_full = False

    def rule(call: str, path: str, size: int) -> int | None:
        if is_full and call == "write":
            raise OSError(errno.ENOSPC, "No space left on device")
        return None

    bench = StreamBench(tmp_path)
    origin = PlayedOrigin(bench)
    config = stream_config(storage="file", **KINDS[1])

    def opened() -> Store:
        return Store.open(str(tmp_path / "store"), bench.tick, segment_bytes=2000, disk=FaultyDisk(rule))

    def origins_of(stream: Any, positions: Any = None) -> Origins:
        return Origins(
            stream, positions, lambda: store.begin_consumer(ACCOUNT, stream.name, ORIGIN_POSITIONS, {}, 1, False)
        )

    store = opened()
    bench.make_origins = origins_of  # type: ignore[method-assign]
    stream = bench.start_stream(config, await store.create_stream(ACCOUNT, "S", config.to_json(), "file", 1))
    await origin.accept()
    origin.deliver(1, 1)
    await stream.commit()
    is_full = True
    for seq in range(2, 9):  # more than a segment takes, in one turn
        origin.deliver(seq, seq, payload=bytes(500))
    assert stream.log.failed is not None
    asked = await origin.accept(delivered=1)
    is_full = False
    while stream.log.messages < 8:
        start = asked["opt_start_seq"]
        for seq in range(start, 9):
            origin.deliver(seq, seq + 1 - start)
        if stream.log.messages < 8:
            asked = await origin.accept(delivered=start - 1)
    await bench.settle()
    stream.purge()  # only the record tells where the source stands
    await stream.commit()
    stream.stop()
    await store.close()
    store = opened()
    (found,) = store.recover(ACCOUNT)
    (positions,) = (entry.state_log for entry in found.consumers)
    bench.make_origins = lambda stream: origins_of(stream, positions)  # type: ignore[method-assign]
    bench.start_stream(config, found.log)
    assert (await origin.accept())["opt_start_seq"] == 9
    bench.stream.stop()
    await store.close()
    await bench.close()


async def test_answers_that_say_no(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    origin = PlayedOrigin(bench)
    stream = open_stream(bench, {"sources": [{"name": "O", "filter_subject": "a.*"}], "subjects": []})
    subject, config = await origin.refuse({"code": 412, "err_code": 10185, "description": "too new"})
    assert subject == f"$JS.API.CONSUMER.CREATE.O.{config['name']}.a.*"
    _, older = await origin.refuse({"code": 404, "err_code": 10059, "description": "stream not found"})
    assert "sourcing" not in older and older["name"].startswith(config["name"] + "_")
    while "error" not in origin_of(stream):
        await asyncio.sleep(0)
    assert origin_of(stream)["error"]["err_code"] == 10059 and origin_of(stream)["active"] == -1
    await origin.refuse(b"nothing")
    await origin.refuse(b'{"name": 5}')
    _, config = await origin.refuse({"code": 500, "err_code": 1, "description": "again"})
    assert config["sourcing"] is True
    await origin.accept()
    assert "error" not in origin_of(stream) and origin_of(stream)["active"] >= 0
    await bench.close()


@pytest.mark.parametrize("error", [10013, 10012, 10025, 10185])
async def test_an_older_origin_is_asked_for_a_consumer_of_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    monkeypatch.setattr(patience, "RETRY_SECONDS", NEVER_SECONDS)
    monkeypatch.setattr(patience, "LONGEST_RETRY_SECONDS", NEVER_SECONDS)
    bench = StreamBench(tmp_path)
    origin = PlayedOrigin(bench)
    open_stream(bench, KINDS[0])
    _, first = await origin.refuse({"code": 400, "err_code": error, "description": "older"})
    second = await origin.accept()
    assert second["name"].startswith(first["name"] + "_") and "sourcing" not in second
    await bench.close()


FORGED = "x 1 0\r\n\r\nMSG secret 7 5\r\nhello\r\nMSG t"


@pytest.mark.parametrize(
    "kind",
    [
        {"sources": [{"name": "O", "filter_subject": FORGED}]},
        {"mirror": {"name": FORGED, "external": {"api": "$JS.far.API", "deliver": ""}}},
    ],
    ids=["filter", "external mirror"],
)
async def test_nothing_is_asked_by_what_is_no_subject(tmp_path: Path, kind: dict[str, Any]) -> None:
    """An update may bring it, and a name beyond a link is not ours to judge; written out it could be more lines."""
    bench = StreamBench(tmp_path)
    heard: list[bytes] = []
    bench.router.subscribe(CallbackReceiver(bench.tick, lambda subject, *rest: heard.append(subject)), b"$JS.>")
    stream = open_stream(bench, {"subjects": [], **kind})
    async with asyncio.timeout(ANSWER_SECONDS):
        while "error" not in origin_of(stream):
            await asyncio.sleep(0.01)
    assert origin_of(stream)["error"]["description"].endswith("no response from the origin")
    assert heard == []
    await bench.close()


async def test_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "ANSWER_SECONDS", 0.01)
    monkeypatch.setattr(origins, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(origins, "SILENT_NS", 10 * MILLISECOND)
    bench = StreamBench(tmp_path)
    origin = PlayedOrigin(bench)
    stream = open_stream(bench, {"mirror": {"name": "O"}, "subjects": []})
    await asyncio.wait_for(origin.requests.get(), ANSWER_SECONDS)  # never answered
    monkeypatch.setattr(patience, "ANSWER_SECONDS", ANSWER_SECONDS)  # the next ones are
    await origin.accept()
    origin.deliver(1, 1)
    assert (await origin.accept(delivered=1))["opt_start_seq"] == 2
    stream.stop()
    assert not bench.router.interested(origin.deliver_subject)
    await bench.close()


FAR: dict[str, Any] = {"name": "O", "external": {"api": "$JS.far.API", "deliver": ""}}
FAR_KINDS: list[dict[str, Any]] = [{"mirror": FAR, "subjects": []}, {"sources": [FAR], "subjects": []}]


def wait_for_links_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No origin is tried again, or is silent for too long, by the passing of time."""
    for name in ("RETRY_SECONDS", "LONGEST_RETRY_SECONDS", "LONGEST_UNHEARD_SECONDS", "ANSWER_SECONDS"):
        monkeypatch.setattr(patience, name, NEVER_SECONDS)
    monkeypatch.setattr(patience, "LONGEST_ANSWER_SECONDS", NEVER_SECONDS)
    monkeypatch.setattr(origins, "CHECK_SECONDS", NEVER_SECONDS)


async def until_unreached(stream: Any) -> None:
    while "error" not in origin_of(stream):
        await asyncio.sleep(0.001)
    assert origin_of(stream)["error"]["description"] == "no response from the origin"


@pytest.mark.parametrize("kind", FAR_KINDS, ids=["mirror", "source"])
async def test_a_link_that_comes_has_unreached_origins_tried_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any]
) -> None:
    wait_for_links_only(monkeypatch)
    bench = StreamBench(tmp_path)
    stream = open_stream(bench, kind)
    await until_unreached(stream)
    origin = PlayedOrigin(bench, b"$JS.far.API")
    stream.origins.links_changed()
    await origin.accept()
    assert "error" not in origin_of(stream)
    origin.deliver(1, 1)
    assert stream.log.messages == 1
    await bench.close()


async def test_an_unreached_origin_is_tried_again_without_being_told(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    stream = open_stream(bench, FAR_KINDS[0])
    await until_unreached(stream)
    await PlayedOrigin(bench, b"$JS.far.API").accept()
    await bench.close()


@pytest.mark.parametrize("kind", FAR_KINDS, ids=["mirror", "source"])
async def test_an_origin_that_a_link_left_silent_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any]
) -> None:
    wait_for_links_only(monkeypatch)
    monkeypatch.setattr(patience, "LONGEST_UNHEARD_SECONDS", 0.01)
    monkeypatch.setattr(origins, "DOUBTFUL_NS", 10 * MILLISECOND)
    bench = StreamBench(tmp_path)
    origin = PlayedOrigin(bench, b"$JS.far.API")
    stream = open_stream(bench, kind)
    await origin.accept()
    origin.deliver(1, 1)
    stream.origins.links_changed()
    assert (await origin.accept(delivered=1))["opt_start_seq"] == 2
    await bench.close()


async def test_a_request_that_went_with_its_link_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wait_for_links_only(monkeypatch)
    bench = StreamBench(tmp_path)
    origin = PlayedOrigin(bench, b"$JS.far.API")
    stream = open_stream(bench, FAR_KINDS[0])
    first = (await asyncio.wait_for(origin.requests.get(), ANSWER_SECONDS))[2]
    stream.origins.links_changed()  # so soon the answer may be on its way
    monkeypatch.setattr(origins, "LOST_SECONDS", 0.0)
    await asyncio.sleep(0.01)
    assert origin.requests.empty()
    stream.origins.links_changed()
    assert (await origin.accept())["deliver_subject"] != first["deliver_subject"]
    await bench.close()


async def test_no_responders_are_no_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wait_for_links_only(monkeypatch)
    bench = StreamBench(tmp_path)
    origin = PlayedOrigin(bench, b"$JS.far.API")
    stream = open_stream(bench, FAR_KINDS[0])
    _, reply, _ = await asyncio.wait_for(origin.requests.get(), ANSWER_SECONDS)
    bench.router.publish_bytes(reply, None, b"NATS/1.0 503\r\n\r\n", b"")
    await until_unreached(stream)
    await bench.close()


async def test_origins_in_the_account_do_not_care_for_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wait_for_links_only(monkeypatch)
    bench = StreamBench(tmp_path)
    stream = open_stream(bench, KINDS[0])
    await until_unreached(stream)
    origin = PlayedOrigin(bench)
    stream.origins.links_changed()
    await asyncio.sleep(0.01)
    assert origin.requests.empty()
    await bench.close()
