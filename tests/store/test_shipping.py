"""A store that was shipped to a folder or to S3 reads as the store, and becomes a store again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import jetbroker
from jetbroker.errors import PlaceError, StoreReadError, StoreVersionError
from jetbroker.store.format.documents import encode_document
from jetbroker.store.offline import manifest as form
from jetbroker.store.offline import segment_cache, stores
from jetbroker.store.offline.places import place_of
from jetbroker.store.shipping import shipper as shipping
from jetbroker.store.shipping.pace import Pace
from jetbroker.store.shipping.restore import Until, restore
from jetbroker.store.shipping.shipper import Shipped, Shipper
from tests.store.test_reader import plans, play, rows_of
from tests.support.process import ROOT
from tests.support.s3 import BUCKET, s3_server
from tests.support.stores import StreamWriter, write_checked, write_store_marker

pa = pytest.importorskip("pyarrow")

NUMBERS = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[dict[str, str]]:
    with s3_server() as environment:
        yield environment


@pytest.fixture(params=["folder", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where to ship to; readers keep what they fetch in a folder of the test's own."""
    monkeypatch.setenv(segment_cache.FOLDER, str(tmp_path / "cache"))
    if request.param == "folder":
        return f"file://{tmp_path}/a%20place"
    for name, value in request.getfixturevalue("server").items():
        monkeypatch.setenv(name, value)
    return f"s3a://{BUCKET}/a place/{next(NUMBERS)}"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """30 messages in three segments, the last of which is not sealed; it removes 5 and 6."""
    writer = StreamWriter(tmp_path / "store", "ORDERS")
    for number in range(1, 31):
        writer.append(b"orders.%d" % (number % 3), b'{"n": %d}' % number)
        if number in (10, 20):
            writer.seal()
    writer.delete([(5, 6)])
    writer.close()
    return tmp_path / "store"


def ship(store: Path, url: str, **options: Any) -> list[Shipped]:
    return list(Shipper(store, place_of(url), **options).ship())


def seqs(store: object, **asked: Any) -> list[int]:
    return [
        seq for batch in jetbroker.scan(str(store), "ORDERS", columns="seq", **asked) for seq in batch[0].to_pylist()
    ]


def rows(store: object) -> list[dict[str, Any]]:
    return rows_of(jetbroker.scan(str(store), "ORDERS", verify=True).read_all())


def fetched(tmp_path: Path) -> int:
    return len(list((tmp_path / "cache").glob("??/*")))


def test_what_is_sealed_is_shipped_and_read(store: Path, url: str) -> None:
    assert ship(store, url) == [Shipped("$G", "ORDERS", 2, 2008, 2, 20)]
    assert stores.list_streams(url) == [("$G", "ORDERS")]
    assert rows(url) == [row for row in rows(store) if row["seq"] <= 20]
    shipped, there = stores.open_stream(url, "ORDERS"), stores.open_stream(store, "ORDERS")
    assert (shipped.messages, shipped.last_seq, shipped.config) == (18, 20, there.config)
    assert ship(store, url, unsealed=True)[0].objects == 1
    assert rows(url) == rows(store)


def test_a_second_pass_sends_nothing(store: Path, url: str) -> None:
    ship(store, url)
    assert [done.objects for done in ship(store, url)] == [0]


