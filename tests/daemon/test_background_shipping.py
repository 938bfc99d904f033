"""`jetstream { ship {} }`: a broker keeps a copy of its store elsewhere, by a process beside it."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.js.api import StreamConfig

from jetbroker.store.offline import segment_cache
from tests.daemon.test_store_shipping import consumed, scanned
from tests.support import process
from tests.support.http import get_json, monitor_port
from tests.support.process import JETBROKER_COMMAND
from tests.support.reloads import Edited
from tests.support.s3 import BUCKET, LOGIN, s3_server

pytest.importorskip("pyarrow")
# A process starts, and imports, for each configuration. It is nice: beside busy ones it gets little of a processor.
SHIPPER_S = 200.0
pytestmark = pytest.mark.timeout(3 * SHIPPER_S)


def configuration(store: Path, ship: str) -> str:
    block = f'ship {{ {ship}, interval: "1s" }}' if ship else ""
    return f'http: "127.0.0.1:-1"\ndebug: true\njetstream {{ store_dir: "{store}"\n{block} }}\n'


def broker(tmp_path: Path, ship: str) -> Edited:
    return Edited(tmp_path / "broker.conf", configuration(tmp_path / "store", ship), JETBROKER_COMMAND)


@asynccontextmanager
async def connected(server: Edited) -> AsyncIterator[Client]:
    client = await nats.connect(server.url)
    yield client
    await client.close()


async def shipper_told(server: Edited, text: str, after: int = 0) -> None:
    """The broker's log has a line with `text`, of what its shipper did."""
    await asyncio.to_thread(server.wait_for, text, after, SHIPPER_S)


async def copied(server: Edited, url: object) -> None:
    """A pass that began after this call has come to its end."""
    for _ in range(2):
        seen = len(server.log)
        await shipper_told(server, f"The copy at {url} has", seen)


def shippers(server: Edited) -> list[int]:
    """The broker's children: processes that ship."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == server.pid:
            found.append(int(folder.name))
    return found


def is_gone(pid: int) -> bool:
    """A process that nobody has waited for yet is gone, too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def wait_gone(pid: int) -> None:
    async with asyncio.timeout(SHIPPER_S):
        while not is_gone(pid):
            await asyncio.sleep(0.02)


async def test_the_copy_follows_the_store_and_the_configuration(tmp_path: Path) -> None:
    place, other = tmp_path / "place", tmp_path / "other"
    with broker(tmp_path, f'url: "{place}", unsealed: true, rate: "20MB"') as server:
        async with connected(server) as client:
            js = client.jetstream()
            await js.add_stream(StreamConfig("S", subjects=["s.>"]))
            for number in range(20):
                await js.publish(f"s.{number % 3}", b"%d" % number)
            await js.delete_msg("S", 7)
            await copied(server, place)
            assert scanned(place) == await consumed(client, "S")
            figures = get_json(monitor_port(server), "/jsz")["ship"]
            assert (figures["url"], figures["streams"], figures["segments"]) == (str(place), 1, 1)
            assert figures["passes"] >= 2 and figures["objects"] >= 1 and figures["moved"] >= 2 * figures["bytes"] > 0
            assert "error" not in figures and figures["last_pass"].endswith("Z")
            (shipper,) = shippers(server)
            assert os.getpriority(os.PRIO_PROCESS, shipper) == os.getpriority(os.PRIO_PROCESS, server.pid) + 10

            text = configuration(tmp_path / "store", f'url: "{other}", unsealed: true')
            lines = await asyncio.to_thread(server.reload, text)
            assert f"[INF] Reloaded: jetstream ship = {other}".replace(str(tmp_path), "DIR") in lines
            await wait_gone(shipper)
            await js.publish("s.1", b"later")
            await copied(server, other)
            assert scanned(other) == await consumed(client, "S") and len(scanned(place)) == 19
            with urllib.request.urlopen(f"http://127.0.0.1:{monitor_port(server)}/metrics", timeout=30) as answer:
                metrics = answer.read().decode()
            assert "jetbroker_ship_failing{" in metrics and "jetbroker_ship_passes_total{" in metrics

            for damaged in place.glob("objects/*/*/*/*.seg"):
                damaged.write_bytes(bytes(damaged.stat().st_size))
            text = configuration(tmp_path / "store", f'url: "{place}", unsealed: true, check: true')
            await asyncio.to_thread(server.reload, text)
            await copied(server, place)
            assert scanned(place) == scanned(other)

            (shipper,) = shippers(server)
            lines = await asyncio.to_thread(server.reload, configuration(tmp_path / "store", ""))
            assert "[INF] Reloaded: jetstream ship = disabled" in lines
            await wait_gone(shipper)
            assert "ship" not in get_json(monitor_port(server), "/jsz")
            assert await consumed(client, "S")


