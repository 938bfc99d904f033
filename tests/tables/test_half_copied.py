"""A copy of a store without its newest segment says so; the store itself never does, whatever its broker does."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest
from nats.js import JetStreamContext
from nats.js.api import StoreCompression, StreamConfig

import jetbroker
from jetbroker.daemon.stored import command
from jetbroker.errors import StoreReadError
from jetbroker.store.offline.reader import open_stream
from tests.support.process import small_segments

pytest.importorskip("pyarrow")
SEGMENT_BYTES = 4000
LAST = 100
MISSING = r"the newest segment is missing in .*, and with it all messages behind sequence \d+: copy the store again"


async def publish(js: JetStreamContext, first: int, last: int) -> None:
    for number in range(first, last + 1):
        await js.publish(f"s.{number % 3}", b"%200d" % number)


async def fill(store: Path) -> None:
    """A stream of some segments; in the middle of it a purge, and the broker is killed."""
    for first, last, by_kill in ((1, 60, True), (61, LAST, False)):
        with small_segments(store, SEGMENT_BYTES) as server:
            client = await nats.connect(server.url, connect_timeout=30)
            js = client.jetstream(timeout=30)
            if first == 1:
                await js.add_stream(StreamConfig("S", subjects=["s.*"]))
            await publish(js, first, last)
            if by_kill:
                await js.purge_stream("S", seq=20)
            await client.close()
            if by_kill:
                server.kill()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("made")
    asyncio.run(fill(made))
    return made


@pytest.fixture
def copy(store: Path, tmp_path: Path) -> Iterator[Path]:
    """Without the newest segment."""
    made = tmp_path / "copy"
    shutil.copytree(store, made)
    *_, newest = sorted((made / "jetstream").rglob("*.seg"))
    newest.unlink()
    yield made


def test_a_whole_store_is_whole(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    found = open_stream(store, "S")
    assert (found.last_seq, found.missing_end, found.damaged, caplog.text) == (LAST, "", [], "")
    assert jetbroker.scan(store, "S", columns="seq", fail_on_data_loss=True).read_all().num_rows == LAST - 19
    assert command.main(["ls", str(store)], "jetbroker") == 0


def test_scans_of_a_copy_without_the_newest_segment_say_so(
    store: Path, copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = jetbroker.scan(copy, "S", columns="seq").read_all()["seq"].to_pylist()
    last = rows[-1]
    assert rows == list(range(20, last + 1)) and last < LAST
    assert open_stream(copy, "S").missing_end in caplog.messages
    with pytest.raises(StoreReadError, match=MISSING):
        jetbroker.scan(copy, "S", fail_on_data_loss=True).read_all()
    asked = jetbroker.scan(copy, "S", columns="seq", end_seq=last, fail_on_data_loss=True)
    assert asked.read_all().num_rows == len(rows)  # nothing that was asked for is missing


@pytest.mark.parametrize("words", [["ls"], ["info", "S"], ["cat", "S", "--columns", "seq"], ["export", "S", "OUT"]])
def test_commands_on_such_a_copy_say_so(
    words: list[str], copy: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    more = [str(tmp_path / "out.csv") if word == "OUT" else word for word in words[1:]]
    assert command.main([words[0], str(copy), *more], "jetbroker") == 1
    assert "copy the store again, all of it" in caplog.text


def test_spark_is_told_if_it_asks_and_the_view_lost_has_a_row(copy: Path) -> None:
    pytest.importorskip("pyspark")
    from spark_jobs.source import JetStreamDataSource

    def rows(**options: str) -> list[dict[str, object]]:
        source = JetStreamDataSource({"path": str(copy), "stream": "S", **options})
        reader = source.reader(source.schema())
        return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]

    last = open_stream(copy, "S").last_seq
    assert len(rows(columns="seq")) == last - 19
    assert rows(columns="seq", endSeq=str(last), failOnDataLoss="true")
    with pytest.raises(StoreReadError, match=MISSING):
        rows(columns="seq", failOnDataLoss="true")
    missing = {"stream": "S", "first_seq": last + 1, "last_seq": None, "messages": None, "segment": None}
    assert rows(view="lost") == [missing]


async def test_who_reads_beside_a_broker_that_goes_from_segment_to_segment_hears_of_no_loss(tmp_path: Path) -> None:
    ended = threading.Event()
    found: set[str] = set()

    def look() -> int:
        looks = 0
        while not (looks and ended.is_set()):
            snapshot = open_stream(tmp_path, "S")
            found.update([snapshot.missing_end, json.dumps(snapshot.damaged)])
            looks += 1
        return looks

    with small_segments(tmp_path, SEGMENT_BYTES) as server:
        client = await nats.connect(server.url, connect_timeout=30)
        js = client.jetstream(timeout=30)
        config = StreamConfig("S", subjects=["s.*"], max_msgs=40, compression=StoreCompression.S2)
        await js.add_stream(config)
        looking = asyncio.create_task(asyncio.to_thread(look))
        await publish(js, 1, 600)
        ended.set()
        assert await looking > 0
        await client.close()
    assert found == {"", "[]"}
