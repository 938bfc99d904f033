"""Time to live of messages and delete markers: what nats-server 2.14.5 was seen to do with the same input."""

from __future__ import annotations

import asyncio
import errno
import time
from pathlib import Path
from typing import Any

import pytest

from jetbroker.jetstream.publish.ttl import ttl_seconds
from jetbroker.store.disk import ObservedDisk
from tests.support.streams import StreamBench

NEVER, NONE, INVALID = -1, 0, -2
MARKER = b"NATS/1.0\r\nNats-Marker-Reason: MaxAge\r\nNats-TTL: %ds\r\nNats-Rollup: sub\r\n\r\n"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("never", NEVER), ("NEVER", NEVER), ("Never", NEVER), ("", NONE), ("00", NONE), ("5", 5), ("05", 5), ("1s", 1),
        ("1500ms", 1), ("1.5s", 1), ("1h30m", 5400), ("+1s", 1), ("1000000us", 1), ("1000000µs", 1), (".5m", 30),
        ("2562047h", 2562047 * 3600), ("9223372036854775807", 2**63 - 1), ("0" * 5000 + "5", 5),
        ("9223372036854775808", INVALID), ("9" * 5000, INVALID), ("9" * 5000 + "s", INVALID),
        ("1." + "9" * 5000 + "s", 2), ("1s" * 5000, 5000), ("9223372036s9223372036s", INVALID),
        ("0", INVALID), ("+5", INVALID), ("-5", INVALID), ("-5s", INVALID), ("100ms", INVALID), ("0s", INVALID),
        ("1e3", INVALID), ("292y", INVALID), ("9999999999999h", INVALID), ("1d", INVALID), ("1us", INVALID),
        ("x", INVALID), ("s", INVALID), (".s", INVALID), ("1s ", INVALID), ("1.s2", INVALID), ("nevers", INVALID),
    ],
)  # fmt: skip
def test_values_of_the_header(text: str, seconds: int) -> None:
    assert ttl_seconds(text.encode()) == seconds


