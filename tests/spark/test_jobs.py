"""The jobs as a user starts them; what Spark counts equals what the job counts by itself."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js.api import AckPolicy, ConsumerConfig, StreamConfig

from spark_jobs import (
    consumer_lag,
    duplicates_audit,
    jobs,
    latency_report,
    mirror_diff,
    replay,
    subject_report,
    windowed_counts,
)
from spark_jobs.events import event_us
from tests.support import process
from tests.support.process import ROOT
from tests.support.stores import StreamWriter

START_S = 1_772_323_200  # 2026-03-01T00:00:00Z


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """100 messages, one a second, on orders.<eu|us>.<0 to 4>; some ids and payloads come again."""
    writer = StreamWriter(tmp_path, "ORDERS")
    for i in range(100):
        headers = b"NATS/1.0\r\nNats-Msg-Id: id-%d\r\n\r\n" % (i % 90) if i % 2 else b""
        created = (START_S + i // 2) * 1000
        payload = b"broken" if i % 25 == 24 else b'{"n": %d, "at": {"created": %d}}' % (i % 80, created)
        writer.append(b"orders.%s.%d" % ((b"eu", b"us")[i % 2], i % 5), payload, headers, (START_S + i) * 10**9)
        if i in (39, 79):
            writer.seal()
    writer.delete([(1, 2)])
    writer.close()
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Any]]:
    """The exit code of a job, and its JSON (None: it printed none)."""

    def started(job: Any, *arguments: str) -> tuple[int, Any]:
        code = job.main([*arguments, "--json"])
        out = capsys.readouterr().out
        return code, json.loads(out) if out else None

    return started


def test_subjects_by_their_beginnings(store: Path, run: Any) -> None:
    code, found = run(subject_report, str(store), "ORDERS", "--depth", "2", "--sort", "messages")
    assert code == 0
    assert (found["subjects"], found["messages"]) == (2, 98)
    assert [(row["subject"], row["messages"], row["first_seq"]) for row in found["rows"]] == [
        ("orders.eu.>", 49, 3),
        ("orders.us.>", 49, 4),
    ]
    assert found["rows"][1]["last_time"] == "2026-03-01T00:01:39Z"
    _, all_of_them = run(subject_report, str(store), "ORDERS", "--subject", "orders.eu.*", "--top", "3")
    assert (all_of_them["subjects"], len(all_of_them["rows"])) == (5, 3)


def test_a_job_that_needs_no_spark_runs_where_there_is_no_java(store: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "spark_jobs.subject_report", str(store), "ORDERS", "--depth", "1"],
        capture_output=True, text=True, cwd=tmp_path, timeout=200,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": str(tmp_path), "JAVA_HOME": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "ORDERS: 1 of 1 subjects, 98 messages" in done.stdout
    assert "orders.>" in done.stdout
    assert "this needs no Spark" in done.stderr


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"stream": "NOPE"}, "no stream 'NOPE' of account '$G' in store "),
        ({"stream": "ORDERS", "json": "n bigint", "mode": "failing"}, "stream 'ORDERS', sequence "),
        ({"stream": "ORDERS", "columns": "nothing"}, "no column 'nothing'; there are stream, seq, "),
    ],
)
def test_what_fails_inside_spark_is_one_sentence(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: dict[str, str], text: str
) -> None:
    writer = StreamWriter(tmp_path, "ORDERS")
    writer.append(b"orders.eu", b"no JSON")
    writer.close()

    def work() -> int:
        return len(spark.read.format("jetstream").options(**options).load(str(tmp_path)).collect())

    assert jobs.run("report", work) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"report: {text}")
    assert told.count("\n") == 1


def test_what_spark_itself_refuses_is_its_first_line(spark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert jobs.run("report", lambda: int(spark.range(1).select("nothing").count())) == 2
    told = capsys.readouterr().err.splitlines()[-1]  # before it stands a line of pyspark's own log
    assert told.startswith("report: Spark failed: [UNRESOLVED_COLUMN")
    with pytest.raises(ZeroDivisionError):  # a mistake of a job's own keeps its trace
        jobs.run("report", lambda: 1 // 0)


@pytest.mark.parametrize("job", [subject_report, consumer_lag, duplicates_audit, windowed_counts, mirror_diff])
def test_a_mistake_is_one_sentence(job: Any, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = [str(store), "ORDERS"] if job is mirror_diff else []
    assert job.main([str(store), "NOPE", *more]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"{job.__name__.rpartition('.')[2]}: no stream 'NOPE'")
    assert told.err.count("\n") == 1
    with pytest.raises(SystemExit) as left:
        job.main(["--help"])
    assert left.value.code == 0
    assert "example: python -m spark_jobs." in capsys.readouterr().out


async def test_the_lag_of_consumers_is_what_the_broker_tells(tmp_path: Path, run: Any) -> None:
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        client = await nats.connect(server.url)
        stream = client.jetstream(timeout=60)
        await stream.add_stream(StreamConfig("ORDERS", subjects=["orders.>"]))
        for i in range(10):
            await stream.publish("orders.new", b"%d" % i)
        for name in ("near", "far"):
            config = ConsumerConfig(durable_name=name, ack_policy=AckPolicy.EXPLICIT, ack_wait=3600)
            await stream.add_consumer("ORDERS", config)
        subscription = await stream.pull_subscribe_bind("near", "ORDERS")
        messages = await subscription.fetch(8, timeout=30)
        for message in messages[:7]:
            await message.ack_sync(timeout=30)
        told = await stream.consumer_info("ORDERS", "near")
        await client.close()
    code, found = run(consumer_lag, str(tmp_path), "ORDERS", "--max-lag", "9")
    assert code == 1
    assert [(row["consumer"], row["lag"]) for row in found["rows"]] == [("far", 10), ("near", 3)]
    near = found["rows"][1]
    assert (near["ack_pending"], near["pending"]) == (told.num_ack_pending, told.num_pending) == (1, 2)
    assert run(consumer_lag, str(tmp_path), "ORDERS", "--max-lag", "10")[0] == 0


def test_duplicates(store: Path, run: Any) -> None:
    code, found = run(duplicates_audit, str(store), "ORDERS")
    assert code == 1
    assert (found["duplicates"], found["surplus"]) == (4, 4)  # the first of id-1 is deleted
    assert found["rows"][0] == {
        "key": "id-3", "subject": "orders.us.3", "copies": 2, "first_seq": 4, "last_seq": 94,
        "first_time": "2026-03-01T00:00:03Z", "last_time": "2026-03-01T00:01:33Z",
    }  # fmt: skip
    code, found = run(duplicates_audit, str(store), "ORDERS", "--by", "payload", "--subject", "orders.eu.*")
    assert (code, found["duplicates"]) == (1, 1)
    assert (found["rows"][0]["first_seq"], found["rows"][0]["last_seq"]) == (25, 75)
    assert run(duplicates_audit, str(store), "ORDERS", "--subject", "orders.eu.*")[0] == 0


def copied(store: Path, name: str, change: Callable[[int], bytes | None], last: int) -> None:
    writer = StreamWriter(store, name, stream_id=77)
    for seq in range(1, last + 1):
        payload = change(seq)
        if payload is None:
            writer.skip(1)
        else:
            writer.append(b"orders.%d" % (seq % 2), payload)
        if seq % 40 == 0:
            writer.seal()
    writer.close()


def test_a_mirror_is_compared_with_its_origin(tmp_path: Path, run: Any) -> None:
    hub, edge = tmp_path / "hub", tmp_path / "edge"
    copied(hub, "ORDERS", lambda seq: None if seq == 50 else b"%d" % seq, 120)
    copied(edge, "SAME", lambda seq: None if seq == 50 else b"%d" % seq, 100)
    copied(edge, "WRONG", lambda seq: None if seq in (7, 8, 60) else b"x" if seq in (9, 90) else b"%d" % seq, 120)
    code, found = run(mirror_diff, str(hub), "ORDERS", str(edge), "SAME")
    assert code == 0
    assert found == {"missing": 0, "extra": 0, "different": 0, "lag": 20, "rows": []}
    code, found = run(mirror_diff, str(hub), "ORDERS", str(edge), "WRONG")
    assert code == 1
    assert [tuple(row.values()) for row in found["rows"]] == [
        (7, 8, 2, "missing in the mirror"),
        (9, 9, 1, "not the same"),
        (50, 50, 1, "only in the mirror"),
        (60, 60, 1, "missing in the mirror"),
        (90, 90, 1, "not the same"),
    ]
    assert run(mirror_diff, str(hub), "ORDERS", str(edge), "WRONG", "--start", "91")[0] == 0
    assert run(mirror_diff, str(hub), "ORDERS", str(edge), "WRONG", "--subject", "orders.1", "--start", "10")[0] == 0


def test_windows_of_storing_and_of_events(store: Path, run: Any) -> None:
    _, found = run(windowed_counts, str(store), "ORDERS", "--window", "30s", "--depth", "2")
    counts = {(row["start"], row["subject"]): row["messages"] for row in found["rows"]}
    assert sum(counts.values()) == 98
    assert counts["2026-03-01T00:00:00Z", "orders.eu.>"] == 14  # its first is deleted
    assert counts["2026-03-01T00:01:30Z", "orders.us.>"] == 5
    _, found = run(windowed_counts, str(store), "ORDERS", "--window", "30s", "--event-time", "at.created")
    assert [tuple(row.values()) for row in found["rows"]] == [
        ("2026-03-01T00:00:00Z", "orders.>", 56),
        ("2026-03-01T00:00:30Z", "orders.>", 38),
        (None, "orders.>", 4),
    ]


def test_latencies_from_an_event_to_the_disk(store: Path, run: Any) -> None:
    """Message i is stored i - i // 2 seconds behind its event; four payloads tell no time."""
    code, found = run(latency_report, str(store), "ORDERS", "--field", "at.created", "--window", "1m")
    assert (code, found["without_time"]) == (0, 4)
    assert (found["all"]["messages"], found["all"]["min_ms"], found["all"]["max_ms"]) == (94, 1000.0, 49000.0)
    assert found["all"]["p50_ms"] == pytest.approx(25_000, rel=0.005)
    assert [(row["start"], row["messages"]) for row in found["rows"]] == [
        ("2026-03-01T00:00:00Z", 56),
        ("2026-03-01T00:01:00Z", 38),
    ]
    words = (str(store), "ORDERS", "--field", "at.created", "--by", "subject", "--depth", "2", "--max-p99", "45000")
    code, found = run(latency_report, *words)
    assert (code, [row["subject"] for row in found["rows"]]) == (1, ["orders.eu.>", "orders.us.>"])