def test_a_read_fetches_only_the_segments_that_it_needs(
    store: Path, server: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**server, segment_cache.FOLDER: str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    url = f"s3://{BUCKET}/pruned"
    ship(store, url, unsealed=True)
    assert stores.open_stream(url, "ORDERS").messages == 28 and fetched(tmp_path) == 0
    assert seqs(url, start_seq=12, end_seq=13) == [12, 13] and fetched(tmp_path) == 1
    assert seqs(url, start_time="2023-11-14T22:13:20.029Z") == [29, 30] and fetched(tmp_path) == 2
    monkeypatch.setenv(segment_cache.SIZE, "1")
    assert len(seqs(url)) == 28 and fetched(tmp_path) <= 2  # what was used longest ago went


def test_removals_and_retention_are_followed(store: Path, url: str, tmp_path: Path) -> None:
    ship(store, url)
    writer = StreamWriter(tmp_path / "store", "ORDERS")
    writer.last_seq, writer.filled_seq, writer.previous_first_seq = 30, 30, 21
    writer.previous_valid = (writer.directory / f"{21:020d}.seg").stat().st_size
    writer.append(b"orders.1", b"31")
    writer.delete([(1, 10), (12, 12)])
    writer.close()
    (store / "jetstream" / "%24G" / "ORDERS" / f"{1:020d}.seg").unlink()
    ship(store, url)
    # the segment before the newest was left without a footer, so nothing is appended to it any more
    assert seqs(url) == [11, *range(13, 31)] and rows(url) == [row for row in rows(store) if row["seq"] <= 30]
    place = place_of(url)
    assert len(place.names("objects")) == 3  # for readers that planned before
    ship(store, url, keep_dropped=0)
    assert len(place.names("objects")) == 2 and len(rows(url)) == 19


def test_a_file_that_changes_in_place_is_sent_again(store: Path, url: str) -> None:
    ship(store, url)
    path = store / "jetstream" / "%24G" / "ORDERS" / f"{1:020d}.seg"
    data = path.read_bytes()
    path.write_bytes(data.replace(b'{"n": 5}', b"\0" * 8))  # as a delete overwrites a message; 5 is removed
    assert ship(store, url)[0].objects == 1
    assert len(rows(url)) == 18


def test_what_a_reader_planned_before_a_pass_it_reads_after_it(store: Path, url: str) -> None:
    ship(store, url)
    planned = stores.open_stream(url, "ORDERS")
    shutil.rmtree(store / "jetstream" / "%24G" / "ORDERS")
    writer = StreamWriter(store, "ORDERS", stream_id=77)
    writer.append(b"new", b"1")
    writer.seal()
    ship(store, url)
    assert planned.to_arrow(["seq"]).num_rows == 18
    assert seqs(url) == [1]


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(plan=plans, at=st.integers(1, 40))
def test_any_history_is_read_and_restored_alike(
    plan: list[tuple], at: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("plan")
    writer = StreamWriter(folder / "store", "ORDERS")
    model = play(writer, plan)
    writer.close()
    ship(folder / "store", str(folder / "sealed"))
    sealed = stores.open_stream(folder / "sealed", "ORDERS").last_seq
    assert rows(folder / "sealed") == [row for row in model.rows() if row["seq"] <= sealed]
    ship(folder / "store", str(folder / "all"), unsealed=True)
    assert rows(folder / "all") == model.rows()
    snapshot = stores.open_stream(folder / "store", "ORDERS")
    made = stores.open_stream(folder / "all", "ORDERS")
    assert (made.damaged, made.last_seq, made.size) == (snapshot.damaged, snapshot.last_seq, snapshot.size)
    place = place_of(folder / "all")
    assert restore(place, folder / "again", Until(), Pace())[0].messages == len(model.live)
    assert rows(folder / "again") == model.rows()
    again = stores.open_stream(folder / "again", "ORDERS")
    assert (again.last_seq, again.damaged) == (snapshot.last_seq, snapshot.damaged)
    restore(place, folder / "cut", Until(seq=at), Pace())
    assert rows(folder / "cut") == [row for row in model.rows() if row["seq"] <= at]
    times = [entry[3] for _, entry in sorted(model.live.items())]
    until_ns = times[len(times) // 2] if times else 0
    restore(place, folder / "early", Until(ns=until_ns), Pace())
    assert rows(folder / "early") == [row for row in model.rows() if model.live[row["seq"]][3] < until_ns]


class Killed(BaseException):
    """As kill -9 would end a process: nothing is tidied up."""


def test_a_shipper_killed_at_any_write_loses_and_repeats_nothing(
    store: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "PUBLISH_BYTES", 1)  # a manifest behind each segment
    ended = False
    sent = 0
    for writes in count(0, 1 if url.startswith("file") else 3):
        place = place_of(f"{url}/{writes}")
        left, write = [writes], place.write

        def counted(name: str, chunks: Any, left: list[int] = left, write: Callable[..., None] = write) -> None:
            if not left[0]:
                raise Killed
            left[0] -= 1
            write(name, chunks)

        with monkeypatch.context() as patched:
            patched.setattr(place, "write", counted)
            try:
                sent = sum(done.objects for done in Shipper(store, place, unsealed=True).ship())
                ended = True
            except Killed:
                pass
        if writes:
            there = stores.list_streams(place.text)
            seen = seqs(place.text) if there else []
            assert seen == [seq for seq in seqs(store) if seen and seq <= seen[-1]]
        if ended:
            break
        before = place.names("objects")
        done = ship(store, place.text, unsealed=True)
        assert sum(each.objects for each in done) == 3 - len(before)
        assert rows(place.text) == rows(store)
    assert sent == 3 and writes in (7, 9)  # a marker, and for each segment an object and a manifest


def test_a_killed_process_leaves_what_it_had_shipped(tmp_path: Path) -> None:
    writer = StreamWriter(tmp_path / "store", "ORDERS")
    for _ in range(12):
        for _ in range(8):
            writer.append(b"orders", os.urandom(50_000))
        writer.seal()
    target = tmp_path / "place"
    command = [sys.executable, "-m", "jetbroker", "store", "ship", str(tmp_path / "store"), str(target)]
    slow = subprocess.Popen([*command, "--rate", "4MB"], cwd=ROOT)
    try:
        while not list(target.glob("objects/*/*/*/*4[19].*.seg")):  # some are there, the last is not
            assert slow.poll() is None
            time.sleep(0.005)
        slow.send_signal(signal.SIGKILL)
    finally:
        slow.kill()
        slow.wait()
    there = len(list(target.glob("objects/*/*/*/0*.seg")))
    assert 0 < there < 12
    assert stores.list_streams(target) == []  # no manifest names them
    done = subprocess.run([*command, "--json"], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout)["objects"] == 12 - there
    assert rows(target) == rows(tmp_path / "store")


def test_the_rate_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    pace = Pace(1000)
    for _ in range(10):
        pace(500)
    assert clock[0] == pytest.approx(105) and pace.moved == 5000


def test_another_store_is_not_shipped_over(store: Path, url: str, tmp_path: Path) -> None:
    write_store_marker(store, epoch="a")
    ship(store, url)
    write_store_marker(store, epoch="b")
    with pytest.raises(PlaceError, match="another store was shipped there; give this one a place of its own"):
        ship(store, url)


def one_object(folder: Path) -> Path:
    return sorted(folder.glob("objects/*/*/*/*.seg"))[0]


def half_copied(folder: Path) -> None:
    one_object(folder).unlink()


def cut_off(folder: Path) -> None:
    os.truncate(one_object(folder), 100)


def damaged(folder: Path) -> None:
    path = one_object(folder)
    path.write_bytes(path.read_bytes().replace(b'"n"', b'"m"'))


def without_marker(folder: Path) -> None:
    (folder / "shipped.json").unlink()
    shutil.rmtree(folder / "objects")


def torn_manifest(folder: Path) -> None:
    path = folder / form.manifest_name("$G", "ORDERS")
    os.truncate(path, path.stat().st_size // 2)


def newer(folder: Path) -> None:
    write_checked(folder / "shipped.json", {"shipped": 2})


def newer_format(folder: Path) -> None:
    write_checked(folder / "shipped.json", {"shipped": 1, "epoch": "a", "format": 99, "domain": None})


@pytest.mark.parametrize(
    ("spoil", "error", "said"),
    [
        (half_copied, PlaceError, "No such file or directory[:;] it is half copied; ship it again with --check"),
        (cut_off, PlaceError, "half copied|is damaged: its checksum is not that of its manifest"),
        (without_marker, StoreReadError, "no shipped store|no store of jetbroker"),
        (torn_manifest, PlaceError, "is damaged or half copied: ship the store again"),
        (newer, StoreVersionError, r"newer release \(layout 2, this one reads 1\): update jetbroker"),
        (newer_format, StoreVersionError, "has format 99"),
    ],
)
def test_what_is_not_whole_is_told(
    store: Path, tmp_path: Path, spoil: Callable[[Path], None], error: type[Exception], said: str
) -> None:
    place = tmp_path / "place"
    ship(store, str(place))
    spoil(place)
    with pytest.raises(error, match=said):
        rows(place)
    with pytest.raises(error, match=said):
        restore(place_of(place), tmp_path / "again", Until(), Pace())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["place", "store"]
    if error is PlaceError:
        ship(store, str(place), check=True)
        assert len(rows(place)) == 18


def test_what_a_killed_restore_has_left_is_no_obstacle(store: Path, tmp_path: Path) -> None:
    ship(store, str(tmp_path / "place"))
    left = tmp_path / ".again.restoring" / "jetstream"
    left.mkdir(parents=True)
    (left / "half.seg").write_bytes(b"x")
    restore(place_of(tmp_path / "place"), tmp_path / "again", Until(), Pace())
    assert len(rows(tmp_path / "again")) == 18
    assert not list(tmp_path.glob("again/**/half.seg")) and not (tmp_path / ".again.restoring").exists()


def test_a_damaged_object_is_not_restored_and_its_records_are_not_read(store: Path, tmp_path: Path) -> None:
    ship(store, str(tmp_path / "place"))
    damaged(tmp_path / "place")
    with pytest.raises(
        PlaceError, match="is damaged: its checksum is not that of its manifest; ship it again with --check"
    ):
        restore(place_of(tmp_path / "place"), tmp_path / "again", Until(), Pace())
    assert not (tmp_path / "again").exists()
    assert seqs(tmp_path / "place", verify=True) == list(range(11, 21))
    assert ship(store, str(tmp_path / "place"))[0].objects == 0
    assert ship(store, str(tmp_path / "place"), check=True)[0].objects == 1
    assert len(rows(tmp_path / "place")) == 18


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_manifest_of_anything_is_told(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    sound: dict[str, Any] = SOUND
    key = data.draw(st.sampled_from(sorted(sound)))
    anything = st.one_of(
        st.none(), st.integers(), st.text(max_size=5), st.lists(st.lists(st.integers(), max_size=3), max_size=2)
    )
    changed: Any = {**sound, key: data.draw(anything)}
    if data.draw(st.booleans()):
        inner = data.draw(st.sampled_from(sorted(sound["segments"][0])))
        changed = {**sound, "segments": [{**sound["segments"][0], inner: data.draw(anything)}]}
    try:
        form.decode_manifest(encode_document(changed), "m.json")
    except (PlaceError, StoreVersionError) as error:
        assert str(error).startswith("m.json ")


SOUND = {
    "shipped": 1,
    "stream": {"name": "S", "account": "A", "created": 0, "stream_id": 5, "config": {}},
    "domain": None,
    "at": 1,
    "last_seq": 9,
    "damaged": [[1, 2]],
    "segments": [
        {
            "object": f"{1:020d}.abc.seg", "size": 500, "sha256": hashlib.sha256(b"").hexdigest(), "source": [1, 2, 3],
            "first_seq": 1, "last_seq": 9, "records_start": 60, "limit": None, "messages": 9, "bytes": 9,
            "first_ns": 1, "last_ns": 2, "deleted": "", "torn": "",
        }
    ],
    "consumers": [],
    "dropped": [["objects/A/S/5/x", 1]],
}  # fmt: skip


def test_a_sound_manifest_is_taken() -> None:
    made = form.decode_manifest(encode_document(SOUND), "m.json")
    assert made.segments[0].part.last_seq == 9
    assert form.decode_manifest(made.encode(), "m.json") == made


def test_the_rest_of_a_write_that_was_killed_is_removed_in_time(store: Path, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/place"
    ship(store, url)
    segment = next((tmp_path / "place" / "objects").rglob("*.seg"))
    rest = segment.with_name(f"{segment.name}.77.part")
    rest.write_bytes(b"half")
    for keep_dropped in (3600, 0):
        ship(store, url, keep_dropped=keep_dropped)
        assert rows(url) == [row for row in rows(store) if row["seq"] <= 20]
        assert rest.exists() == (keep_dropped > 0)
