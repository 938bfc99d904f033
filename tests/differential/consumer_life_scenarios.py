"""Pauses, resets and who counts as a listener, one conversation each; every function gives what the server answered."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.differential.consumer_scenarios import MS, Scenario
from tests.support.jetstream_probe import ANSWER_SECONDS, SETTLED_READS, Probe

FAR = "2098-12-31T23:00:00+01:00"


def _soon(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def _shown(answer: dict[str, Any]) -> dict[str, Any]:
    """Without what is one moment's."""
    answer = {key: value for key, value in answer.items() if key not in ("created", "ts")}
    return answer | ({"pause_remaining": "..."} if "pause_remaining" in answer else {})


async def _info(probe: Probe, stream: str, name: str) -> dict[str, Any]:
    return _shown(await probe.api(f"CONSUMER.INFO.{stream}.{name}"))


async def _noted(probe: Probe, stream: str, name: str, deliveries: int) -> None:
    """Wait until INFO tells of so many: nats-server notes a delivery after it has sent it, even behind a RESET."""
    noted = 0
    while noted < deliveries:
        noted = (await probe.state(stream, name))["delivered"][0]


async def _advisories(inbox: Any) -> list[dict[str, Any]]:
    found = [json.loads(one[3]) for one in await inbox.rest()]
    return [{key: value for key, value in one.items() if key not in ("id", "timestamp")} for one in found]


async def pause_requests(probe: Probe, name: str) -> Any:
    """What PAUSE takes and answers, and what INFO and the advisories say then."""
    await probe.stream(name, 3)
    await probe.consumer(name, "c")
    advisories = await probe.inbox(f"$JS.EVENT.ADVISORY.CONSUMER.PAUSE.{name}.>")
    seen: list[Any] = []
    for body in (
        {"pause_until": FAR}, {"pause_until": FAR}, b"", b"{}", b"x", b"[]", {"pause_until": "2020-01-01T00:00:00Z"},
        {"pause_until": "0001-01-01T00:00:00Z"}, {"pause_until": "x"}, {"pause_until": None}, {"pause_until": 5},
        {"foo": 1}, {"pause_until": "2098-12-31T23:00:00.120Z"},
    ):  # fmt: skip
        seen.append((body, _shown(await probe.api(f"CONSUMER.PAUSE.{name}.c", body)), await _info(probe, name, "c")))
    seen += [await probe.api(f"CONSUMER.PAUSE.{name}.none"), await probe.api("CONSUMER.PAUSE.NONE.c")]
    return seen, await _advisories(advisories)


async def pause_in_create(probe: Probe, name: str) -> Any:
    """pause_until in the configuration: kept by every later CREATE."""
    await probe.stream(name, 1)
    advisories = await probe.inbox(f"$JS.EVENT.ADVISORY.CONSUMER.*.{name}.>")
    seen = [
        _shown(await probe.consumer(name, consumer, pause_until=until))
        for consumer, until in (
            ("a", "2098-12-31T22:00:00Z"), ("a", "2097-01-01T00:00:00Z"),
            ("b", "2020-01-01T00:00:00Z"), ("c", "0001-01-01T00:00:00Z"),
        )
    ]  # fmt: skip
    for consumer, until in (("a", "2098-12-31T23:00:00+01:00"), ("b", None), ("c", None)):
        seen.append(_shown(await probe.api(f"CONSUMER.PAUSE.{name}.{consumer}", {"pause_until": until})))
    return seen, await _advisories(advisories)


async def pause_and_pulls(probe: Probe, name: str) -> Any:
    """Requests during a pause."""
    await probe.stream(name, 3)
    await probe.consumer(name, "c", pause_until=FAR)
    seen = []
    for body, quiet in (
        ({"batch": 2, "no_wait": True}, 0.2),
        ({"batch": 2, "no_wait": True, "expires": 200 * MS}, 0.4),
        ({"batch": 2, "expires": 200 * MS}, 0.4),
        ({"batch": 2, "expires": 700 * MS, "idle_heartbeat": 200 * MS}, 0.5),
    ):
        seen.append(await (await probe.pull(name, "c", body)).rest(quiet))
    return seen, await probe.state(name, "c")


