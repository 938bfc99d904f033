"""Pull requests, acks and deliveries, one conversation each; every function gives what the server answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from tests.support.jetstream_probe import Probe

Scenario = Callable[[Probe, str], Awaitable[Any]]
MS = 1_000_000


async def bodies(probe: Probe, name: str) -> Any:
    """Pull bodies of every kind."""
    await probe.stream(name, 40)
    await probe.consumer(name, "c")
    seen: list[Any] = []
    for body in (
        b"", b"x", b"0", b"-1", b"{}", b'{"color":1}', b'{"batch":0}', b'{"batch":-3}', b"3", b" 2 ", b'{"batch":2}',
        b'{"batch":"x"}', b'{"batch":', b"{x}", b'{"expires":-1}', b'{"expires":-1,"batch":5}', b'{"priority":10}',
        b'{"idle_heartbeat":1000000000}', b'{"idle_heartbeat":600000000,"expires":1000000000}',
        b'{"group":"A","priority":3}', b'{"no_wait":1}', b"[1]", b'{"batch":1} x', b"+2", b"-2", b"9" * 19, b"9" * 20,
    ):  # fmt: skip
        inbox = await probe.pull(name, "c", body)
        seen.append((body, await inbox.rest()))
        await inbox.close()
    return seen, await probe.state(name, "c")


async def no_wait(probe: Probe, name: str) -> Any:
    """no_wait in all forms."""
    await probe.stream(name, 5)
    await probe.consumer(name, "c", max_ack_pending=20)
    seen: list[Any] = []
    for body in (
        {"batch": 2, "no_wait": True},
        {"batch": 3, "no_wait": True},
        {"batch": 3, "no_wait": True},
        {"batch": 3, "no_wait": True, "expires": 100 * MS},
    ):
        seen.append(await (await probe.pull(name, "c", body)).rest(0.3))
    await probe.fill(name, 2)
    seen.append(await (await probe.pull(name, "c", {"batch": 3, "no_wait": True})).rest())
    await probe.fill(name, 2)
    seen.append(await (await probe.pull(name, "c", {"batch": 3, "no_wait": True, "expires": 300 * MS})).rest(0.5))
    inbox = await probe.pull(name, "c", {"batch": 3, "no_wait": True, "expires": 600 * MS})
    await probe.fill(name, 1)
    seen.append(await inbox.rest(0.3))
    first = await probe.pull(name, "c", {"batch": 10, "expires": 2000 * MS})
    seen.append(await (await probe.pull(name, "c", {"batch": 1, "no_wait": True})).rest())
    seen.append(await first.rest())
    return seen, await probe.state(name, "c")


async def no_wait_blocked(probe: Probe, name: str) -> Any:
    """no_wait while max_ack_pending is reached."""
    await probe.stream(name, 5)
    await probe.consumer(name, "c", max_ack_pending=2)
    first = await (await probe.pull(name, "c", {"batch": 5, "no_wait": True})).rest()
    second = await (await probe.pull(name, "c", {"batch": 2, "no_wait": True})).rest()
    timed = {"batch": 2, "no_wait": True, "expires": 1000 * MS}
    third = await (await probe.pull(name, "c", {**timed, "idle_heartbeat": 200 * MS})).rest(0.3)
    await probe.consumer(name, "d", max_ack_pending=2)
    inbox = await probe.pull(name, "d", {"batch": 3, "no_wait": True, "expires": 1000 * MS, "idle_heartbeat": 200 * MS})
    ended = await inbox.rest(0.4)
    return first, second, third, ended, await probe.state(name, "c"), await probe.state(name, "d")


async def max_bytes(probe: Probe, name: str) -> Any:
    """Requests bounded in bytes."""
    await probe.stream(name)
    await probe.fill(name, 6, payload=b"x" * 100)
    await probe.consumer(name, "c")
    seen: list[Any] = []
    for body in (
        {"batch": 10, "max_bytes": 50},
        {"batch": 10, "max_bytes": 400},
        {"batch": 1, "max_bytes": 400},
        {"batch": 2, "max_bytes": 1000, "no_wait": True},
    ):
        inbox = await probe.pull(name, "c", body)
        found = await inbox.rest()
        for one in found:  # the reply's length depends on the time's digits only, which are always the same
            one[2].pop("Date", None)
        seen.append(found)
    left = int(seen[2][-1][2]["Nats-Pending-Bytes"])  # of 400, behind a message as large as the next one
    await probe.consumer(name, "d")
    seen.append(await (await probe.pull(name, "d", {"batch": 5, "max_bytes": 400 - left})).rest())
    return seen, await probe.state(name, "c")


async def limits(probe: Probe, name: str) -> Any:
    """The consumer's own bounds."""
    await probe.stream(name, 2)
    await probe.consumer(name, "c", max_batch=2, max_expires=1500 * MS, max_bytes=1000)
    seen: list[Any] = []
    for body in ({"batch": 3}, {"expires": 1600 * MS}, {"batch": 1, "max_bytes": 1001}, {"batch": 1}, b"3"):
        seen.append(await (await probe.pull(name, "c", body)).rest())
    return seen