@pytest.mark.parametrize(("unit", "told"), [("ms", True), ("s", False)])
def test_events_in_another_unit_are_told(
    unit: str, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = StreamWriter(tmp_path, "ORDERS")
    for number in range(3):
        writer.append(b"orders.eu", b'{"created": %d}' % (START_S + number), b"", (START_S + 5) * 10**9)
    writer.close()
    words = [str(tmp_path), "ORDERS", "--field", "created", "--unit", unit]
    assert latency_report.main(words) == 0
    assert ("--unit says otherwise" in capsys.readouterr().err) == told


def test_percentiles_are_those_of_a_sorted_list() -> None:
    values = [((number * 7919) % 10_007) ** 2 - 500 for number in range(3000)]
    found = latency_report.Latencies()
    for value in values:
        found.add(value)
    ordered = sorted(values)
    for percent in (1, 50, 90, 99, 99.9, 100):
        exact = ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1]
        assert found.percentile(percent) == pytest.approx(exact, rel=0.0051, abs=1)


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (1500, "ms", 1_500_000),
        ("1500", "s", 1_500_000_000),
        (1.5, "ms", 1500),
        (1_500_000_000, "ns", 1_500_000),
        ("1970-01-01T00:00:01+00:00", "ns", 1_000_000),
        ("soon", "ms", None),
        (True, "ms", None),
        (None, "ms", None),
        (float("inf"), "ms", None),
        ([1], "ms", None),
    ],
)
def test_the_time_of_an_event(value: object, unit: str, expected: int | None) -> None:
    assert event_us(value, unit) == expected