async def test_trouble_is_told_once_and_shipping_goes_on_behind_it(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.write_bytes(b"")  # a file where the folder should be
    with broker(tmp_path, f'url: "{place}", unsealed: true') as server:
        async with connected(server) as client:
            await client.jetstream().add_stream(StreamConfig("S", subjects=["s"]))
            await client.jetstream().publish("s", b"1")
            why = f"{place}/shipped.json: Not a directory"
            failed = f"[ERR] Shipping the store to {place} failed: "
            await shipper_told(server, f"{failed}{why}; next try in 1s")
            async with asyncio.timeout(SHIPPER_S):
                while (figures := get_json(monitor_port(server), "/jsz")["ship"])["failures"] < 2:
                    await asyncio.sleep(0.1)
            assert figures["error"] == why
            place.unlink()
            await shipper_told(server, f"[INF] The copy at {place} has")
            await copied(server, place)
            assert [row[0] for row in scanned(place)] == [1]

            (shipper,) = shippers(server)
            os.kill(shipper, signal.SIGKILL)
            ended = "its process ended with exit code -9; next try in 1s"
            await asyncio.to_thread(server.wait_for, f"{failed}{ended}")
            await client.jetstream().publish("s", b"2")
            await copied(server, place)
            assert [row[0] for row in scanned(place)] == [1, 2]
            (shipper,) = shippers(server)
        assert sum("[ERR]" in line for line in server.log) == 2
    assert is_gone(shipper) and "Traceback" not in "\n".join(server.log)


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    with s3_server() as environment:
        yield environment


async def test_a_broker_killed_while_it_ships_takes_the_shipper_along_and_the_next_one_goes_on(
    tmp_path: Path, s3: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**s3, segment_cache.FOLDER: str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    url = f"s3://{BUCKET}/killed"
    rng = random.Random(1)
    slow = broker(tmp_path, f'url: "{url}", unsealed: true, rate: 300000')
    with slow as server:
        async with connected(server) as client:
            await client.jetstream().add_stream(StreamConfig("S", subjects=["s"]))
            for _ in range(30):
                await client.jetstream().publish("s", rng.randbytes(100_000))
        async with asyncio.timeout(SHIPPER_S):  # it is in the middle of an object
            while get_json(monitor_port(server), "/jsz")["ship"]["moved"] < 1_000_000:
                await asyncio.sleep(0.05)
        (shipper,) = shippers(server)
        server.kill()
        await wait_gone(shipper)
    with broker(tmp_path, f'url: "{url}", unsealed: true, check: true') as server:
        await shipper_told(server, f"The copy at {url} has 1 segments of 1 streams")
        async with connected(server) as client:
            assert scanned(url) == await consumed(client, "S")
    assert not any("[ERR]" in line for line in server.log)


def test_a_bucket_that_cannot_be_reached_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("s3fs")
    for name, value in LOGIN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{process.free_port()}")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with broker(tmp_path, 'url: "s3://bucket/x"') as server:
        line = server.wait_for("Shipping the store to s3://bucket/x failed: ", 0, SHIPPER_S)
        assert "onnect" in line and "next try in 1s" in line
        began = time.monotonic()
    assert server.exit_code == 0 and time.monotonic() - began < process.STOP_TIMEOUT_S