async def heartbeats(probe: Probe, name: str) -> Any:
    """Idle heartbeats of a waiting request, and its end."""
    await probe.stream(name, 1)
    await probe.consumer(name, "c")
    inbox = await probe.pull(name, "c", {"batch": 2, "expires": 700 * MS, "idle_heartbeat": 200 * MS})
    return await inbox.rest(0.6)


async def waiting_queue(probe: Probe, name: str) -> Any:
    """Round robin, a full queue, a requester that left, a deleted consumer."""
    await probe.stream(name)
    await probe.consumer(name, "c", max_waiting=2)
    first = await probe.pull(name, "c", {"batch": 3, "expires": 5000 * MS})
    second = await probe.pull(name, "c", {"batch": 2, "expires": 5000 * MS})
    full = await (await probe.pull(name, "c", {"batch": 1})).rest()
    beating = {"batch": 1, "expires": 5000 * MS, "idle_heartbeat": 1000 * MS}
    quiet = await (await probe.pull(name, "c", beating)).rest()
    await probe.fill(name, 4)
    # how many more are waiting depends on whether the next one was published already
    shares = [[(subject, reply.rpartition(".")[0], *rest) for subject, reply, *rest in await inbox.rest()]
              for inbox in (first, second)]  # fmt: skip
    third = await probe.pull(name, "c", {"batch": 5, "expires": 5000 * MS})
    await first.close()
    await probe.fill(name, 1)
    left = await third.rest()
    state = await probe.state(name, "c")
    await probe.api(f"CONSUMER.DELETE.{name}.c")
    return full, quiet, shares, left, state, await third.rest()


async def ack_forms(probe: Probe, name: str) -> Any:
    """Every ack payload, confirmed."""
    await probe.stream(name, 20)
    await probe.consumer(name, "c", ack_wait=60_000 * MS)
    inbox = await probe.pull(name, "c", b"12")
    replies = [(await inbox.raw()).reply for _ in range(12)]
    seen: list[Any] = []
    for number, body in enumerate((
        b"", b"+ACK", b"+OK", b"+WPI", b"junk", b"+ACKx", b"-ERR", b"+TERM", b"+TERM because", b"-NAK 60s",
        b'-NAK {"delay": 60000000000}', b"-NAK",
    )):  # fmt: skip
        seen.append((body, await probe.ack(replies[number], body), await probe.state(name, "c")))
    seen.append(await probe.ack(replies[0]))
    again = await probe.pull(name, "c", b"2", inbox=inbox)
    seen.append(await again.rest())
    return seen, await probe.state(name, "c")


async def ack_subjects(probe: Probe, name: str) -> Any:
    """Ack subjects by hand: both layouts, wrong numbers."""
    await probe.stream(name, 9)
    await probe.consumer(name, "c")
    await (await probe.pull(name, "c", b"6")).rest()
    seen: list[Any] = []
    for subject in (
        f"$JS.ACK.{name}.c.1.7.7.1.0", f"$JS.ACK.{name}.c.1.0.1.1.0", f"$JS.ACK.{name}.c.1.x.1.1.0",
        f"$JS.ACK.{name}.c.1.1.1.1", f"$JS.ACK.{name}.d.1.1.1.1.0", f"$JS.ACK.{name}.c.9.2.77.1.0",
        f"$JS.ACK._.szMpdrwD.{name}.c.1.1.1.1.0", f"$JS.ACK._.szMpdrwD.{name}.c.1.3.3.1.0.more.tokens",
        f"$JS.ACK._.xxxxxxxx.{name}.c.1.4.4.1.0", f"$JS.ACK.{name}.c.1.5.5.1.0", f"$JS.ACK.{name}.c.1.6.x.1.0",
    ):  # fmt: skip
        seen.append((subject, await probe.ack(subject), await probe.state(name, "c")))
    return seen


