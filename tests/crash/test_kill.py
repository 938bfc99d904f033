"""kill -9 under mixed load, again and again on one store: nothing acknowledged is lost, nothing deleted comes back.

The model keeps what was confirmed; what was in flight at the kill may have happened or not.
JETBROKER_CRASH_ROUNDS sets how many kills there are.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from collections.abc import Coroutine
from typing import Any

import nats
import pytest
from nats.errors import Error as NatsError
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from tests.support import process
from tests.support.clients import settle

ROUNDS = int(os.environ.get("JETBROKER_CRASH_ROUNDS", "4"))
LOAD_SECONDS = 0.8
WINDOW = 200


class Model:
    """What the broker has confirmed."""

    def __init__(self) -> None:
        self.acked: dict[int, tuple[str, bytes]] = {}  # seq -> subject, payload
        self.removed: set[int] = set()  # deletion or purge was confirmed
        self.doubtful: set[int] = set()  # a deletion or purge of it was in flight
        self.confirmed: set[int] = set()  # the consumer's ack was answered
        self.published = 0

    def subject_seqs(self, subject: str) -> set[int]:
        return {seq for seq, (name, _) in self.acked.items() if name == subject}


async def publish(js: JetStreamContext, model: Model, rng: random.Random) -> None:
    async def one(subject: str, payload: bytes, slots: asyncio.Semaphore) -> None:
        try:
            ack = await js.publish(subject, payload, timeout=5)
            model.acked[ack.seq] = (subject, payload)
        finally:
            slots.release()

    slots = asyncio.Semaphore(WINDOW)
    async with asyncio.TaskGroup() as group:
        while True:
            await slots.acquire()
            model.published += 1
            payload = b"%d:" % model.published + rng.randbytes(rng.randrange(200))
            group.create_task(one(f"s.{rng.randrange(20)}", payload, slots))


async def delete(js: JetStreamContext, model: Model, rng: random.Random) -> None:
    while True:
        await asyncio.sleep(0.002)
        known = list(model.acked.keys() - model.removed - model.doubtful)
        if not known:
            continue
        seq = rng.choice(known)
        model.doubtful.add(seq)
        await js.delete_msg("S", seq)
        model.removed.add(seq)


async def purge(js: JetStreamContext, model: Model, rng: random.Random) -> None:
    while True:
        await asyncio.sleep(0.15)
        subject = f"s.{rng.randrange(20)}"
        before = model.subject_seqs(subject)
        # publishes in flight may be purged or not: everything of this subject is in doubt until it is answered
        highest = max(model.acked, default=0)
        model.doubtful |= before
        await js.purge_stream("S", subject=subject, seq=highest + 1)
        model.removed |= before
        model.doubtful |= {seq for seq in model.subject_seqs(subject) if seq <= highest}


async def consume(js: JetStreamContext, model: Model, rng: random.Random) -> None:
    sub = await js.pull_subscribe_bind("C", "S")
    while True:
        with contextlib.suppress(nats.errors.TimeoutError):
            for msg in await sub.fetch(20, timeout=1):
                if rng.random() < 0.5:
                    await msg.ack_sync(timeout=5)
                    model.confirmed.add(msg.metadata.sequence.stream)
                else:
                    await msg.ack()


async def until_killed(work: Coroutine[Any, Any, None]) -> None:
    with contextlib.suppress(NatsError, ConnectionError, OSError, ExceptionGroup, asyncio.TimeoutError):
        await work


async def load(server: process.ServerProcess, model: Model, rng: random.Random) -> None:
    """Run everything at once, kill the broker in the middle."""
    nc = await nats.connect(server.url, allow_reconnect=False, error_cb=_ignore)
    js = nc.jetstream(timeout=5)
    tasks = [asyncio.create_task(until_killed(work(js, model, rng))) for work in (publish, delete, purge, consume)]
    await asyncio.sleep(LOAD_SECONDS * rng.uniform(0.5, 1.5))
    server.kill()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    with contextlib.suppress(NatsError, OSError):
        await nc.close()


async def _ignore(error: Exception) -> None:
    """The connection is cut on purpose."""


async def stored_messages(js: JetStreamContext) -> dict[int, tuple[str, bytes]]:
    """Everything the stream holds, read through an ordered consumer."""
    found: dict[int, tuple[str, bytes]] = {}
    info = await js.stream_info("S")
    if info.state.messages == 0:
        return found
    sub = await js.subscribe("s.>", ordered_consumer=True, deliver_policy=DeliverPolicy.ALL)
    while len(found) < info.state.messages:
        msg = await sub.next_msg(timeout=10)
        found[msg.metadata.sequence.stream] = (msg.subject, msg.data)
    await sub.unsubscribe()
    return found


async def check(server: process.ServerProcess, model: Model) -> None:
    nc = await nats.connect(server.url)
    js = nc.jetstream(timeout=10)
    found = await stored_messages(js)
    lost = {seq for seq in model.acked.keys() - model.removed - model.doubtful if seq not in found}
    assert not lost, f"acknowledged but gone: {sorted(lost)[:10]} of {len(lost)}"
    wrong = {seq for seq in model.acked.keys() & found.keys() if found[seq] != model.acked[seq]}
    assert not wrong, f"other bytes than acknowledged: {sorted(wrong)[:10]}"
    revived = model.removed & found.keys()
    assert not revived, f"deleted but back: {sorted(revived)[:10]} of {len(revived)}"
    sub = await js.pull_subscribe_bind("C", "S")
    again: set[int] = set()
    pending = (await js.consumer_info("S", "C")).num_pending
    while pending > 0:
        for msg in await sub.fetch(500, timeout=10):
            again.add(msg.metadata.sequence.stream)
            pending = msg.metadata.num_pending
            await msg.ack()
    await settle(nc)
    redelivered = again & model.confirmed
    assert not redelivered, f"confirmed acks delivered again: {sorted(redelivered)[:10]} of {len(redelivered)}"
    await nc.close()
    # what is there now is settled
    for seq in model.doubtful - found.keys():
        model.removed.add(seq)
    model.doubtful.clear()
    model.acked = {**{seq: m for seq, m in model.acked.items() if seq not in model.removed}, **found}


@pytest.mark.timeout(60 + 30 * ROUNDS)
async def test_nothing_confirmed_is_undone_by_kill_9(tmp_path):
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    model = Model()
    server = process.jetbroker("-js", "-sd", str(tmp_path))
    with server:
        nc = await nats.connect(server.url)
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        await js.add_consumer(
            "S", ConsumerConfig(durable_name="C", ack_policy=AckPolicy.EXPLICIT, ack_wait=1, max_ack_pending=5000)
        )
        await nc.close()
        for _ in range(ROUNDS):
            await load(server, model, rng)
            server.start()
            await check(server, model)
    assert model.published > ROUNDS * 100
    assert model.confirmed
    assert model.removed
