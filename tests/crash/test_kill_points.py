"""kill -9 at each single call on the disk: roll, create and delete of streams and consumers, purge, recovery itself.

Nothing acknowledged is lost, nothing removed comes back, a half-made stream is whole or absent.
JETBROKER_KILL_POINTS sets how many points are visited (0: all of them).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

import nats
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig
from nats.js.errors import NotFoundError

from tests.support.process import ServerProcess

POINTS = int(os.environ.get("JETBROKER_KILL_POINTS", "8"))
SCRIPT = Path(__file__).resolve().parent.parent / "support" / "killed_broker.py"
SEGMENT_BYTES = 2000


@dataclass
class Confirmed:
    """What the broker answered; `begun`: what was asked last, which may have happened or not."""

    streams: dict[str, dict[int, bytes]] = field(default_factory=dict)
    consumers: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    purged: set[int] = field(default_factory=set)
    begun: str = ""


def broker(store: Path, at: int) -> ServerProcess:
    command = [sys.executable, str(SCRIPT), str(at), str(SEGMENT_BYTES)]
    # the process helper puts its address flags behind the command
    return ServerProcess(command, ("-js", "-sd", str(store)))


async def fill(js: JetStreamContext, done: Confirmed, stream: str, count: int) -> None:
    done.begun = f"create {stream}"
    await js.add_stream(name=stream, subjects=[f"{stream}.>"])
    done.streams[stream] = {}
    done.begun = ""
    for i in range(count):
        payload = b"%d " % i + bytes(150)
        ack = await js.publish(f"{stream}.{i % 2}", payload, timeout=3)
        done.streams[stream][ack.seq] = payload


async def workload(url: str, done: Confirmed) -> None:
    cut = asyncio.Event()

    async def disconnected() -> None:
        cut.set()

    nc = await nats.connect(
        url, allow_reconnect=False, connect_timeout=3, error_cb=_ignore, disconnected_cb=disconnected
    )
    steps = asyncio.ensure_future(take_steps(nc.jetstream(timeout=3), done))
    waiting = asyncio.ensure_future(cut.wait())
    await asyncio.wait({steps, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not steps.done():
        steps.cancel()
        raise ConnectionError("the broker is gone")
    with contextlib.suppress(NatsError, OSError):
        await asyncio.wait_for(nc.close(), 3)
    steps.result()


async def take_steps(js: JetStreamContext, done: Confirmed) -> None:
    await fill(js, done, "A", 30)
    await js.add_consumer("A", ConsumerConfig(durable_name="C"))
    done.consumers.add("C")
    await fill(js, done, "B", 3)
    done.begun = "purge A.1"
    await js.purge_stream("A", subject="A.1")
    done.purged = {seq for seq, payload in done.streams["A"].items() if int(payload.split()[0]) % 2}
    done.begun = "delete B"
    await js.delete_stream("B")
    done.gone.add("B")
    done.begun = ""
    await fill(js, done, "D", 15)


async def _ignore(error: Exception) -> None:
    """The connection is cut on purpose."""


async def verify(url: str, done: Confirmed) -> None:
    nc = await nats.connect(url, connect_timeout=5)
    js = nc.jetstream(timeout=5)
    for stream, messages in done.streams.items():
        try:
            info = await js.stream_info(stream)
        except NotFoundError:
            assert stream in done.gone or done.begun == f"delete {stream}"
            continue
        assert stream not in done.gone
        assert info.state.last_seq >= max(messages, default=0)
        for seq, payload in messages.items():
            doubtful = done.begun == "purge A.1" and stream == "A" and int(payload.split()[0]) % 2
            try:
                stored = await js.get_msg(stream, seq)
            except NotFoundError:
                assert doubtful or (stream == "A" and seq in done.purged), (stream, seq)
                continue
            assert not (stream == "A" and seq in done.purged), (stream, seq)
            assert stored.data == payload
    if done.begun.startswith("create "):
        # whole or absent
        with contextlib.suppress(NotFoundError):
            assert (await js.stream_info(done.begun.split()[1])).state.messages == 0
    for name in done.consumers:
        assert (await js.consumer_info("A", name)).config.durable_name == name
    await nc.close()


def run_until_killed(store: Path, at: int, done: Confirmed) -> bool:
    """False when the workload was through before the n-th call."""
    server = broker(store, at)
    try:
        server.start()
    except RuntimeError:
        return True
    try:
        asyncio.run(workload(server.url, done))
    except (NatsError, OSError, TimeoutError):
        return True
    finally:
        server.kill()
    return False


def restart_and_verify(store: Path, done: Confirmed) -> None:
    with broker(store, 0) as server:
        asyncio.run(verify(server.url, done))
        assert [line for line in server.log if "[ERR]" in line] == []
    hidden = [path for path in store.rglob(".*") if path.is_dir()]
    assert hidden == []


def test_kill_at_every_call(tmp_path: Path) -> None:
    total = 480
    step = 1 if POINTS == 0 else max(1, total // POINTS)
    for at in range(1 + step // 2, 100_000, step):
        store, done = tmp_path / str(at), Confirmed()
        killed = run_until_killed(store, at, done)
        restart_and_verify(store, done)
        shutil.rmtree(store)
        if not killed:
            break


def test_kill_during_recovery(tmp_path: Path) -> None:
    """Again and again at the next call, on one store, until it gets through."""
    store, done = tmp_path / "s", Confirmed()
    assert not run_until_killed(store, 0, done)
    for at in range(1, 100, 1 if POINTS == 0 else 5):
        server = broker(store, at)
        try:
            server.start()
        except RuntimeError:
            continue
        server.kill()
        break
    restart_and_verify(store, done)