async def ack_next(probe: Probe, name: str) -> Any:
    """+NXT acks and pulls to its own reply."""
    await probe.stream(name, 12)
    await probe.consumer(name, "c")
    reply = (await (await probe.pull(name, "c", b"1")).raw()).reply
    seen: list[Any] = []
    for body in (b"+NXT", b"+NXT 1", b"+NXT x", b"+NXT 2", b'+NXT {"batch":2,"no_wait":true}'):
        inbox = await probe.inbox()
        await probe.client.publish(reply, body, reply=inbox.subject)
        message = await inbox.raw()
        reply = message.reply
        seen.append((inbox.describe(message), await inbox.rest(), await probe.state(name, "c")))
    return seen


async def ack_all(probe: Probe, name: str) -> Any:
    """Ack policy all: floors, naks and terms of earlier messages."""
    await probe.stream(name, 12)
    await probe.consumer(name, "c", ack_policy="all")
    inbox = await probe.pull(name, "c", b"9")
    replies = [(await inbox.raw()).reply for _ in range(9)]
    seen: list[Any] = []
    for number, body in ((3, b"+ACK"), (1, b"+ACK"), (5, b"-NAK"), (4, b"+TERM"), (7, b"+ACK")):
        seen.append((number, body, await probe.ack(replies[number], body), await probe.state(name, "c")))
    seen.append(await (await probe.pull(name, "c", b"2")).rest())
    return seen, await probe.state(name, "c")


async def ack_order(probe: Probe, name: str) -> Any:
    """Explicit acks out of order, and the order of redeliveries."""
    await probe.stream(name, 10)
    await probe.consumer(name, "c")
    inbox = await probe.pull(name, "c", b"8")
    replies = [(await inbox.raw()).reply for _ in range(8)]
    seen: list[Any] = []
    for number, body in ((2, b"+ACK"), (1, b"+ACK"), (0, b"+ACK"), (6, b"-NAK"), (3, b"-NAK"), (7, b"+ACK")):
        seen.append((number, body, await probe.ack(replies[number], body), await probe.state(name, "c")))
    seen.append(await (await probe.pull(name, "c", b"3")).rest())
    return seen, await probe.state(name, "c")


async def max_deliver(probe: Probe, name: str) -> Any:
    """Used-up deliveries: counts, advisory, a late ack."""
    await probe.stream(name, 3)
    advisories = await probe.inbox(f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{name}.c")
    await probe.consumer(name, "c", max_deliver=2, ack_wait=200 * MS)
    seen: list[Any] = []
    replies = []
    for _ in range(3):
        inbox = await probe.pull(name, "c", {"batch": 3, "expires": 400 * MS})
        found: list[Any] = []
        while not inbox.queue.empty() or len(found) < 3:
            message = await inbox.raw()
            if message.reply:
                replies.append(message.reply)
            found.append(inbox.describe(message))
            if not message.reply:
                break
        seen.append((found, await probe.state(name, "c")))
        await asyncio.sleep(0.25)
    count = len(await advisories.rest())
    late = [(await probe.ack(reply), await probe.state(name, "c")) for reply in (replies[1], replies[0])]
    return seen, count, late


async def positions(probe: Probe, name: str) -> Any:
    """Where each deliver policy starts, filtered and not."""
    await probe.stream(name, 10)
    await probe.api(f"STREAM.MSG.DELETE.{name}", {"seq": 1})
    seen: list[Any] = []
    plans: list[dict[str, Any]] = [
        {"deliver_policy": "all"},
        {"deliver_policy": "last"},
        {"deliver_policy": "new"},
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 1},
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 5},
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 50},
        {"deliver_policy": "by_start_time", "opt_start_time": "2020-01-01T00:00:00Z"},
        {"deliver_policy": "by_start_time", "opt_start_time": "2100-01-01T00:00:00Z"},
        {"deliver_policy": "last_per_subject", "filter_subject": f"{name}.>"},
        {"deliver_policy": "last_per_subject", "filter_subject": ">"},
        {"deliver_policy": "last_per_subject", "filter_subject": f"{name}.1"},
        {"deliver_policy": "last", "filter_subject": f"{name}.1"},
        {"deliver_policy": "last", "filter_subject": f"{name}.none"},
        {"deliver_policy": "last_per_subject", "filter_subject": f"{name}.none"},
        {"deliver_policy": "all", "filter_subject": f"{name}.1"},
        {"deliver_policy": "all", "filter_subjects": [f"{name}.1", f"{name}.2"]},
        {"deliver_policy": "all", "filter_subject": f"{name}.none"},
    ]
    for number, plan in enumerate(plans):
        consumer = f"c{number}"
        await probe.consumer(name, consumer, **plan)
        before = await probe.state(name, consumer)
        found = await (await probe.pull(name, consumer, {"batch": 20, "no_wait": True})).ended(0.1)
        seen.append((plan, before, found, await probe.state(name, consumer)))
    await probe.fill(name, 3, start=10)
    for number in range(len(plans)):
        found = await (await probe.pull(name, f"c{number}", {"batch": 20, "no_wait": True})).ended(0.1)
        seen.append((plans[number], found, await probe.state(name, f"c{number}")))
    return seen


