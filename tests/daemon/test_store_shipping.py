"""`jetbroker store ship` beside a running broker, and a broker on what `store restore` makes of it."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import threading
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StoreCompression, StreamConfig

import jetbroker
from jetbroker.store.offline import stores
from jetbroker.store.offline.places import place_of
from jetbroker.store.shipping import shipper as shipping
from jetbroker.store.shipping.shipper import Shipper
from tests.support import process
from tests.support.store_command import Run
from tests.support.stores import StreamWriter

pa = pytest.importorskip("pyarrow")

Row = tuple[int, str, bytes, int]


async def consumed(client: Client, stream: str) -> list[Row]:
    """What a consumer gets: sequence, subject, payload, time in microseconds."""
    js = client.jetstream(timeout=30)
    there = (await js.stream_info(stream)).state.messages
    found: list[Row] = []
    subscription = await js.pull_subscribe(
        "", stream=stream, config=ConsumerConfig(ack_policy=AckPolicy.NONE, deliver_policy=DeliverPolicy.ALL)
    )
    while there and len(found) < there:
        for message in await subscription.fetch(500, timeout=30):
            tokens = message.reply.split(".")  # nats-py rounds the time
            found.append((int(tokens[5]), message.subject, message.data, int(tokens[7]) // 1000))
    await subscription.unsubscribe()
    return found


def scanned(store: object, stream: str = "S") -> list[Row]:
    table = jetbroker.scan(str(store), stream, columns="seq,subject,data,time", verify=True).read_all()
    table = table.set_column(3, "time", table.column("time").cast(pa.int64()))
    return [tuple(row.values()) for row in table.to_pylist()]


async def test_what_a_running_broker_holds_is_shipped_and_served_by_another(tmp_path: Path, run: Run) -> None:
    rng = random.Random(5)
    place, again = tmp_path / "place", tmp_path / "again"
    config = StreamConfig("S", subjects=["s.>"], compression=StoreCompression.S2)
    with process.jetbroker("-js", "-sd", str(tmp_path / "store")) as server:
        client = await nats.connect(server.url)
        js = client.jetstream()
        await js.add_stream(config)
        for number in range(100):
            await js.publish(f"s.{number % 7}", rng.randbytes(200_000 if number < 90 else 100))
        worker = await js.pull_subscribe("", "work", stream="S", config=ConsumerConfig(ack_wait=3600))
        for message in await worker.fetch(10, timeout=20):
            if message.metadata.sequence.stream % 2:
                await message.ack_sync(timeout=30)
        for seq in (3, 50, 95):
            await js.delete_msg("S", seq)
        code, out, err = run("ship", tmp_path / "store", place, "--json")
        sealed = json.loads(out)
        assert (code, err, sealed["segments"]) == (0, "", 2) and 70 < sealed["last_seq"] < 90
        everything = await consumed(client, "S")
        assert scanned(place) == [row for row in everything if row[0] <= sealed["last_seq"]]
        code, out, err = run("ship", tmp_path / "store", place, "--unsealed")
        assert (code, err) == (0, "") and "segments up to sequence 100" in out
        assert scanned(place) == everything and len(everything) == 97
        info = json.loads(run("info", place, "S", "--json")[1])
        assert [each["ack_pending"] for each in info["consumers"] if each["name"] == "work"] == [5]
        await js.publish("s.1", b"later")
        await client.close()
    code, out, err = run("restore", place, again)
    assert (code, out, err) == (0, "$G > S: 97 messages, up to sequence 100\n", "")
    assert run("restore", place, tmp_path / "cut", "--stream", "S", "--sequence", 4)[0] == 0
    with process.jetbroker("-js", "-sd", str(tmp_path / "cut")) as server:
        client = await nats.connect(server.url)
        worker_info = await client.jetstream().consumer_info("S", "work")  # it was ahead of what is there
        assert worker_info.delivered is not None and worker_info.delivered.stream_seq == 4
        assert [row[0] for row in await consumed(client, "S")] == [1, 2, 4]
        await client.close()
    with process.jetbroker("-js", "-sd", str(again)) as server:
        client = await nats.connect(server.url)
        js = client.jetstream()
        assert await consumed(client, "S") == everything
        pending = (await js.consumer_info("S", "work")).num_ack_pending
        assert pending == 5
        assert (await js.publish("s.1", b"next")).seq == 101
        assert server.log and not any("[ERR]" in line or "[WRN]" in line for line in server.log)
        await client.close()


async def test_a_copy_made_while_a_broker_writes_removes_and_packs_is_whole(tmp_path: Path) -> None:
    rng = random.Random(3)
    place = tmp_path / "place"
    ended = threading.Event()
    passes: list[tuple[int, list[tuple[int, int]]]] = []

    def go_on() -> None:
        shipper = Shipper(tmp_path / "store", place_of(place), unsealed=True, keep_dropped=0)
        while not (passes and ended.is_set()):
            list(shipper.ship())
            snapshot = stores.open_stream(place, "S")
            read = snapshot.to_arrow(["seq"], verify=True).num_rows
            passes.append((read - snapshot.messages, list(snapshot.damaged)))

    with process.jetbroker("-js", "-sd", str(tmp_path / "store")) as server:
        client = await nats.connect(server.url)
        js = client.jetstream()
        await js.add_stream(StreamConfig("S", subjects=["s.>"], compression=StoreCompression.S2, max_bytes=15_000_000))
        shipping = asyncio.create_task(asyncio.to_thread(go_on))
        for _ in range(24):
            await asyncio.gather(*(js.publish(f"s.{rng.randrange(9)}", rng.randbytes(30_000)) for _ in range(30)))
            state = (await js.stream_info("S")).state
            await js.delete_msg("S", rng.randrange(state.last_seq - 29, state.last_seq + 1))
        ended.set()
        await shipping
        list(Shipper(tmp_path / "store", place_of(place), unsealed=True).ship())
        served = await consumed(client, "S")
        assert scanned(place) == served and 400 < len(served) < 600
        assert {str(found) for found in passes} == {"(0, [])"}
        await client.close()


async def test_a_restored_store_ends_at_a_sequence_or_a_time(tmp_path: Path, run: Run) -> None:
    writer = StreamWriter(tmp_path / "store", "S", config={"name": "S", "subjects": ["s"], "storage": "file"})
    for number in range(1, 31):
        writer.append(b"s", b"%d" % number)
        if number in (10, 20):
            writer.seal()
    writer.delete([(4, 4), (15, 16)])
    writer.close()
    assert run("ship", tmp_path / "store", tmp_path / "place", "--unsealed")[0] == 0
    until = "2023-11-14T22:13:20.018Z"  # of message 18
    for target, words, last in (
        ("cut", ("--stream", "S", "--sequence", 16), 16),
        ("early", ("--until", until), 17),
        ("none", ("--until", "2020-01-01"), 0),
    ):
        code, out, err = run("restore", tmp_path / "place", tmp_path / target, *words)
        assert (code, err) == (0, "") and out.endswith(f"up to sequence {last}\n")
        with process.jetbroker("-js", "-sd", str(tmp_path / target)) as server:
            client = await nats.connect(server.url)
            expected = [(seq, b"%d" % seq) for seq in range(1, last + 1) if seq not in (4, 15, 16)]
            assert [(row[0], row[2]) for row in await consumed(client, "S")] == expected
            assert (await client.jetstream().publish("s", b"next")).seq == last + 1
            await client.close()
        assert stores.open_stream(tmp_path / target, "S").damaged == []


async def chained(client: Client) -> str:
    """The head of the stream's hash chain, once all messages are in it."""
    while True:
        info = await client.jetstream().stream_info("S")
        head = (info.config.metadata or {}).get("jetbroker.hash_chain.head", "")
        if head.startswith(f"{info.state.last_seq}:"):
            return head
        await asyncio.sleep(0.02)


