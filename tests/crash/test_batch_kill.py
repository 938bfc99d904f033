"""kill -9 while atomic batches are published: each is there as a whole or not at all, and what was acked is there.

JETBROKER_KILL_POINTS sets how many points are visited (0: all of them).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from pathlib import Path

import nats
import pytest
from nats.errors import Error as NatsError

from jetbroker.store.offline.reader import open_stream
from tests.crash.test_kill_points import broker, connect
from tests.support.process import ServerProcess
from tests.support.publishes import Publish, Publisher

POINTS = int(os.environ.get("JETBROKER_KILL_POINTS", "8"))
CALLS = 120  # about as many as start and workload make
SESSION_TIMEOUT_S = 20.0
pytestmark = pytest.mark.timeout(60 + 3 * (POINTS or CALLS))

# messages per batch: some fit a segment of 2,000 bytes several times, some not at all
SIZES = (2, 7, 3, 12, 5, 1, 30, 4)


async def publish_batches(url: str, acked: list[int]) -> None:
    """Until the broker dies; the numbers of batches that were acked."""
    nc = await connect(url)
    publisher = Publisher(nc)
    await publisher.start()
    await publisher.api("STREAM.CREATE.S0", {"name": "S0", "subjects": ["s.>"], "allow_atomic": True})
    for number, size in enumerate(SIZES):
        for seq in range(1, size + 1):
            headers = [("Nats-Batch-Id", f"b{number}"), ("Nats-Batch-Sequence", str(seq))]
            if seq == size:
                headers.append(("Nats-Batch-Commit", "1"))
            message = Publish(f"s.{seq % 3}", tuple(headers), b"%d of %d " % (seq, size) + bytes(50))
            if seq < size:
                await publisher.send(message)
        answer, _ = await publisher.ask(message)
        assert json.loads(answer)["count"] == size
        acked.append(number)
        await publisher.ask(Publish("s.plain", (), bytes(40)))
    await nc.close()


async def stored_batches(url: str) -> dict[str, int]:
    """How many messages of each batch are there."""
    nc = await nats.connect(url, allow_reconnect=False)
    publisher = Publisher(nc)
    await publisher.start()
    found: dict[str, int] = {}
    with contextlib.suppress(AssertionError):  # the stream was not made
        state = (await publisher.api("STREAM.INFO.S0"))["state"]
        assert state.get("lost") is None
        for seq in range(1, state["last_seq"] + 1):
            message = await nc.jetstream().get_msg("S0", seq)
            if message.headers is not None:
                batch = message.headers["Nats-Batch-Id"]
                found[batch] = found.get(batch, 0) + 1
    await nc.close()
    return found


def killed_while(server: ServerProcess, acked: list[int]) -> None:
    try:
        server.start()
    except RuntimeError:
        if server.exit_code != -signal.SIGKILL:
            raise
        return
    try:
        asyncio.run(asyncio.wait_for(publish_batches(server.url, acked), SESSION_TIMEOUT_S))
    except (NatsError, OSError, TimeoutError, AssertionError):
        if server.wait() != -signal.SIGKILL:
            raise
    finally:
        server.kill()


def whole(found: dict[str, int], acked: list[int]) -> bool:
    expected = {f"b{number}": size for number, size in enumerate(SIZES)}
    return all(expected[batch] == count for batch, count in found.items()) and all(f"b{n}" in found for n in acked)


@pytest.mark.parametrize("at", range(1, CALLS, 1 if POINTS == 0 else CALLS // POINTS))
def test_batches_are_whole_or_absent(tmp_path: Path, at: int) -> None:
    acked: list[int] = []
    killed_while(broker(tmp_path, at), acked)
    server = broker(tmp_path, 0)
    offline: dict[str, int] = {}
    if list(tmp_path.rglob("*.seg")):
        for headers in open_stream(tmp_path, "S0").to_arrow(["headers"]).column("headers").to_pylist():
            batch = dict(headers or {}).get("Nats-Batch-Id")
            if batch:
                offline[batch[0]] = offline.get(batch[0], 0) + 1
    assert whole(offline, acked), (offline, acked)
    with server:
        found = asyncio.run(asyncio.wait_for(stored_batches(server.url), SESSION_TIMEOUT_S))
    assert whole(found, acked), (found, acked)
    assert found == offline or not found