async def removals(probe: Probe, name: str) -> Any:
    """Messages that go away while pending, and purges."""
    await probe.stream(name, 10)
    await probe.consumer(name, "c")
    await (await probe.pull(name, "c", b"5")).rest()
    seen = [await probe.settled(name, "c")]
    for seq in (2, 1, 8, 5):
        await probe.api(f"STREAM.MSG.DELETE.{name}", {"seq": seq})
        seen.append(await probe.settled(name, "c"))
    await probe.api(f"STREAM.PURGE.{name}", {"seq": 4})
    seen.append(await probe.settled(name, "c"))
    await probe.api(f"STREAM.PURGE.{name}")
    seen.append(await probe.settled(name, "c"))
    await probe.fill(name, 2)
    seen.append(await probe.settled(name, "c"))
    return seen


async def evictions(probe: Probe, name: str) -> Any:
    """Limits that remove pending and undelivered messages."""
    await probe.stream(name, 6, max_msgs=6)
    advisories = await probe.inbox(f"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.{name}.c")
    await probe.consumer(name, "c")
    await (await probe.pull(name, "c", b"3")).rest()
    seen = [await probe.settled(name, "c")]
    for _ in range(5):
        await probe.fill(name, 1)
        seen.append(await probe.settled(name, "c"))
    return seen, len(await advisories.rest())


async def push_plain(probe: Probe, name: str) -> Any:
    """Push: waits for interest, heartbeats, no pull."""
    await probe.stream(name, 3)
    await probe.consumer(name, "c", deliver_subject=f"to.{name}", idle_heartbeat=300 * MS)
    inbox = await probe.inbox(f"to.{name}")
    found = [await inbox.next() for _ in range(4)]  # three messages and a heartbeat
    await probe.fill(name, 1)
    found.append(await inbox.next())
    pulled = await (await probe.pull(name, "c")).rest()
    return found, pulled, await probe.state(name, "c")


async def push_flow(probe: Probe, name: str) -> Any:
    """Flow control: how much is sent before the first answer is waited for."""
    await probe.stream(name)
    await probe.fill(name, 60, payload=b"x" * 50_000)
    inbox = await probe.inbox(f"to.{name}")
    await probe.consumer(
        name, "c", deliver_subject=f"to.{name}", idle_heartbeat=500 * MS, flow_control=True, ack_policy="none"
    )
    before = []
    answer = ""
    while True:
        message = await inbox.raw()
        status = (message.headers or {}).get("Status")
        if status and message.reply:
            answer = message.reply
        stalled = (message.headers or {}).pop("Nats-Consumer-Stalled", None)
        before.append((status, inbox.describe(message)[2], len(message.data), stalled == answer if stalled else None))
        if status and not message.reply:
            break
    await probe.client.publish(answer, b"")
    after = [len(data) for _, reply, _, data in await inbox.rest(0.3) if reply]  # heartbeats come when they like
    return before, after


async def headers_only(probe: Probe, name: str) -> Any:
    """Payloads replaced by their size."""
    await probe.stream(name, 1)
    await probe.client.request(f"{name}.1", b"payload", headers={"A": "b"}, timeout=5)
    await probe.client.request(f"{name}.1", b"", timeout=5)
    await probe.consumer(name, "c", headers_only=True)
    return await (await probe.pull(name, "c", b"3")).rest()


