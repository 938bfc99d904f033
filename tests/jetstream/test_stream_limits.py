"""A stream's limits against a simple model: which sequences are live, and what each publish is answered."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jetbroker import limits
from jetbroker.jetstream.api import pages
from jetbroker.store.log.memlog import MemoryLog
from tests.support.streams import StreamBench, stream_config

FIXED_COST = {"memory": 16, "file": 30}
SUBJECTS = ["s.a", "s.b", "s.ccc"]


@dataclass
class Model:
    """What nats-server does, written for clarity: a list of (seq, subject, cost)."""

    config: dict[str, Any]
    live: list[tuple[int, str, int]] = field(default_factory=list)
    last_seq: int = 0
    ids: dict[str, int] = field(default_factory=dict)

    def publish(self, subject: str, size: int, msg_id: str | None, rollup: str | None) -> int | str:
        """The sequence, or the text of the refusal. A duplicate gives its first sequence."""
        headers = 0
        if msg_id is not None or rollup is not None:
            headers = len(headers_of(msg_id, rollup))
        if msg_id is not None and msg_id in self.ids:
            return self.ids[msg_id]
        cost = FIXED_COST[self.config["storage"]] + len(subject) + size + headers
        cost += 4 if headers and self.config["storage"] == "file" else 0
        if self.config["discard"] == "new":
            refusal = self._refusal(subject, cost, rollup is not None)
            if refusal:
                return refusal
        self.last_seq += 1
        self.live.append((self.last_seq, subject, cost))
        if msg_id is not None:
            self.ids[msg_id] = self.last_seq
        stored_at = self.last_seq
        self._trim(subject)
        if rollup == "sub":
            self.live = [entry for entry in self.live if entry[1] != subject or entry[0] == stored_at]
        elif rollup == "all":
            self.live = [entry for entry in self.live if entry[0] == stored_at]
        return stored_at

    def _refusal(self, subject: str, cost: int, rolls_up: bool) -> str:
        of_subject = [entry for entry in self.live if entry[1] == subject]
        full = 0 < self.config["max_msgs_per_subject"] <= len(of_subject)
        if full and self.config["discard_new_per_subject"] and not rolls_up:
            return "maximum messages per subject exceeded"
        if 0 < self.config["max_msgs"] <= len(self.live) and not full:
            return "maximum messages exceeded"
        if self.config["max_bytes"] > 0 and self.bytes + cost > self.config["max_bytes"]:
            if not full or of_subject[0][2] < cost:
                return "maximum bytes exceeded"
        return ""

    def _trim(self, subject: str) -> None:
        of_subject = [entry for entry in self.live if entry[1] == subject]
        if 0 < self.config["max_msgs_per_subject"] < len(of_subject):
            self.live.remove(of_subject[0])
        if self.config["discard"] == "old":
            while 0 < self.config["max_msgs"] < len(self.live):
                del self.live[0]
            while 0 < self.config["max_bytes"] < self.bytes:
                del self.live[0]

    @property
    def bytes(self) -> int:
        return sum(entry[2] for entry in self.live)


def headers_of(msg_id: str | None, rollup: str | None) -> bytes:
    lines = [f"Nats-Msg-Id: {msg_id}\r\n" if msg_id else "", f"Nats-Rollup: {rollup}\r\n" if rollup else ""]
    return f"NATS/1.0\r\n{''.join(lines)}\r\n".encode() if any(lines) else b""


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    limit = st.sampled_from([-1, 1, 2, 3])
    per_subject = draw(limit)
    discard = draw(st.sampled_from(["old", "new"]))
    return {
        "storage": draw(st.sampled_from(["memory", "file"])),
        "max_msgs": draw(limit),
        "max_bytes": draw(st.sampled_from([-1, 60, 100, 200])),
        "max_msgs_per_subject": per_subject,
        "discard": discard,
        "discard_new_per_subject": discard == "new" and per_subject > 0 and draw(st.booleans()),
        "allow_rollup_hdrs": True,
    }


PUBLISHES = st.lists(
    st.tuples(
        st.sampled_from(SUBJECTS),
        st.integers(0, 60),
        st.sampled_from([None, None, None, "x", "y"]),
        st.sampled_from([None, None, None, None, "sub", "all"]),
    ),
    max_size=25,
)


async def play(config: dict[str, Any], publishes: list[tuple[str, int, str | None, str | None]], path: Path) -> None:
    """Publish all at once, then compare answers and what is left."""
    bench = StreamBench(path, interval=60.0)
    try:
        stream = bench.open(**config)
        model = Model(config)
        expected = [model.publish(*publish) for publish in publishes]
        queues = [bench.send(s, b"x" * size, headers_of(msg_id, rollup)) for s, size, msg_id, rollup in publishes]
        await bench.settle()
        await asyncio.sleep(0)
        answers = [bench.answer_json(queue) for queue in queues]
        assert [a["error"]["description"] if "error" in a else a["seq"] for a in answers] == expected
        live = [seq for seq in range(1, stream.log.last_seq + 1) if stream.log.get(seq)[0] == 0]
        assert live == [seq for seq, _, _ in model.live]
        assert stream.log.bytes == model.bytes
        assert stream.state()["messages"] == len(model.live)
        assert stream.log.last_seq == model.last_seq
        for subject in SUBJECTS:
            of_subject = [seq for seq, of, _ in model.live if of == subject]
            assert stream.log.last_by_subject(subject.encode()) == (of_subject[-1] if of_subject else 0)
    finally:
        await bench.close()


@settings(max_examples=150, deadline=None)
@given(configs(), PUBLISHES)
def test_limits_keep_what_the_model_keeps(
    config: dict[str, Any], publishes: list[tuple[str, int, str | None, str | None]]
) -> None:
    with TemporaryDirectory() as directory:
        asyncio.run(play(config, publishes, Path(directory)))


@pytest.mark.parametrize("storage", ["memory", "file"])
async def test_stricter_limits_hold_at_once(tmp_path: Path, storage: str) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open(storage=storage)
    for i in range(10):
        bench.publish(f"s.{i % 2}")
    await bench.settle()
    stream.config.max_msgs_per_subject = 3
    stream.apply_config(stream.config)
    assert (stream.log.messages, stream.log.first_seq) == (6, 5)
    stream.config.max_msgs = 2
    stream.apply_config(stream.config)
    assert (stream.log.messages, stream.log.first_seq) == (2, 9)
    await bench.close()


async def test_with_discard_new_stored_messages_stay_under_a_lower_limit(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open()
    for _ in range(5):
        bench.publish("s.a", b"x" * 50)
    await bench.settle()
    stream.config.discard = "new"
    stream.config.max_bytes = 100
    stream.apply_config(stream.config)
    assert stream.log.messages == 5
    assert (await bench.ask("s.a"))["error"]["description"] == "maximum bytes exceeded"
    await bench.close()


async def test_with_discard_new_a_lower_limit_per_subject_removes_messages(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open()
    for subject in ("s.a", "s.b", "s.a", "s.a"):
        bench.publish(subject, b"x")
    await bench.settle()
    stream.config.discard = "new"
    stream.config.max_msgs_per_subject = 1
    stream.apply_config(stream.config)
    assert (stream.log.messages, stream.log.first_seq) == (2, 2)
    await bench.close()


async def test_streams_of_one_account_do_not_exceed_its_limit_together(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    bench.usage.limits.max_memory = 100_000
    for name in ("S", "T", "U"):
        bench.start_stream(stream_config(name=name, subjects=[name.lower()]), MemoryLog(bench.tick))
    for number in range(3000):
        bench.publish("stu"[number % 3], b"x" * 80)
        bench.publish("s", b"x" * (number % 300))
        assert bench.usage.used_bytes("memory") <= 100_000
    assert bench.usage.used_bytes("memory") > 99_900
    await bench.close()


async def test_publishes_that_the_disk_does_not_keep_up_with_are_refused_and_told(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    bench.open(storage="file")
    piece = 8 * 1024 * 1024
    for _ in range(limits.JS_UNCOMMITTED_BYTES // piece):
        bench.publish("s.a", b"x" * piece)
    assert (await bench.ask("s.a", b"x"))["error"]["err_code"] == 10167
    assert bench.warnings == [
        "Dropping messages due to excessive stream ingest rate on '$G' > 'S': IPQ size limit reached"
    ]
    await bench.close()


async def test_an_account_limit_refuses_what_does_not_fit(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    bench.usage.limits.max_memory = 1_000
    stream = bench.open()
    accepted = 0
    while "error" not in (answer := await bench.ask("s.a", b"x" * 80)):
        accepted += 1
    assert answer["error"]["err_code"] == 10002
    assert accepted == 1_000 // (16 + 3 + 80)
    # something smaller may still fit
    assert "seq" in await bench.ask("s.a", b"")
    stream.purge()
    assert "seq" in await bench.ask("s.a", b"x" * 80)
    await bench.close()


@pytest.mark.parametrize("storage", ["memory", "file"])
async def test_a_file_stream_takes_no_message_that_is_larger_than_a_record(tmp_path: Path, storage: str) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open(storage=storage, allow_atomic=True, max_msg_size=2**31 - 1)
    most = limits.JS_RECORD_BYTES - FIXED_COST["file"] - len("s.a")
    committed = b"NATS/1.0\r\nNats-Batch-Id: b\r\nNats-Batch-Sequence: 1\r\nNats-Batch-Commit: 1\r\n\r\n"
    for headers in (b"", b"NATS/1.0\r\nA: b\r\n\r\n", headers_of("id", None), committed):
        fits = most - len(headers) - (4 if headers else 0)
        answer = await bench.ask("s.a", bytes(fits + 1), headers)
        code = answer.get("error", {}).get("err_code")
        assert code == (None if storage == "memory" else 10176 if headers is committed else 10077)
        stream.purge()
        assert "error" not in await bench.ask("s.a", bytes(fits), headers.replace(b"id", b"ok"))
        stream.purge()
    stream.config.max_msg_size = 5
    stream.apply_config(stream.config)
    assert (await bench.ask("s.a", bytes(6)))["error"]["err_code"] == 10054
    assert (await bench.ask("s.a", bytes(most + 1)))["error"]["err_code"] == (10077 if storage == "file" else 10054)
    assert (await bench.ask("s.a", bytes(5)))["stream"] == "S"
    await bench.close()


async def test_a_full_server_refuses(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    bench.usage.server.max_memory = 100
    bench.open()
    assert (await bench.ask("s.a", b"x" * 100))["seq"] == 1
    assert (await bench.ask("s.a"))["error"] == {
        "code": 503, "err_code": 10023, "description": "insufficient resources",
    }  # fmt: skip
    await bench.close()


async def test_the_last_message_of_a_subject_is_found_although_it_is_replaced_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = StreamBench(tmp_path)
    log = bench.open(max_msgs_per_subject=1).log
    await bench.ask("s.a", b"old")

    class Interrupted:
        async def rest(self) -> None:
            await bench.ask("s.a", b"new")

    monkeypatch.setattr(pages, "Turn", Interrupted)
    assert log.get(await pages.last_of(bench.stream, "s.a"))[3] == b"new"
    await bench.close()