async def test_a_tamper_evident_stream_is_one_in_its_copy_and_behind_a_restore(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "CHAIN_PIECE_BYTES", 700)  # about nine entries
    place, again, cut = tmp_path / "place", tmp_path / "again", tmp_path / "cut"
    shipper = Shipper(tmp_path / "store", place_of(place), unsealed=True, keep_dropped=0)
    with process.jetbroker("-js", "-sd", str(tmp_path / "store")) as server:
        client = await nats.connect(server.url)
        js = client.jetstream()
        await js.add_stream(StreamConfig("S", subjects=["s"], metadata={"jetbroker.hash_chain": "sha256"}))
        heads = []
        for number in range(1, 31):
            await js.publish("s", b"number %d" % number)
            if number % 15 == 0:
                heads.append(await chained(client))
                list(shipper.ship())
        await js.delete_msg("S", 7)
        first, last = list(shipper.ship()), heads[-1]
        assert len(list(place.glob("objects/*/*/*/hash-chain-*"))) > 3 and first[0].objects <= 2
        code, out, err = run("verify", place, "S", "--head", heads[0])
        assert (code, out, err) == (0, f"$G > S: intact, 29 messages match, 1 removed; sha256 {last}\n", "")
        await client.close()
    assert run("restore", place, again)[0] == 0 and run("verify", again, "S", "--head", last)[0] == 0
    assert run("restore", place, cut, "--stream", "S", "--sequence", 15)[0] == 0
    code, out, err = run("verify", cut)
    assert (code, out, err) == (0, f"$G > S: intact, 14 messages match, 1 removed; sha256 {heads[0]}\n", "")
    with process.jetbroker("-js", "-sd", str(again)) as server:
        client = await nats.connect(server.url)
        await client.jetstream().publish("s", b"next")
        assert (await chained(client)).startswith("31:")
        await client.close()
    assert run("verify", again, "S", "--head", last)[0] == 0
    (segment,) = place.glob("objects/*/*/*/*.seg")
    whole = segment.read_bytes()
    segment.write_bytes(whole.replace(b"number 20", b"number 02"))
    code, out, err = run("verify", place)
    assert (code, err) == (1, "") and "NOT INTACT: damaged: 20" in out
    segment.write_bytes(whole)
    piece = min(place.glob("objects/*/*/*/hash-chain-00000001*"))
    piece.write_bytes(bytes(piece.stat().st_size))
    assert run("verify", place)[0] == 1
    piece.unlink()
    code, out, err = run("verify", place)
    assert code == 2 and "it is half copied; ship it again with --check" in err