async def blocked(probe: Probe, name: str) -> Any:
    """max_ack_pending holds new messages back, redeliveries pass."""
    await probe.stream(name, 6)
    await probe.consumer(name, "c", max_ack_pending=3)
    inbox = await probe.pull(name, "c", b"6")
    replies = [(await inbox.raw()).reply for _ in range(3)]
    seen = [await inbox.rest(), await probe.state(name, "c")]
    await probe.client.publish(replies[1], b"-NAK")
    seen += [await inbox.rest(), await probe.state(name, "c")]
    await probe.client.publish(replies[0], b"+ACK")
    seen += [await inbox.rest(), await probe.state(name, "c")]
    return seen


async def given_up_at_once(probe: Probe, name: str) -> Any:
    """max_deliver 1, and more of it later: what counts as redelivered."""
    await probe.stream(name, 2)
    wait = {"ack_wait": 200 * MS}
    await probe.consumer(name, "c", **wait, max_deliver=1)
    told = await probe.inbox(f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{name}.c")
    await (await probe.pull(name, "c")).next()
    seen = [len(await told.rest(0.6)), await probe.state(name, "c")]
    for most in (2, -1, 1):
        await probe.consumer(name, "c", **wait, max_deliver=most)
        seen.append(await probe.state(name, "c"))
    return seen


async def lower_limit(probe: Probe, name: str) -> Any:
    """max_deliver is lowered to, and below, what has been delivered, and maybe asked for again: what is told."""
    await probe.stream(name, 5)
    wait = {"ack_wait": 600 * MS}
    await probe.consumer(name, "c", **wait, max_deliver=5)
    told = await probe.inbox(f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{name}.c")
    inbox = await probe.pull(name, "c", b"9")
    replies = [(await inbox.raw()).reply for _ in range(5)]
    for number in (0, 2, 2, 3):
        await probe.client.publish(replies[number], b"-NAK")
        await inbox.raw()
    for number in (3, 4):
        await probe.client.publish(replies[number], b"-NAK")
    await probe.consumer(name, "c", **wait, max_deliver=1)
    heard = await told.rest(1.5)
    await probe.pull(name, "c", inbox=inbox)
    heard += await told.rest()
    seen = sorted((one["stream_seq"], one["deliveries"]) for one in (json.loads(one[3]) for one in heard))
    return seen, await probe.state(name, "c")


async def nak_options(probe: Probe, name: str) -> Any:
    """Naks whose delay is written in JSON: keys in any case, the last one counts."""
    await probe.stream(name, 7)
    await probe.consumer(name, "c")
    inbox = await probe.pull(name, "c", b"14")
    replies = [(await inbox.raw()).reply for _ in range(7)]
    for reply, options in zip(replies, (
        {"Delay": 60_000 * MS}, {"DELAY": 60_000 * MS}, {"delay": 1, "Delay": 60_000 * MS},
        {"Delay": 60_000 * MS, "delay": 1}, {"delay": "1s"}, {"delays": 60_000 * MS}, {"delay": 60_000 * MS},
    ), strict=True):  # fmt: skip
        await probe.client.publish(reply, b"-NAK " + json.dumps(options).encode())
    return sorted(int(one[1].split(".")[5]) for one in await inbox.rest(0.5))


async def starts_in_time(probe: Probe, name: str) -> Any:
    """by_start_time with filters: positions of a consumer that has delivered nothing yet."""
    await probe.stream(name, 10)
    seen = []
    for number, subjects in enumerate((["2"], ["1", "2"], ["0"], ["0", "2"], ["none"], ["2", "none"], ["*"], [])):
        filters = [f"{name}.{subject}" for subject in subjects]
        start = {"deliver_policy": "by_start_time", "opt_start_time": "2020-01-01T00:00:00Z"}
        await probe.consumer(name, f"c{number}", **start, filter_subjects=filters)
        seen.append((subjects, await probe.state(name, f"c{number}")))
    return seen


SCENARIOS: tuple[Scenario, ...] = (
    bodies, no_wait, no_wait_blocked, max_bytes, limits, heartbeats, waiting_queue, ack_forms, ack_subjects, ack_next,
    ack_all, ack_order, max_deliver, positions, removals, evictions, push_plain, push_flow, headers_only, blocked,
    given_up_at_once, lower_limit, nak_options, starts_in_time,
)  # fmt: skip