async def pause_ends(probe: Probe, name: str) -> Any:
    """A pull that waits is served at the end of the pause, and an advisory tells of it."""
    await probe.stream(name, 3)
    advisories = await probe.inbox(f"$JS.EVENT.ADVISORY.CONSUMER.PAUSE.{name}.>")
    await probe.consumer(name, "c", pause_until=_soon(0.6))
    inbox = await probe.pull(name, "c", b"2")
    found = [await inbox.next(), await inbox.next()]
    told = await _advisories(advisories)
    return found, [one["paused"] for one in told], await probe.state(name, "c")


async def pause_and_push(probe: Probe, name: str) -> Any:
    """Heartbeats go on, messages come at the end."""
    await probe.stream(name, 2)
    inbox = await probe.inbox(f"to.{name}")
    await probe.consumer(
        name, "c", deliver_subject=f"to.{name}", idle_heartbeat=300 * MS, pause_until=_soon(1.2)
    )  # fmt: skip
    beats: set[Any] = set()
    messages: list[Any] = []
    while len(messages) < 2:
        one = await inbox.next()
        if one[1]:
            messages.append(one)
        elif not messages:
            beats.add(str(one))
    return beats, messages, (await _info(probe, name, "c")).get("paused")


async def reset_requests(probe: Probe, name: str) -> Any:
    """Every form of RESET, and what the consumer is then."""
    await probe.stream(name, 5)
    await probe.consumer(name, "c")
    inbox = await probe.pull(name, "c", b"3")
    replies = [(await inbox.raw()).reply for _ in range(3)]
    await probe.client.request(replies[0], b"", timeout=5)
    await _noted(probe, name, "c", 3)
    seen: list[Any] = []
    for body in (
        b"", {"seq": 0}, {"seq": 4}, {"seq": 1}, {"seq": 100}, b"{}", b"x", b"[]", {"seq": -1}, {"seq": "a"},
        {"foo": 1}, {"seq": 2**64 - 1}, {"seq": 3},
    ):  # fmt: skip
        answer = _shown(await probe.api(f"CONSUMER.RESET.{name}.c", body))
        seen.append((body, answer, await _info(probe, name, "c")))
    inbox = await probe.pull(name, "c", {"batch": 9, "no_wait": True})
    return seen, [await inbox.next() for _ in range(4)], await probe.state(name, "c")


async def reset_by_policy(probe: Probe, name: str) -> Any:
    """Where a reset may lead, by deliver policy."""
    await probe.stream(name, 5)
    seen: list[Any] = []
    for consumer, config in (
        ("a", {"deliver_policy": "by_start_sequence", "opt_start_seq": 3}),
        ("b", {"deliver_policy": "by_start_time", "opt_start_time": "2020-01-01T00:00:00Z"}),
        ("c", {"deliver_policy": "by_start_time", "opt_start_time": FAR}),
        ("d", {"deliver_policy": "new"}),
        ("e", {"deliver_policy": "last"}),
        ("f", {"deliver_policy": "last_per_subject", "filter_subject": f"{name}.*"}),
        ("g", {"ack_policy": "none"}),
        ("h", {"ack_policy": "all", "max_ack_pending": 2}),
    ):
        await probe.consumer(name, consumer, **config)
        for seq in (2, 4, 0):
            seen.append(_shown(await probe.api(f"CONSUMER.RESET.{name}.{consumer}", {"seq": seq})))
        seen.append(await (await probe.pull(name, consumer, {"batch": 2, "no_wait": True})).rest())
    return seen


async def reset_while_pending(probe: Probe, name: str) -> Any:
    """Pending messages and redeliveries are forgotten, late acks do nothing, a waiting request stays."""
    await probe.stream(name, 4)
    await probe.consumer(name, "c")
    inbox = await probe.pull(name, "c", b"3")
    replies = [(await inbox.raw()).reply for _ in range(3)]
    await probe.client.request(replies[1], b"-NAK 1h", timeout=5)
    await _noted(probe, name, "c", 3)
    seen: list[Any] = [_shown(await probe.api(f"CONSUMER.RESET.{name}.c"))]
    seen += [await probe.ack(reply) for reply in replies]
    again = await probe.pull(name, "c", b"4")
    seen.append([await again.next() for _ in range(4)])
    await _noted(probe, name, "c", 4)
    waiting = await probe.pull(name, "c", b"2")
    answer = _shown(await probe.api(f"CONSUMER.RESET.{name}.c", {"seq": 4}))
    del answer["num_waiting"]  # nats-server serves the request before or after it answers
    seen += [answer, await waiting.next()]
    return seen, await probe.state(name, "c")


