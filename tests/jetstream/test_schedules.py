"""Message schedules: what they make and when, and what is left of them after failures and restarts."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from jetbroker.forms.gotext import format_time
from jetbroker.jetstream.publish import schedule_headers, schedules
from jetbroker.jetstream.publish.schedule_patterns import EARLIEST, NEVER_DUE, Cron, load_zone, parse_pattern
from jetbroker.store.store import Store
from tests.jetstream.test_ttl import FullDisk, header, stored
from tests.support.streams import StreamBench, stream_config

SECOND = 1_000_000_000
YEARS = " ".join([",".join(["0-59/7"] * 3000), "* * * * *"])  # a long pattern
FIELDS: dict[str, Any] = {"allow_msg_schedules": True, "storage": "file"}


def ns(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * SECOND


def soon(seconds: float = 0.2) -> str:
    return "@at " + format_time(time.time_ns() + int(seconds * SECOND))


def schedule(pattern: str, **more: str) -> bytes:
    return header(**{"Nats_Schedule": pattern, "Nats_Schedule_Target": "s.t", **more})


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.005)


# --- patterns ---


@pytest.mark.parametrize(
    ("text", "zone", "since", "expected"),
    [
        ("* * * * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"),
        ("0 0 * * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"),
        ("59 59 23 31 12 *", "UTC", "2026-12-31T23:59:59Z", "2027-12-31T23:59:59Z"),
        ("0 0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("0 0 0 29 2 *", "UTC", "2097-01-01T00:00:00Z", ""),  # 2100 has none, 2104 is too far
        ("0 0 0 30 2 *", "UTC", "2026-01-01T00:00:00Z", ""),
        ("*/20 * * * * *", "UTC", "2026-01-01T00:00:41Z", "2026-01-01T00:01:00Z"),
        ("10/20 * * * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T00:00:10Z"),
        ("0 0 12 13 * fri", "UTC", "2026-01-01T00:00:00Z", "2026-01-02T12:00:00Z"),  # one of the two
        ("0 0 12 * * fri", "UTC", "2026-01-03T00:00:00Z", "2026-01-09T12:00:00Z"),
        ("0 0 12 */2 * fri", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T12:00:00Z"),
        ("0 0 12 1-7 * mon", "UTC", "2026-01-08T00:00:00Z", "2026-01-12T12:00:00Z"),
        ("@weekly", "UTC", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
        ("@monthly", "Asia/Kathmandu", "2026-01-01T00:00:00Z", "2026-01-31T18:15:00Z"),
        ("0 30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"),  # the clocks skip it
        ("0 30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"),
        ("0 30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),  # and come to it again
        ("0 30 2 * * *", "Europe/Berlin", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"),
        ("0 0 0 * * *", "America/Havana", "2026-03-08T00:00:00Z", "2026-03-09T04:00:00Z"),  # a day without midnight
        ("0 15 * * * *", "Australia/Lord_Howe", "2026-04-04T14:00:00Z", "2026-04-04T14:15:00Z"),
        ("0 15 * * * *", "America/New_York", "2026-11-01T05:15:00Z", "2026-11-01T06:15:00Z"),
    ],
)
def test_when_cron_patterns_are_due(text: str, zone: str, since: str, expected: str) -> None:
    pattern = parse_pattern(text, ZoneInfo(zone))
    due = pattern.first(ns(since)) if pattern is not None else None
    assert (
        "" if due is None else datetime.fromtimestamp(due // SECOND, UTC).isoformat().replace("+00:00", "Z")
    ) == expected


def test_intervals_begin_at_whole_seconds_and_leave_out_what_was_missed() -> None:
    pattern = parse_pattern("@every 1.5s", None)
    assert pattern is not None
    assert pattern.first(10 * SECOND + SECOND // 2) == 12 * SECOND + SECOND // 2
    assert pattern.following(12 * SECOND, 0) == 13 * SECOND + SECOND // 2
    assert pattern.following(12 * SECOND, 100 * SECOND) == 101 * SECOND + SECOND // 2


def test_times_are_shown_in_the_time_zone_of_the_schedule() -> None:
    pattern = parse_pattern("0 0 12 * * *", load_zone("America/St_Johns"))
    assert pattern is not None
    due = pattern.first(ns("2026-07-01T00:00:00Z"))
    assert due is not None
    assert pattern.text(due) == "2026-07-01T12:00:00-02:30"


def test_a_year_of_every_zone_agrees_with_a_search_minute_by_minute() -> None:
    """The jumps over months, days and hours leave nothing out, in zones whose clocks change in odd ways."""
    rows = [("0 30 * * * *", "Australia/Lord_Howe"), ("0 0 0 * * *", "America/Havana"),
            ("0 30 1,2 * * sun", "Africa/Cairo"), ("0 */25 0-3 * * *", "America/Nuuk"),
            ("0 5 2 28-31 3,10 *", "Europe/Berlin")]  # fmt: skip
    for text, zone in rows:
        pattern = parse_pattern(text, ZoneInfo(zone))
        assert isinstance(pattern, Cron)
        for since in (ns("2026-03-28T00:00:00Z"), ns("2026-10-24T12:00:00Z"), ns("2026-03-07T23:10:00Z")):
            found = pattern.first(since)
            second = since // SECOND + 60 - since // SECOND % 60
            while not is_due(pattern, datetime.fromtimestamp(second, ZoneInfo(zone))):
                second += 60
            assert found == second * SECOND, (text, zone, since)


def is_due(pattern: Cron, local: datetime) -> bool:
    day = (pattern.days >> local.day & 1, pattern.weekdays >> local.isoweekday() % 7 & 1)
    times = (pattern.months >> local.month, pattern.hours >> local.hour, pattern.minutes >> local.minute)
    return all(bits & 1 for bits in times) and (all(day) if pattern.any_day else any(day))


@pytest.mark.parametrize("text", [", * * * * *", "* , * * * *", "* * , * * *", "* * * * , *", "* * * , * ,",
                                  "0 0 0 31 2,4,6,9,11 ,", "0 0 0 30 2 ,"])  # fmt: skip
def test_a_pattern_that_never_comes_is_none_without_a_search(text: str) -> None:
    assert parse_pattern(text, None) is None


class CountingZone(tzinfo):
    """UTC, counting how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def utcoffset(self, when: datetime | None) -> timedelta:
        self.asked += 1
        return timedelta()

    def dst(self, when: datetime | None) -> timedelta:
        return timedelta()

    def tzname(self, when: datetime | None) -> str:
        return "C"

    def fromutc(self, when: datetime) -> datetime:
        self.asked += 1
        return when