def test_damage_is_told_and_shipped_as_it_is(tmp_path: Path, run: Run) -> None:
    writer = StreamWriter(tmp_path / "store", "S")
    for number in range(9):
        writer.append(b"s", b"number %d" % number)
    path = writer.seal()
    path.write_bytes(path.read_bytes().replace(b"number 4", b"number 5"))
    code, out, err = run("ship", tmp_path / "store", tmp_path / "place")
    assert (code, err) == (1, "jetbroker: stream 'S': these messages cannot be read: 5\n") and "up to sequence 9" in out
    assert [row[0] for row in scanned(tmp_path / "place")] == [1, 2, 3, 4, 6, 7, 8, 9]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("ship", "nowhere", "place"), 2, "'nowhere': no such directory"),
        (("ship", "store", "place", "--rate", "fast"), 2, "--rate: 'fast' is no size: use 500000, 50MB or 2GB"),
        (("ship", "store", "place", "--rate", "0"), 2, "--rate: nothing moves at 0 bytes a second"),
        (("ship", "store", "place", "--every", "soon"), 2, "argument --every: invalid"),
        (
            ("ship", "store", "nothing://x"),
            2,
            "nothing://x: Protocol not known: nothing; name a folder, s3://…, or a URL",
        ),
        (("ship", "store", "s3://bucket/x"), 2, "s3://bucket/x/shipped.json: "),
        (("ship", "store", "store/jetstream/copy"), 2, "store/jetstream/copy is within the store: ship it elsewhere"),
        (("ship", "store", "file"), 2, "file/shipped.json: Not a directory"),
        (("restore", "store", "again"), 2, "no shipped store (shipped.json is missing)"),
        (("restore", "s3://bucket/x", "again"), 2, "s3://bucket/x/shipped.json: "),
        (("restore", "place", "store"), 2, "store' is there already: restore into a folder that is absent or empty"),
        (("restore", "place", "no/where"), 2, "there is no folder"),
        (("restore", "place", "again", "--stream", "X"), 2, "no stream 'X' of account '$G'"),
        (("restore", "place", "again", "--sequence", "5"), 2, "--sequence needs a number from 1 on, and --stream"),
        (("restore", "place", "again", "--until", "noon"), 2, "--until: 'noon' is neither"),
        (("verify", "place", "S"), 2, "stream 'S' has no hash chain"),
        (("verify", "place", "X"), 2, "no stream 'X' of account '$G'"),
        (("ls", "s3://bucket/x"), 2, "s3://bucket/x/shipped.json: "),
        (("cat", "place", "X"), 2, "no stream 'X' of account '$G'"),
    ],
)
def test_mistakes_are_one_sentence(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int, said: str
) -> None:
    if any("://" in word for word in words):
        pytest.importorskip("s3fs")
    monkeypatch.chdir(tmp_path)
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{process.free_port()}",
        "AWS_MAX_ATTEMPTS": "1",
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
    }.items():
        monkeypatch.setenv(name, value)
    writer = StreamWriter(tmp_path / "store", "S")
    writer.append(b"s", b"1")
    writer.seal()
    (tmp_path / "file").write_bytes(b"")
    assert run("ship", "store", "place")[0] == 0
    found = run(*words)
    assert found[0] == code and said in found[2], found
    assert "Traceback" not in found[2] and len(found[2].splitlines()) <= (1 if "usage" not in found[2] else 9)
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("url", "package"),
    [("gs://bucket/x", "gcsfs"), ("abfs://container/x", "adlfs"), ("s3://bucket/x", "jetbroker[ship]")],
)
def test_a_package_that_is_missing_is_named(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch, url: str, package: str
) -> None:
    known = pytest.importorskip("fsspec.registry")._registry  # what other tests have imported
    for name in ("gcsfs", "adlfs", "s3fs"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(known, url.partition(":")[0], raising=False)
    StreamWriter(tmp_path / "store", "S").close()
    code, _, err = run("ship", tmp_path / "store", url)
    assert code == 2 and len(err.splitlines()) == 1
    assert err.startswith(f"jetbroker: {url}: ") and package in err.rpartition(": pip install ")[2]


def test_a_shipper_that_goes_on_tells_of_trouble_and_ends_on_sigterm(tmp_path: Path) -> None:
    writer = StreamWriter(tmp_path / "store", "S")
    writer.append(b"s", b"1")
    writer.seal()
    (tmp_path / "place").write_bytes(b"")  # a file where the folder should be
    with subprocess.Popen(
        [sys.executable, "-m", "jetbroker", "store", "ship", tmp_path / "store", tmp_path / "place", "--every", "0.1"],
        cwd=process.ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as shipper:  # fmt: skip
        try:
            assert shipper.stderr is not None and shipper.stdout is not None
            assert "place/shipped.json: Not a directory; next try in 0.1 s" in shipper.stderr.readline()
            (tmp_path / "place").unlink()
            assert shipper.stdout.readline() == "$G > S: 1 objects sent, 312 B; 1 segments up to sequence 1\n"
            assert [row[0] for row in scanned(tmp_path / "place")] == [1]
            shipper.terminate()
            assert shipper.wait(30) == 130
            assert "Traceback" not in shipper.stderr.read()
        finally:
            shipper.kill()


def test_help_shows_examples(run: Run) -> None:
    for command, example in (("ship", "--every 60 --rate 50MB"), ("restore", "--until 2026-01-31T12:00:00Z")):
        code, out, _ = run(command, "--help")
        assert code == 0 and example in out