async def reset_and_retention(probe: Probe, name: str) -> Any:
    """With interest retention what is left behind goes, in a work queue it stays."""
    seen = []
    for stream, retention in ((f"{name}I", "interest"), (f"{name}W", "workqueue")):
        await probe.stream(stream, retention=retention)
        await probe.consumer(stream, "c")
        await probe.fill(stream, 5)
        await probe.api(f"CONSUMER.RESET.{stream}.c", {"seq": 3})
        state = {}
        for _ in range(50):
            state = (await probe.api(f"STREAM.INFO.{stream}"))["state"]
            if state["messages"] == (3 if retention == "interest" else 5):
                break
        seen.append((state["messages"], state["first_seq"], await (await probe.pull(stream, "c", b"9")).rest()))
    return seen


async def retention_updates(probe: Probe, name: str) -> Any:
    """Acks from before an update to interest count with it; behind an update to limits they remove nothing."""
    await probe.stream(name, 8)  # a third on each of three subjects
    seen: list[Any] = []
    replies: dict[str, list[str]] = {}
    for consumer, config in (
        ("c", {"filter_subject": f"{name}.0"}),
        ("d", {"filter_subjects": [f"{name}.0", f"{name}.1"]}),
        ("e", {"filter_subject": f"{name}.0", "ack_policy": "all"}),
        ("new", {"deliver_policy": "new"}),
        ("none", {"ack_policy": "none"}),
    ):
        await probe.consumer(name, consumer, **config)
        inbox = await probe.pull(name, consumer, {"batch": 9, "no_wait": True})
        replies[consumer] = []
        while reply := (await inbox.raw()).reply:
            replies[consumer].append(reply)
        seen.append(len(replies[consumer]))
    seen += [await probe.ack(replies[consumer][0]) for consumer in ("c", "d", "e")]
    for retention, acked in (("interest", 1), ("limits", 2)):
        wanted = {"name": name, "subjects": [f"{name}.>"], "storage": "file", "retention": retention}
        answer = await probe.api(f"STREAM.UPDATE.{name}", wanted)
        seen.append((await _kept(probe, name), answer.get("error")))
        seen += [await probe.ack(replies[consumer][acked]) for consumer in ("c", "d", "e")]
        seen.append(await _kept(probe, name))
    return seen, [await probe.state(name, consumer) for consumer in replies]


async def _kept(probe: Probe, name: str) -> list[int]:
    """The sequences of the stream's messages, once they stay the same."""
    found: list[int] = []
    same = 0
    while same < SETTLED_READS:
        again = [seq for seq in range(1, 10) if "message" in await probe.api(f"STREAM.MSG.GET.{name}", {"seq": seq})]
        same = same + 1 if again == found else 0
        found = again
    return found


async def reset_of_push(probe: Probe, name: str) -> Any:
    """A push consumer delivers again at once."""
    await probe.stream(name, 3)
    inbox = await probe.inbox(f"to.{name}")
    await probe.consumer(name, "c", deliver_subject=f"to.{name}")
    first = [await inbox.next() for _ in range(3)]
    await _noted(probe, name, "c", 3)
    answer = _shown(await probe.api(f"CONSUMER.RESET.{name}.c"))
    return first, answer, [await inbox.next() for _ in range(3)]


async def listeners(probe: Probe, name: str) -> Any:
    """Wildcards and queue groups get copies, but nothing is sent for them alone."""
    await probe.stream(name, 2)
    wild = await probe.inbox(f"to.{name}.*")
    group = await probe.inbox(f"to.{name}.x", queue="g")
    await probe.consumer(name, "c", deliver_subject=f"to.{name}.x", ack_policy="none")
    seen: list[Any] = [await wild.rest(), await group.rest(), (await _info(probe, name, "c")).get("push_bound")]
    exact = await probe.inbox(f"to.{name}.x")
    seen += [await exact.rest(), await wild.rest(), await group.rest()]
    seen.append((await _info(probe, name, "c")).get("push_bound"))
    await exact.close()
    await probe.fill(name, 1)
    seen += [await wild.rest(), (await _info(probe, name, "c")).get("push_bound")]
    return seen