@pytest.mark.parametrize(
    "text", ["0 0 0 29 2 *", "59 59 23 31 12 *", "0 0 0 29 2 ,", "59 * * * * *", "0 0 0 , 2 1", YEARS]
)
def test_the_steps_of_a_search_are_few_for_any_pattern(text: str) -> None:
    zone = CountingZone()
    pattern = parse_pattern(text, zone)
    assert pattern is not None
    for since in ("2026-01-01T00:00:00Z", "2096-03-01T00:00:00Z", "2026-12-31T23:59:59Z"):
        pattern.first(ns(since))
    assert zone.asked <= 3 * 12


@pytest.mark.parametrize("since", [-(2**63), -1, 0, 2**63 - 1])
@pytest.mark.parametrize("text", ["@at 0001-01-02T00:00:00Z", "@at 1600-01-01T00:00:00Z", "@at 1970-01-01T00:00:00Z",
                                  "@at 9999-12-31T23:59:59Z", "@every 1s", "@every 9223372036854775807ns",
                                  "* * * * * *", "@yearly"])  # fmt: skip
def test_all_times_of_a_schedule_are_in_one_range(text: str, since: int) -> None:
    pattern = parse_pattern(text, None)
    assert pattern is not None
    first = pattern.first(since)
    assert first is not None
    assert EARLIEST <= first <= NEVER_DUE
    following = pattern.following(first, time.time_ns())
    assert following is None or EARLIEST <= following <= NEVER_DUE
    assert pattern.text(first)


# --- firing ---


