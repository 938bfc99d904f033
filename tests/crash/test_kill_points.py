"""kill -9 at each single call on the disk: roll, compression, erasure in what is compressed, create and delete of
streams and consumers, purge, recovery itself.

Nothing acknowledged is lost, nothing removed comes back, a half-made stream is whole or absent.
JETBROKER_KILL_POINTS sets how many points are visited (0: all of them).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, StoreCompression
from nats.js.errors import NotFoundError

from tests.support.process import ServerProcess

POINTS = int(os.environ.get("JETBROKER_KILL_POINTS", "8"))
SCRIPT = Path(__file__).resolve().parent.parent / "support" / "killed_broker.py"
SEGMENT_BYTES = 2000
CALLS = 240  # about as many as start and workload make
# for one connection to one broker, everything that is asked over it included
SESSION_TIMEOUT_S = 20.0
# per point a second is usual; a point that hangs is ended by the bounds within, which name it
pytestmark = pytest.mark.timeout(120 + 3 * (POINTS or CALLS))


@dataclass
class Confirmed:
    """What the broker answered; `begun`: what was asked last, which may have happened or not."""

    streams: dict[str, dict[int, bytes]] = field(default_factory=dict)
    consumers: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    purged: set[int] = field(default_factory=set)
    erased: set[int] = field(default_factory=set)
    begun: str = ""


def broker(store: Path, at: int) -> ServerProcess:
    command = [sys.executable, str(SCRIPT), str(at), str(SEGMENT_BYTES)]
    # the process helper puts its address flags behind the command
    return ServerProcess(command, ("-js", "-sd", str(store)))


async def fill(js: JetStreamContext, done: Confirmed, stream: str, count: int) -> None:
    done.begun = f"create {stream}"
    # one stream is compressed
    compression = StoreCompression.S2 if stream == "A" else StoreCompression.NONE
    await js.add_stream(name=stream, subjects=[f"{stream}.>"], compression=compression)
    done.streams[stream] = {}
    done.begun = ""
    for i in range(count):
        payload = b"%d " % i + bytes(150)
        ack = await js.publish(f"{stream}.{i % 2}", payload, timeout=3)
        done.streams[stream][ack.seq] = payload


async def connect(url: str, disconnected: Callable[[], Awaitable[None]] | None = None) -> Client:
    """One attempt after the first, at once: the client would try a dead server for two minutes by default."""
    return await nats.connect(
        url,
        allow_reconnect=False,
        connect_timeout=3,
        max_reconnect_attempts=1,
        reconnect_time_wait=0,
        error_cb=_ignore,
        disconnected_cb=disconnected,
    )


async def workload(url: str, done: Confirmed) -> None:
    cut = asyncio.Event()

    async def disconnected() -> None:
        cut.set()

    nc = await connect(url, disconnected)
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
    done.begun = "erase 5"
    await js.delete_msg("A", 5)
    done.erased.add(5)
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
    nc = await connect(url)
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
            doubtful = doubtful or (done.begun == "erase 5" and stream == "A" and seq == 5)
            gone = stream == "A" and (seq in done.purged or seq in done.erased)
            try:
                stored = await js.get_msg(stream, seq)
            except NotFoundError:
                assert doubtful or gone, (stream, seq)
                continue
            assert not gone, (stream, seq)
            assert stored.data == payload
    if done.begun.startswith("create "):
        # whole or absent
        with contextlib.suppress(NotFoundError):
            assert (await js.stream_info(done.begun.split()[1])).state.messages == 0
    for name in done.consumers:
        assert (await js.consumer_info("A", name)).config.durable_name == name
    await nc.close()


@contextlib.contextmanager
def naming(at: int, *servers: ServerProcess) -> Iterator[None]:
    """Prints the point and its time; what fails within tells the point and the servers' logs."""
    begin = time.monotonic()
    try:
        yield
    except Exception as error:
        for server in servers:
            error.add_note(f"exit code {server.exit_code}, log:\n" + "\n".join(server.log))
        error.add_note(f"killed at call {at}, after {time.monotonic() - begin:.1f} s")
        raise
    print(f"call {at}: {time.monotonic() - begin:.1f} s, exit codes {[server.exit_code for server in servers]}")


def run_until_killed(server: ServerProcess, done: Confirmed) -> bool:
    """False when the workload was through before the n-th call. Only the broker's own end excuses a failure."""
    try:
        server.start()
    except RuntimeError:
        if server.exit_code != -signal.SIGKILL:
            raise
        return True
    try:
        asyncio.run(asyncio.wait_for(workload(server.url, done), SESSION_TIMEOUT_S))
    except (NatsError, OSError, TimeoutError):
        try:
            killed = server.wait() == -signal.SIGKILL
        except subprocess.TimeoutExpired:
            killed = False
        if not killed:
            raise
        return True
    finally:
        server.kill()
    return False


def restart_and_verify(store: Path, server: ServerProcess, done: Confirmed) -> None:
    with server:
        asyncio.run(asyncio.wait_for(verify(server.url, done), SESSION_TIMEOUT_S))
        assert [line for line in server.log if "[ERR]" in line] == []
    hidden = [path for path in store.rglob(".*") if path.is_dir()]
    assert hidden == []


def test_kill_at_every_call(tmp_path: Path) -> None:
    step = 1 if POINTS == 0 else max(1, CALLS // POINTS)
    at = 1 + step // 2
    killed = True
    while killed:
        store, done = tmp_path / str(at), Confirmed()
        dying, healthy = broker(store, at), broker(store, 0)
        with naming(at, dying, healthy):
            killed = run_until_killed(dying, done)
            restart_and_verify(store, healthy, done)
        shutil.rmtree(store)
        at += step


def test_kill_during_recovery(tmp_path: Path) -> None:
    """Again and again at the next call, on one store, until it gets through."""
    store, done = tmp_path / "s", Confirmed()
    first = broker(store, 0)
    with naming(0, first):
        assert not run_until_killed(first, done)
    for at in range(1, 100, 1 if POINTS == 0 else 5):
        server = broker(store, at)
        with naming(at, server):
            try:
                server.start()
            except RuntimeError:
                if server.exit_code != -signal.SIGKILL:
                    raise
                continue
            finally:
                server.kill()
        break
    last = broker(store, 0)
    with naming(0, last):
        restart_and_verify(store, last, done)