async def group_listeners(probe: Probe, name: str) -> Any:
    """A deliver group's member has to listen on the very subject, too."""
    await probe.stream(name, 2)
    wild = await probe.inbox(f"to.{name}.*", queue="g")
    await probe.consumer(name, "c", deliver_subject=f"to.{name}.x", deliver_group="g", ack_policy="none")
    seen: list[Any] = [await wild.rest(), (await _info(probe, name, "c")).get("push_bound")]
    exact = await probe.inbox(f"to.{name}.x", queue="g")
    both = await exact.rest() + await wild.rest()
    return seen, len(both), (await _info(probe, name, "c")).get("push_bound")


async def late_nak(probe: Probe, name: str) -> Any:
    """A message that waits for its second delivery is to wait longer."""
    await probe.stream(name, 1)
    await probe.consumer(name, "c", ack_wait=200 * MS)
    first = await (await probe.pull(name, "c")).raw()
    await asyncio.sleep(0.5)
    await probe.ack(first.reply, b'-NAK {"delay":1500000000}')
    at_once = await (await probe.pull(name, "c", {"batch": 1, "no_wait": True})).next()
    return at_once, await (await probe.pull(name, "c", {"batch": 1, "expires": 4000 * MS})).next()


async def other_waits(probe: Probe, name: str) -> Any:
    """What is pending follows another ack_wait."""
    await probe.stream(name, 2)
    await probe.consumer(name, "c", ack_wait=3_600_000 * MS)
    inbox = await probe.pull(name, "c", b"2")
    first = [await inbox.next(), await inbox.next()]
    await probe.consumer(name, "c", ack_wait=300 * MS)
    inbox = await probe.pull(name, "c", {"batch": 2, "expires": 4000 * MS})
    return first, [await inbox.next(), await inbox.next()]


async def other_deliver_subject(probe: Probe, name: str) -> Any:
    """Whoever listens at the new one gets what is pending."""
    await probe.stream(name, 3)
    config = {"ack_wait": 3_600_000 * MS, "max_ack_pending": 2}
    before = await probe.inbox(f"one.{name}")
    await probe.consumer(name, "c", deliver_subject=f"one.{name}", **config)
    first = [await before.next(), await before.next()]
    await before.close()
    after = await probe.inbox(f"two.{name}")
    await probe.consumer(name, "c", deliver_subject=f"two.{name}", **config)
    return first, [await after.next(), await after.next()], await after.rest()


async def unwanted_roll_ups(probe: Probe, name: str) -> Any:
    """They are not stored, and remove what they would replace all the same."""
    await probe.stream(name, retention="interest", allow_rollup_hdrs=True)
    await probe.consumer(name, "c", filter_subject=f"{name}.0")
    await probe.fill(name, 4)
    for rolls in ("all", "sub"):
        await probe.client.request(f"{name}.1", headers={"Nats-Rollup": rolls}, timeout=ANSWER_SECONDS)
    return await _kept(probe, name)


async def work_queue_with_a_mirror(probe: Probe, name: str) -> Any:
    """A message stays until both its worker and the mirror's consumer are done with it."""
    await probe.stream(name, retention="workqueue")
    await probe.consumer(name, "c")
    mirror = await probe.inbox(f"to.{name}")
    config = {"ack_policy": "none", "deliver_subject": f"to.{name}", "direct": True}
    answer = await probe.api(f"CONSUMER.CREATE.{name}", {"stream_name": name, "config": config})
    await probe.fill(name, 1)
    await mirror.next()
    seen: list[Any] = ["error" in answer, await _kept(probe, name)]
    found = await (await probe.pull(name, "c")).raw()
    seen += [await probe.ack(found.reply), await _kept(probe, name)]
    await mirror.close()
    await probe.fill(name, 1, 1)
    found = await (await probe.pull(name, "c")).raw()
    return [*seen, await probe.ack(found.reply), await _kept(probe, name)]