@pytest.mark.parametrize("storage", ["memory", "file"])
async def test_a_schedule_fires_once_and_is_gone(tmp_path: Path, storage: str) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open(**FIELDS | {"storage": storage, "allow_msg_ttl": True})
    at = soon()
    more = {"A": "b", "Nats_Schedule_TTL": "1h", "Nats_Schedule_Rollup": "sub", "Nats_Msg_Id": "1", "Nats_TTL": "2h"}
    assert (await bench.ask("s.a", b"x", schedule(at, **more)))["seq"] == 1
    await until(lambda: stream.log.last_seq == 2)
    assert time.time_ns() >= ns(at[4:23] + "Z")
    expected = header(A="b", Nats_Scheduler="s.a", Nats_Schedule_Next="purge", Nats_TTL="1h", Nats_Rollup="sub")
    assert stored(stream) == [(2, "s.t", expected)]
    assert stream.log.get(stream.log.first_seq)[3] == b"x"
    await bench.close()


async def test_a_schedule_in_the_past_fires_at_once(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open(**FIELDS)
    await bench.ask("s.a", b"x", schedule("@at 2020-01-01T00:00:00Z"))
    await until(lambda: stream.log.last_seq == 2)
    assert stored(stream) == [(2, "s.t", header(Nats_Scheduler="s.a", Nats_Schedule_Next="purge"))]
    await bench.close()


async def test_every_second_with_the_content_of_another_subject(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open(**FIELDS)
    await bench.ask("s.a", b"own", schedule("@every 1s", Nats_Schedule_Source="s.b", A="own"))
    await until(lambda: stream.log.last_seq == 2)
    await bench.ask("s.b", b"other", header(B="other", Nats_Expected_Stream="S"))
    await until(lambda: stream.log.last_seq == 4)
    first, second = stream.log.get(2), stream.log.get(4)
    assert (first[1], first[3], second[3]) == (b"s.t", b"own", b"other")
    assert first[2].startswith(b"NATS/1.0\r\nA: own\r\nNats-Scheduler: s.a\r\nNats-Schedule-Next: 20")
    assert second[2].startswith(b"NATS/1.0\r\nB: other\r\nNats-Scheduler: s.a\r\nNats-Schedule-Next: 20")
    assert [seq for seq, _, _ in stored(stream)] == [1, 2, 3, 4]
    await bench.close()


async def test_what_takes_the_place_of_a_schedule_ends_it(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open(**FIELDS)
    at = soon(3)
    for subject in ("replaced", "purged", "deleted", "ended", "fires"):
        await bench.ask(f"s.{subject}", b"", schedule(at))
    await bench.ask("s.replaced", b"plain")
    stream.purge("s.purged")
    stream.delete_message(3)
    await bench.ask("s.x", b"", header(Nats_Scheduler="s.ended", Nats_Schedule_Next="purge"))
    await until(lambda: stream.log.last_seq == 8)
    await until(lambda: time.time_ns() > ns(at[4:23] + "Z") + SECOND)
    assert [subject for _, subject, _ in stored(stream)] == ["s.replaced", "s.replaced", "s.x", "s.t"]
    await bench.close()


@pytest.mark.parametrize("storage", ["memory", "file"])
async def test_a_schedule_stays_ended_when_the_message_in_its_place_is_gone(tmp_path: Path, storage: str) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open(**FIELDS | {"storage": storage})
    at = soon(1)
    for subject in ("ended", "emptied", "made", "fires"):
        await bench.ask(f"s.{subject}", b"", schedule(at, Nats_Schedule_Target=f"s.of.{subject}"))
    await bench.ask("s.ended", b"plain")
    await bench.ask("s.emptied", b"", header(Nats_Scheduler=""))
    await bench.ask(
        "s.made", b"", header(Nats_Scheduler="s.x", Nats_Schedule_Next="purge")
    )  # another schedule's target ends none
    stream.delete_message(5)
    stream.delete_message(6)
    await until(lambda: stream.log.last_seq == 9)
    await until(lambda: time.time_ns() > ns(at[4:23] + "Z") + SECOND)
    assert [subject for _, subject, _ in stored(stream)] == ["s.ended", "s.emptied", "s.of.made", "s.of.fires"]
    await bench.close()


async def test_a_schedule_fires_when_the_message_in_its_place_is_lost(tmp_path: Path) -> None:
    disk = FullDisk()
    bench = StreamBench(tmp_path, disk=disk)
    stream = bench.open(**FIELDS)
    await bench.ask("s.a", b"x", schedule(soon(1)))
    disk.full = True
    assert "error" in await bench.ask("s.a", b"plain")
    disk.full = False
    await until(lambda: [subject for _, subject, _ in stored(stream)] == ["s.t"])
    await stream.commit()
    await bench.close()


async def test_a_firing_that_cannot_be_stored_comes_when_there_is_room(tmp_path: Path) -> None:
    disk = FullDisk()
    bench = StreamBench(tmp_path, disk=disk)
    stream = bench.open(**FIELDS)
    await bench.ask("s.a", b"x", schedule(soon(1.5)))
    disk.full = True
    await until(lambda: stream.log.failed is not None)
    assert [subject for _, subject, _ in stored(stream)] == ["s.a"]
    disk.full = False
    await until(lambda: [subject for _, subject, _ in stored(stream)] == ["s.t"])
    await stream.commit()
    await bench.close()


# --- restarts ---


class Restarts:
    """A stream in a store that is closed, or left as by kill -9, and opened again."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.bench = StreamBench(directory)
        self.store: Store | None = None

    async def open(self) -> Any:
        config = stream_config(**FIELDS)
        self.store = Store.open(str(self.directory / "store"), self.bench.tick)
        recovered = self.store.recover("$G")
        log: Any = (
            recovered[0].log
            if recovered
            else await self.store.create_stream("$G", "S", config.to_json(), "file", time.time_ns())
        )
        return self.bench.start_stream(config, log)

    async def close(self) -> None:
        self.bench.stream.stop()
        if self.store is not None:
            await self.store.close()

    async def crash(self) -> None:
        """What is on disk now is all that is left."""
        await self.bench.stream.commit()
        shutil.copytree(self.directory / "store", self.directory / "copy")
        await self.close()
        shutil.rmtree(self.directory / "store")
        (self.directory / "copy").rename(self.directory / "store")


@pytest.mark.parametrize("killed", [False, True])
async def test_schedules_outlive_a_restart(tmp_path: Path, killed: bool) -> None:
    restarts = Restarts(tmp_path)
    stream = await restarts.open()
    bench = restarts.bench
    await bench.ask("s.later", b"", schedule("@at 2090-01-01T00:00:00Z"))
    await bench.ask("s.repeats", b"", schedule("0 0 0 1 1 *"))
    due = time.time_ns() + SECOND // 2
    await bench.ask("s.missed", b"missed", schedule("@at " + format_time(due)))
    await (restarts.crash() if killed else restarts.close())
    await until(lambda: time.time_ns() > due)
    stream = await restarts.open()
    await until(lambda: stream.log.last_seq == 4)
    assert [subject for _, subject, _ in stored(stream)] == ["s.later", "s.repeats", "s.t"]
    assert stored(stream)[2][2] == header(Nats_Scheduler="s.missed", Nats_Schedule_Next="purge")
    assert stream.waiting_schedules() == 2
    await restarts.close()
    await bench.close()


async def test_missed_firings_are_made_up_by_one(tmp_path: Path) -> None:
    restarts = Restarts(tmp_path)
    stream = await restarts.open()
    await restarts.bench.ask("s.a", b"", schedule("@every 1s"))
    await until(lambda: stream.log.last_seq == 2)
    await restarts.crash()
    stopped = time.time_ns()
    await until(lambda: time.time_ns() > stopped + 2.6 * SECOND)
    stream = await restarts.open()
    begun = time.time_ns()
    await until(lambda: stream.log.last_seq == 3)
    following = stream.log.get(3)[2].split(b"Next: ")[1].split(b"\r\n")[0].decode()
    assert begun // SECOND <= ns(following) // SECOND <= begun // SECOND + 3
    await until(lambda: stream.log.last_seq == 4)
    assert stream.log.get(4)[4] // SECOND == ns(following) // SECOND
    await restarts.close()
    await restarts.bench.close()


async def test_a_schedule_that_has_fired_does_not_fire_again_when_its_removal_is_lost(tmp_path: Path) -> None:
    restarts = Restarts(tmp_path)
    stream = await restarts.open()
    await restarts.bench.ask("s.a", b"", schedule(soon()))
    await until(lambda: stream.log.last_seq == 2)
    await restarts.crash()
    # the last record says that the schedule is removed
    (segment,) = (tmp_path / "store").rglob("*.seg")
    whole = segment.read_bytes()
    segment.write_bytes(whole[: whole.rindex(b"\xabJBD")])
    stream = await restarts.open()
    assert [(seq, subject) for seq, subject, _ in stored(stream)] == [(2, "s.t")]
    await restarts.close()
    await restarts.bench.close()


async def test_firings_whose_messages_are_gone_are_not_repeated(tmp_path: Path) -> None:
    restarts = Restarts(tmp_path)
    stream = await restarts.open()
    await restarts.bench.ask("s.a", b"", schedule("@every 1s"))
    await until(lambda: stream.log.last_seq >= 2)
    last = stream.log.last_seq
    fired = stream.log.get(last)[4]
    stream.purge("s.t")
    await restarts.crash()
    stream = await restarts.open()
    await until(lambda: stream.log.last_seq > last)
    assert stream.log.get(last + 1)[4] // SECOND > fired // SECOND
    await restarts.close()
    await restarts.bench.close()


HOSTILE = ["@at 1600-01-01T00:00:00Z", "@at 0001-01-01T00:00:01Z", "@at 1970-01-01T00:00:00Z",
           "@at 9999-12-31T23:59:59Z", "@every 9223372036854775807ns", "@every 2562047h47m16s", "0 0 0 29 2 ,",
           ", * * * * *"]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
async def test_a_stream_starts_again_after_any_schedule(tmp_path: Path, text: str) -> None:
    restarts = Restarts(tmp_path)
    await restarts.open()
    answer = await restarts.bench.ask("s.a", b"x", schedule(text))
    if answer["seq"]:
        await restarts.bench.ask("s.b", b"", schedule(text, Nats_Schedule_Source="s.c"))
    await restarts.crash()
    stream = await restarts.open()
    before = stream.log.last_seq
    assert (await restarts.bench.ask("s.c", b"plain"))["seq"] > before
    await restarts.bench.ask("s.fires", b"x", schedule(soon()))
    await until(lambda: "s.t" in [subject for _, subject, _ in stored(stream)])
    assert restarts.bench.warnings == []
    await restarts.close()
    await restarts.bench.close()


async def test_a_schedule_that_fails_at_a_start_is_void_and_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    restarts = Restarts(tmp_path)
    await restarts.open()
    await restarts.bench.ask("s.bad", b"", schedule("@at 2090-01-01T00:00:00Z", A="bad"))
    await restarts.bench.ask("s.worse", b"", schedule("@at 2090-01-01T00:00:00Z", A="bad"))
    await restarts.bench.ask("s.good", b"", schedule(soon()))
    await restarts.crash()
    known = schedule_headers.read_pattern

    def fail(block: bytes) -> object:
        if b"A: bad" in block:
            raise OverflowError("what an older version took")
        return known(block)

    monkeypatch.setattr(schedules, "read_pattern", fail)
    stream = await restarts.open()
    await until(lambda: "s.t" in [subject for _, subject, _ in stored(stream)])
    (warning,) = restarts.bench.warnings
    assert warning.startswith("Stream '$G > S': the schedule at sequence 1 is void: OverflowError(")
    assert [subject for _, subject, _ in stored(stream)][:2] == ["s.bad", "s.worse"]
    await restarts.close()
    await restarts.bench.close()


async def test_a_schedule_that_fails_when_it_is_due_is_void_and_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open(**FIELDS)
    known: Callable[..., bytes] = schedule_headers.generated_block

    def fail(*given: object) -> bytes:
        if given[2] == b"s.bad":
            raise ValueError("cannot be made")
        return known(*given)

    monkeypatch.setattr(schedules, "generated_block", fail)
    at = soon()
    await bench.ask("s.bad", b"", schedule(at))
    await bench.ask("s.good", b"", schedule(at))
    await until(lambda: "s.t" in [subject for _, subject, _ in stored(stream)])
    (warning,) = bench.warnings
    assert "the schedule at sequence 1 is void: ValueError('cannot be made')" in warning
    assert stream.waiting_schedules() == 0
    await bench.close()


async def test_many_schedules_fire_in_slices_of_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open(**FIELDS | {"storage": "memory"})
    at = soon(1)
    for number in range(100):
        await bench.ask(f"s.{number}", b"", schedule(at))
    known: Callable[..., bytes] = schedule_headers.generated_block

    def slow(*given: object) -> bytes:
        until_ns = time.perf_counter_ns() + 1_000_000
        while time.perf_counter_ns() < until_ns:
            pass
        return known(*given)

    monkeypatch.setattr(schedules, "generated_block", slow)
    counts = []

    def look() -> None:
        counts.append(stream.log.last_seq)
        bench.tick.loop.call_soon(look) if counts[-1] < 200 else None

    look()
    await until(lambda: stream.log.last_seq == 200)
    assert max(after - before for before, after in itertools.pairwise(counts)) <= 4
    await bench.close()


# --- in a batch ---


def part(seq: int, pattern: str, commit: str = "") -> bytes:
    end = {"Nats_Batch_Commit": commit} if commit else {}
    return schedule(pattern, Nats_Batch_Id="b", Nats_Batch_Sequence=str(seq), **end)


@pytest.mark.parametrize("pattern", ["0 0 12 * * *", "@every 1h", "@at 2999-01-01T00:00:00Z"])
async def test_a_commit_reads_no_patterns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open(**FIELDS, allow_atomic=True)
    for seq in range(1, 21):
        await bench.send(f"s.{seq}", b"", part(seq, pattern)).get()
    monkeypatch.setattr(schedule_headers, "parse_pattern", None)
    monkeypatch.setattr(Cron, "_day_from", None)
    end = header(Nats_Batch_Id="b", Nats_Batch_Sequence="21", Nats_Batch_Commit="1")
    assert (await bench.ask("s.x", b"", end))["count"] == 21
    assert stream.waiting_schedules() == 20
    await bench.close()


async def test_a_time_that_passes_before_the_commit_is_not_one_of_the_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open(**FIELDS, allow_atomic=True)
    with monkeypatch.context() as patch:
        patch.setattr(schedule_headers, "time", SimpleNamespace(time_ns=lambda: time.time_ns() - 10 * SECOND))
        assert (await bench.ask("s.a", b"", part(1, "* * * * * *", "1")))["count"] == 1
    stored_at = stream.log.time_of(1)
    await until(lambda: stream.log.last_seq > 1)
    assert stream.log.time_of(2) >= (stored_at // SECOND + 1) * SECOND
    await bench.close()


async def test_rules_that_have_changed_before_the_commit_count(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    stream = bench.open(**FIELDS, allow_atomic=True, subjects=["s.>"])
    await bench.send("s.a", b"", part(1, "@every 1h")).get()
    stream.apply_config(stream_config(**FIELDS, allow_atomic=True, subjects=["s.a", "s.b"]))
    assert (await bench.ask("s.b", b"", part(2, "@every 1h", "1")))["error"]["err_code"] == 10190
    await bench.close()


async def test_targets_are_looked_up_among_many_subjects(tmp_path: Path) -> None:
    bench = StreamBench(tmp_path)
    bench.open(**FIELDS, subjects=["s.*.x", *(f"s.{number}" for number in range(1000))])
    for target, error in (("s.7", 0), ("s.y.x", 0), ("s.1000", 10190), ("s.y.z", 10190)):
        answer = await bench.ask("s.1", b"", schedule("@every 1h", Nats_Schedule_Target=target))
        assert answer.get("error", {}).get("err_code", 0) == error, target
    await bench.close()