async def test_a_range_is_published_again_and_a_second_run_stores_nothing(
    store: Path, tmp_path: Path, run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with process.jetbroker("-js", "-sd", str(tmp_path / "other")) as server:
        client = await nats.connect(server.url)
        stream = client.jetstream(timeout=60)
        await stream.add_stream(StreamConfig("COPY", subjects=["test.>"]))
        words = (str(store), "ORDERS", "--url", server.url, "--into", "COPY", "--prefix", "test.", "--start-seq", "11")
        first, again = run(replay, *words, "--in-flight", "7"), run(replay, *words)
        assert first == (0, {**done(90, 0), "last_seq": 100})
        assert again == (0, {**done(0, 90), "last_seq": 100})
        assert run(replay, *words, "--name", "second", "--subject", "orders.eu.*", "--end-seq", "20")[1]["stored"] == 5
        assert (await stream.stream_info("COPY")).state.messages == 95
        message = await stream.get_msg("COPY", 2)
        assert (message.subject, message.data) == ("test.orders.us.1", b'{"n": 11, "at": {"created": 1772323205000}}')
        assert message.headers is not None and message.headers["Nats-Msg-Id"].startswith("replay:ORDERS.")
        await client.close()
        refused = replay.main([*words[:-5], "ELSE", "--prefix", "test."])
        assert (refused, capsys.readouterr().err.count("\n")) == (2, 1)
    assert replay.main([*words]) == 2
    assert "cannot be reached" in capsys.readouterr().err


def done(stored: int, repeated: int) -> dict[str, Any]:
    return {"stream": "ORDERS", "into": "COPY", "stored": stored, "repeated": repeated, "damaged": 0}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--prefix", "a..b."], "does not begin a subject"),
        (["--name", "a b"], "cannot stand in a header"),
        (["--since", "soon"], "--since: 'soon'"),
        (["--url", "http://localhost"], "is no URL of a server"),
    ],
)
def test_a_replay_that_makes_no_sense(
    store: Path, more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay.main([str(store), "ORDERS", "--url", "nats://127.0.0.1:1", "--into", "COPY", *more]) == 2
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1


@pytest.mark.spark
def test_spark_counts_the_same(spark: Any, store: Path, tmp_path: Path, run: Any) -> None:
    for job, *more in (
        (duplicates_audit, "--by", "id"),
        (windowed_counts, "--event-time", "at.created"),
    ):
        local, by_spark = (
            run(job, str(store), "ORDERS", *more, "--engine", engine) for engine in ("local", "spark")
        )  # fmt: skip
        assert local == by_spark