async def consumer_limits_updates(probe: Probe, name: str) -> Any:
    """Which consumers an update of a stream's consumer_limits has to spare."""
    await probe.stream(name)
    await probe.consumer(name, "a", max_ack_pending=5)
    await probe.consumer(name, "b", max_ack_pending=50, inactive_threshold=3_600_000 * MS)
    seen: list[Any] = []
    for bounds in (
        {"max_ack_pending": 20}, {"max_ack_pending": 50}, {"inactive_threshold": 60_000 * MS},
        {"max_ack_pending": 50, "inactive_threshold": 60_000 * MS}, {"inactive_threshold": 3_600_000 * MS},
        {"max_ack_pending": 60, "inactive_threshold": 7_200_000 * MS}, {"max_ack_pending": 60}, {},
    ):  # fmt: skip
        config = {"name": name, "subjects": [f"{name}.>"], "storage": "file", "consumer_limits": bounds}
        answer = await probe.api(f"STREAM.UPDATE.{name}", config)
        seen.append((bounds, answer.get("error"), answer.get("config", {}).get("consumer_limits")))
        info = await probe.api(f"STREAM.INFO.{name}")
        seen.append(info["config"]["consumer_limits"])
    return seen


async def pulls_at_the_pace_of_the_past(probe: Probe, name: str) -> Any:
    """Replay policy original holds for pulls, too."""
    await probe.stream(name, 1)
    await asyncio.sleep(1)
    await probe.fill(name, 1, 1)
    await probe.consumer(name, "c", replay_policy="original")
    inbox = await probe.pull(name, "c", {"batch": 3, "expires": 4000 * MS})
    seen: list[Any] = [await inbox.next(), (await probe.state(name, "c"))["delivered"]]
    seen += [await inbox.next(), (await probe.state(name, "c"))["delivered"]]
    await probe.fill(name, 1, 2)
    return [*seen, await inbox.next()]


async def defaults_of_a_stream(probe: Probe, name: str) -> Any:
    """What its consumer_limits fill in, at a creation and at an update."""
    seen: list[Any] = []
    for bounds in ({"max_ack_pending": -1}, {"max_ack_pending": 7, "inactive_threshold": 10_000 * MS}, {}):
        stream = f"{name}{len(seen)}"
        await probe.stream(stream, consumer_limits=bounds)
        for config in ({}, {}, {"inactive_threshold": 9_000 * MS}, {}):
            body = {"stream_name": stream, "config": {"name": "e", "ack_policy": "explicit", **config}}
            for action in ("create", ""):
                answer = await probe.api(f"CONSUMER.CREATE.{stream}.e", body | {"action": action})
                seen.append((bounds, config, action, answer.get("error"), answer.get("config")))
    return seen


async def unbound_deliver_subject(probe: Probe, name: str) -> Any:
    """Another deliver subject, while the present one is heard by wildcards or by a queue group only."""
    await probe.stream(name)
    seen = []
    for number, (listens, options) in enumerate(((f"{name}0.*", {}), (f"{name}1.x", {"queue": "q"}), ("other", {}))):
        inbox = await probe.inbox(listens, **options)
        config = {"durable_name": f"c{number}", "deliver_subject": f"{name}{number}.x"}
        request = f"CONSUMER.CREATE.{name}.c{number}"
        for subject in (config["deliver_subject"], "elsewhere"):
            body = {"stream_name": name, "config": config | {"deliver_subject": subject}}
            seen.append((listens, subject, (await probe.api(request, body)).get("error")))
        await inbox.close()
    return seen


LIFE_SCENARIOS: tuple[Scenario, ...] = (
    pause_requests, pause_in_create, pause_and_pulls, pause_ends, pause_and_push, reset_requests, reset_by_policy,
    reset_while_pending, reset_and_retention, retention_updates, reset_of_push, listeners, group_listeners,
    late_nak, other_waits, other_deliver_subject, unwanted_roll_ups, work_queue_with_a_mirror, consumer_limits_updates,
    pulls_at_the_pace_of_the_past, defaults_of_a_stream, unbound_deliver_subject,
)  # fmt: skip