def header(**fields: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode()


def stored(stream: Any) -> list[tuple[int, str, bytes]]:
    """Sequence, subject and headers of every message."""
    found = []
    seq = 1
    while (message := stream.log.read_next(None, seq))[1]:
        found.append((message[1], message[2].decode(), message[3]))
        seq = message[1] + 1
    return found


async def until(stream: Any, messages: int, since: float = 0.0) -> float:
    """Wait for a number of messages; how many seconds after `since` (on the monotonic clock) that was."""
    async with asyncio.timeout(10):
        while stream.log.messages != messages:
            await asyncio.sleep(0.005)
    return time.monotonic() - since


@pytest.mark.parametrize("storage", ["memory", "file"])
async def test_messages_go_when_their_time_has_come(tmp_path: Path, storage: str) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open(storage=storage, allow_msg_ttl=True)
    last = 0.0
    for number in range(1000):
        last = time.monotonic()
        await_ack = bench.send(f"s.{number % 10}", b"x", header(Nats_TTL="1"))
        bench.publish("s.stays", b"x")
    bench.publish("s.later", b"x", header(Nats_TTL="1m"))
    await asyncio.wait_for(await_ack.get(), 5)
    assert stream.log.last_seq == 2001
    assert await until(stream, 1001, last) > 0.95
    assert {subject for _, subject, _ in stored(stream)} == {"s.stays", "s.later"}
    await bench.close()


async def test_a_marker_takes_the_place_of_the_only_message_of_a_subject(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open(storage="file", subject_delete_marker_ttl=2_000_000_000)
    for subject, fields in (
        ("s.a", {"Nats_TTL": "1"}),
        ("s.b", {"Nats_TTL": "1"}),
        ("s.b", {"Nats_TTL": "10"}),
        ("s.purged", {"Nats_TTL": "1", "KV_Operation": "PURGE"}),
        ("s.deleted", {"Nats_TTL": "1", "KV_Operation": "DEL"}),
        ("s.marked", {"Nats_TTL": "1", "Nats_Marker_Reason": "Foo"}),
        ("s.never", {"Nats_TTL": "never"}),
    ):
        assert "seq" in await bench.ask(subject, b"", header(**fields))
    # raised to the time a marker lives, and moved to the end
    assert stored(stream)[3] == (4, "s.purged", b"NATS/1.0\r\nKV-Operation: PURGE\r\nNats-TTL: 2\r\n\r\n")
    made = time.monotonic()
    await until(stream, 4)
    assert stored(stream) == [
        (3, "s.b", header(Nats_TTL="10")),
        (7, "s.never", header(Nats_TTL="never")),
        (8, "s.a", MARKER % 2),
        (9, "s.deleted", MARKER % 2),
    ]
    assert await until(stream, 2, made) > 1.95  # markers live for two seconds
    await bench.close()


async def test_one_message_per_subject_keeps_its_own_short_time(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open(subject_delete_marker_ttl=5_000_000_000, max_msgs_per_subject=1)
    await bench.ask("s.a", b"", header(Nats_TTL="1"))
    assert stored(stream) == [(1, "s.a", header(Nats_TTL="1"))]
    async with asyncio.timeout(10):
        while stored(stream) != [(2, "s.a", MARKER % 5)]:
            await asyncio.sleep(0.01)
    await bench.close()


async def test_max_age_spares_what_never_expires(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open(allow_msg_ttl=True, max_age=300_000_000, duplicate_window=100_000_000, storage="file")
    for number in range(3000):
        bench.publish(f"s.{number}", b"x", header(Nats_TTL="never") if number % 3 == 0 else b"")
    bench.publish("s.long", b"x", header(Nats_TTL="1h"))
    await until(stream, 1000)
    assert all(headers == header(Nats_TTL="never") for _, _, headers in stored(stream))
    again = time.monotonic()
    bench.publish("s.again", b"x")
    assert stream.log.messages == 1001
    assert await until(stream, 1000, again) > 0.25
    await bench.close()


async def test_a_full_stream_still_gets_its_markers(tmp_path: Path) -> None:
    """nats-server refuses the marker itself then, and keeps the message for ever."""
    bench = StreamBench(tmp_path)
    stream = bench.open(subject_delete_marker_ttl=1_000_000_000, max_msgs=2, discard="new")
    await bench.ask("s.a", b"", header(Nats_TTL="1"))
    await bench.ask("s.b", b"", header(Nats_TTL="1"))
    async with asyncio.timeout(10):
        while [subject for _, subject, headers in stored(stream) if headers == MARKER % 1] != ["s.a", "s.b"]:
            await asyncio.sleep(0.01)
    await until(stream, 0)
    await bench.close()


async def test_refusals(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open()
    for text, code in (("5", 10166), ("never", 10166), ("x", 10165), ("0", 10165)):
        assert (await bench.ask("s.a", b"", header(Nats_TTL=text)))["error"]["err_code"] == code
    for text in ("", "00"):
        assert "seq" in await bench.ask("s.a", b"", header(Nats_TTL=text))
    stream = bench.open(allow_msg_ttl=True)
    assert (await bench.ask("s.a", b"", header(Nats_TTL="100ms")))["error"]["err_code"] == 10165
    assert stream.log.messages == 0
    await bench.close()


async def test_removed_messages_leave_no_work_behind(tmp_path: Path) -> None:
    """Updates of one key with a long TTL: memory follows the messages there are, not those there were."""
    bench = StreamBench(tmp_path)
    stream = bench.open(allow_msg_ttl=True, max_msgs_per_subject=1)
    for _ in range(20_000):
        bench.publish("s.key", b"x", header(Nats_TTL="1h"))
    assert stream.log.messages == 1
    assert stream.waiting_for_expiry() < 1100
    await bench.close()


class FullDisk(ObservedDisk):
    """A disk that can be full: every write fails then."""

    full = False

    def before(self, call: str, path: str, size: int, offset: int) -> int | None:
        if self.full and call in ("write", "allocate") and path.endswith(".seg"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return None


async def test_a_marker_that_cannot_be_stored_comes_when_there_is_room(tmp_path: Path) -> None:
    """Until then the message stays: a watcher of the subject must not miss its end."""
    disk = FullDisk()
    bench = StreamBench(tmp_path, disk=disk)
    stream = bench.open(storage="file", subject_delete_marker_ttl=30_000_000_000, max_msgs_per_subject=1)
    assert "seq" in await bench.ask("s.a", b"x", header(Nats_TTL="1"))
    disk.full = True
    async with asyncio.timeout(5):
        while stream.log.failed is None:
            await asyncio.sleep(0.01)
    assert stored(stream) == [(1, "s.a", header(Nats_TTL="1"))]
    disk.full = False
    async with asyncio.timeout(10):
        while stored(stream) != [(2, "s.a", MARKER % 30)]:
            await asyncio.sleep(0.01)
    await stream.commit()
    await bench.close()
