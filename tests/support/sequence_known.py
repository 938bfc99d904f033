"""Which differences of random sequences docs/JETSTREAM.md defends; a sequence ends at the first one."""

from __future__ import annotations

import json
from collections.abc import Sequence as Some
from typing import Any

from tests.support.sequence_steps import NAMES, Step

_ADVISORIES = 1 + len(NAMES)  # in a state: the stream's info, the consumers' infos, then these
_MISCOUNTED = ("/num_pending", "/last_active", f"/{_ADVISORIES}")
_FIRST = (
    "/first_seq",
    "/first_ts",
    "/num_deleted",
    "/delivered/stream_seq",
    "/ack_floor/stream_seq",
    "/ack_floor/consumer_seq",
    "/num_ack_pending",
)
_DELIVERED = ("/delivered/consumer_seq", "/delivered/stream_seq", "/delivered/last_active")
_BEGINS = ("/reset_seq", "/delivered/stream_seq", "/ack_floor/stream_seq")
_FINISHING = ("", "+ACK", "+OK", "+TERM", "+TERM why", "+NXT")


def is_known(stream: dict[str, Any], done: Some[Step], places: Some[str], theirs: Any, ours: Any) -> bool:
    """Behind the steps of `done` both sides differ in `places`: does the documentation give the reason?"""
    if not done or not places:
        return False
    step = done[-1]
    return (
        _keeps_one(step, places)
        or _leaves_its_first(stream, step, places, theirs, ours)
        or _keeps_its_first(done, places, theirs, ours)
        or _forgets_an_idle_purge(stream, done, places, ours)
        or _passes_what_it_looked_at(step, places, theirs, ours)
        or _forgets_later_acks(step, places, theirs, ours)
        or _leaves_pending(step, places, theirs, ours)
        or _gives_up_later(done, places)
        or _begins_behind_the_purge(done, places)
        or _takes_along_more(done, places, ours)
        or _leaves_what_it_gave_up(stream, step, places, theirs, ours)
        or _ignores_what_was_given_up(stream, done, places, theirs, ours)
        or _keeps_what_was_given_up(stream, step, places, theirs, ours)
        or _removes_what_lies_between(stream, done, places, theirs, ours)
        or _tells_of_earlier_deliveries(step, places, theirs, ours)
        or _forgets_a_reset(done, places, theirs, ours)
        or _keeps_what_nobody_gets(stream, done, places, theirs, ours)
        or _removes_what_was_not_given(stream, done, places)
        or _is_last_per_subject(done, places)
        or _is_moved_back(done, theirs, ours)
        or _was_told_of_others(done)
    )


def _is_state(told: Any) -> bool:
    """Is it a state, or what a step's answers were? Of +NXT that is a list, too."""
    return isinstance(told, list) and isinstance(told[0], dict)


def _all_end(places: Some[str], ends: tuple[str, ...]) -> bool:
    return all(place.endswith(ends) for place in places)


def _all_begin(places: Some[str], begins: tuple[str, ...]) -> bool:
    return all(place.startswith(begins) for place in places)


def _takes_last_per_subject(config: dict[str, Any]) -> bool:
    return config.get("deliver_policy") == "last_per_subject"


def _keeps_one(step: Step, places: Some[str]) -> bool:
    """A purge that keeps some, or a roll-up of all, removes one: nats-server counts it still, tells of it or not."""
    keeps = (step[0] == "purge" and "keep" in step[1]) or (step[0] == "publish" and step[2].get("Nats-Rollup") == "all")
    return bool(keeps and _all_end(places, _MISCOUNTED))


def _leaves_its_first(stream: dict[str, Any], step: Step, places: Some[str], theirs: Any, ours: Any) -> bool:
    """A purge up to a sequence empties a stream in files: nats-server may name a removed message as the first one.

    A consumer that was given removed messages waits for their acks then, where ours is done with them.
    """
    if not (
        step[0] == "purge"
        and stream["storage"] == "file"
        and step[1].get("seq", 0) > 1
        and _is_state(ours)
        and ours[0]["state"]["messages"] == 0
    ):
        return False
    waiting = tuple(
        f"/{at}/ack_floor/last_active"
        for at in range(1, _ADVISORIES)
        if theirs[at].get("num_ack_pending", 0) > ours[at].get("num_ack_pending", 0)
    )
    return all(place in waiting or place.endswith(_FIRST) for place in places)


def _keeps_its_first(done: Some[Step], places: Some[str], theirs: Any, ours: Any) -> bool:
    """Behind a purge up to a sequence: nats-server names the first message on when a limit has removed it."""
    if not any(step[0] == "purge" and "seq" in step[1] for step in done) or not _is_state(ours):
        return False
    return bool(
        done[-1][0] == "publish"
        and theirs[0]["state"]["first_seq"] < ours[0]["state"]["first_seq"]
        and theirs[0]["state"]["messages"] == ours[0]["state"]["messages"]
        and _all_begin(places, ("/0/state/first_", "/0/state/num_deleted"))
    )


def _forgets_an_idle_purge(stream: dict[str, Any], done: Some[Step], places: Some[str], ours: Any) -> bool:
    """A restart of a stream that was purged and never had a message: nats-server's first sequence stays 1."""
    if done[-1][0] != "restart" or places != ["/0/state/first_seq"]:
        return False
    purging = ("purge", "drop") if stream["retention"] == "interest" else ("purge",)
    return any(step[0] in purging for step in done) and ours[0]["state"]["last_seq"] == 0


def _passes_what_it_looked_at(step: Step, places: Some[str], theirs: Any, ours: Any) -> bool:
    """A purge while messages are pending: nats-server's floor passes others that a pull has looked at, or not."""
    if step[0] != "purge" or not _is_state(ours) or not _all_end(places, ("/ack_floor/stream_seq",)):
        return False
    consumers = [(theirs[at], ours[at]) for at in (int(place.split("/")[1]) for place in places)]
    return all(
        right["num_ack_pending"] and left["ack_floor"]["stream_seq"] > right["ack_floor"]["stream_seq"]
        for left, right in consumers
    )


def _forgets_later_acks(step: Step, places: Some[str], theirs: Any, ours: Any) -> bool:
    """A purge of what was pending before messages that are acked: nats-server's floor is the last purged delivery."""
    if step[0] != "purge" or not _is_state(ours) or not _all_end(places, ("/ack_floor/consumer_seq",)):
        return False
    consumers = [(theirs[at], ours[at]) for at in (int(place.split("/")[1]) for place in places)]
    return all(
        right["num_ack_pending"] and left["ack_floor"]["consumer_seq"] < right["ack_floor"]["consumer_seq"]
        for left, right in consumers
    )


def _leaves_pending(step: Step, places: Some[str], theirs: Any, ours: Any) -> bool:
    """A purge of some of a consumer's subjects: nats-server leaves removed messages pending, its floor below them."""
    told = ("/num_ack_pending", "/ack_floor/consumer_seq", "/ack_floor/stream_seq")
    if step[0] != "purge" or "filter" not in step[1] or not _is_state(ours) or not _all_end(places, told):
        return False
    consumers = [(theirs[at], ours[at]) for at in (int(place.split("/")[1]) for place in places)]
    return all(
        left["num_ack_pending"] > right["num_ack_pending"]
        and all(left["ack_floor"][key] <= right["ack_floor"][key] for key in ("consumer_seq", "stream_seq"))
        for left, right in consumers
    )


def _gives_up_later(done: Some[Step], places: Some[str]) -> bool:
    """A delayed nak of the last delivery, while the consumer is paused: nats-server may keep the message pending."""
    step = done[-1]
    if step[0] != "delayed" or "max_deliver" not in _configs(done).get(step[1], {}):
        return False
    pauses = [each[2] for each in done if each[:2] == ("pause", step[1])]
    own = f"/{1 + NAMES.index(step[1])}/"
    counts = (f"{own}num_ack_pending", f"{own}num_redelivered", f"/{_ADVISORIES}")
    return bool(pauses and pauses[-1] and _all_begin(places, counts))


def _begins_behind_the_purge(done: Some[Step], places: Some[str]) -> bool:
    """A reset after a purge or a stricter limit: nats-server begins behind what went, not behind the floor it tells."""
    removed = any(step[0] in ("purge", "update") for step in done)
    return done[-1][:3:2] == ("reset", 0) and removed and _all_end(places, _BEGINS)


def _takes_along_more(done: Some[Step], places: Some[str], ours: Any) -> bool:
    """A consumer that waited for a later message than the last is deleted: nats-server looks elsewhere, or purges.

    It counts then what is left for consumers of the last messages per subject, one message for each.
    """
    if done[-1][0] != "drop" or not _is_state(ours):
        return False
    configs = _configs(done)
    start = configs.get(done[-1][1], {}).get("opt_start_seq", 0)
    counted = tuple(
        f"/{number}/num_pending"
        for number, name in enumerate(NAMES, 1)
        if configs.get(name, {}).get("deliver_policy") == "last_per_subject"
    )
    return bool(
        start > ours[0]["state"]["last_seq"] + 1
        and all(place.startswith("/0/state/") or place in counted for place in places)
    )


def _leaves_what_it_gave_up(stream: dict[str, Any], step: Step, places: Some[str], theirs: Any, ours: Any) -> bool:
    """A consumer of an interest stream is deleted that gave messages up: nats-server leaves those that lie in front."""
    if step[0] != "drop" or stream["retention"] != "interest" or not _is_state(ours):
        return False
    return bool(
        _given_up(step[1], ours)
        and theirs[0]["state"]["messages"] > ours[0]["state"]["messages"]
        and _all_begin(places, ("/0/state/",))
    )


def _ignores_what_was_given_up(
    stream: dict[str, Any], done: Some[Step], places: Some[str], theirs: Any, ours: Any
) -> bool:
    """Ack policy all, an ack of what was given up (max_deliver): nats-server's floor stays, and the message.

    Our floor is the message then. An interest stream removes what nobody else waits for.
    """
    step = done[-1]
    if step[0] not in ("ack", "forged") or step[3] not in _FINISHING or not _is_state(ours):
        return False
    at = 1 + NAMES.index(step[1])
    given_up = _given_up(step[1], ours)
    left, right = theirs[at].get("ack_floor", {}), ours[at].get("ack_floor", {})
    forgiven = [f"/{at}/ack_floor/"]
    if stream["retention"] == "interest" and theirs[0]["state"]["messages"] > ours[0]["state"]["messages"]:
        forgiven.append("/0/state/")
    return bool(
        ours[at].get("config", {}).get("ack_policy") == "all"
        and right["stream_seq"] in given_up
        and left["stream_seq"] < right["stream_seq"]
        and _all_begin(places, tuple(forgiven))
    )


def _given_up(name: str, state: Any) -> list[int]:
    """What advisories say that this consumer gave up."""
    told = [json.loads(each) for each in state[_ADVISORIES]]
    return [each["stream_seq"] for each in told if each["consumer"] == name and "max_deliver" in each["type"]]


def _keeps_what_was_given_up(stream: dict[str, Any], step: Step, places: Some[str], theirs: Any, ours: Any) -> bool:
    """Ack policy all, an ack of what lies behind a message that was given up: nats-server may keep that one."""
    if step[0] not in ("ack", "forged") or step[3] not in _FINISHING or not _is_state(ours):
        return False
    told = ours[1 + NAMES.index(step[1])]
    return bool(
        stream["retention"] == "interest"
        and told.get("config", {}).get("ack_policy") == "all"
        and any(seq < told["ack_floor"]["stream_seq"] for seq in _given_up(step[1], ours))
        and theirs[0]["state"]["messages"] > ours[0]["state"]["messages"]
        and _all_begin(places, ("/0/state/",))
    )


def _removes_what_lies_between(
    stream: dict[str, Any], done: Some[Step], places: Some[str], theirs: Any, ours: Any
) -> bool:
    """Ack policy all, an ack of several messages: nats-server removes others between them that nobody waits for.

    They were kept for a consumer that begins behind them.
    """
    step = done[-1]
    if step[0] not in ("ack", "forged") or step[3] not in _FINISHING or not _is_state(ours):
        return False
    others = [each["config"] for each in ours[1:_ADVISORIES] if each.get("name") != step[1] and "config" in each]
    return bool(
        stream["retention"] == "interest"
        and ours[1 + NAMES.index(step[1])].get("config", {}).get("ack_policy") == "all"
        and any(each.get("opt_start_seq", 0) > 1 for each in others)
        and theirs[0]["state"]["messages"] < ours[0]["state"]["messages"]
        and _all_begin(places, ("/0/state/",))
    )


def _tells_of_earlier_deliveries(step: Step, places: Some[str], theirs: Any, ours: Any) -> bool:
    """A reset right behind a delivery: nats-server may note the delivery after the reset, and show it on."""
    if step[0] != "reset" or not _all_end(places, _DELIVERED):
        return False
    at = 1 + NAMES.index(step[1])
    left, right = (theirs[at], ours[at]) if _is_state(ours) else (theirs, ours)
    return bool(left["delivered"]["consumer_seq"] > right["delivered"]["consumer_seq"] == 0)


def _forgets_a_reset(done: Some[Step], places: Some[str], theirs: Any, ours: Any) -> bool:
    """A restart behind a reset: nats-server may have left the reset unwritten, and goes on where it was before."""
    if done[-1][0] != "restart" or not (_is_state(theirs) and _is_state(ours)):
        return False
    reset = {1 + NAMES.index(step[1]) for step in done if step[0] == "reset"}
    forgotten = [at for at in reset if "config" in ours[at] and theirs[at]["delivered"] != ours[at]["delivered"]]
    return bool(
        all(theirs[at]["delivered"]["consumer_seq"] > ours[at]["delivered"]["consumer_seq"] for at in forgotten)
        and _all_begin(places, tuple(f"/{at}/" for at in forgotten))
    )


def _keeps_what_nobody_gets(
    stream: dict[str, Any], done: Some[Step], places: Some[str], theirs: Any, ours: Any
) -> bool:
    """An interest stream, and what a consumer never gives out: nats-server keeps it when the others are done with it.

    That is what the first pass for the last messages per subject leaves out. Once a consumer is deleted it is also what
    another one's start leaves out.
    """
    if stream["retention"] != "interest" or not _is_state(ours) or not _all_begin(places, ("/0/state/",)):
        return False
    left, right = theirs[0]["state"], ours[0]["state"]
    configs = [each["config"] for each in ours[1:_ADVISORIES] if "config" in each]
    starts = [each.get("opt_start_seq", 0) for each in configs if done[-1][0] == "drop"]
    return bool(
        left["messages"] > right["messages"]
        and (left["first_seq"] < max(starts, default=0) or any(map(_takes_last_per_subject, configs)))
    )


def _removes_what_was_not_given(stream: dict[str, Any], done: Some[Step], places: Some[str]) -> bool:
    """An ack of what an earlier consumer of this name was given: nats-server removes it if nobody waits for it."""
    step = done[-1]
    return bool(
        step[0] == "ack"
        and step[3] in _FINISHING
        and stream["retention"] != "limits"
        and any(each[:2] in (("drop", step[1]), ("reset", step[1])) for each in done)
        and _all_begin(places, ("/0/state/",))
    )


def _configs(done: Some[Step]) -> dict[str, dict[str, Any]]:
    return {step[1]: step[2] for step in done if step[0] == "create"}


def _is_last_per_subject(done: Some[Step], places: Some[str]) -> bool:
    """A reset or a restart of a consumer with the last messages per subject: its rest, and the count of it."""
    step = done[-1]
    restarted = ("restart",) in done
    found = [
        (number, name)
        for number, name in enumerate(NAMES, 1)
        if _takes_last_per_subject(_configs(done).get(name, {}))
        and (restarted or any(each[:2] == ("reset", name) for each in done))
    ]
    counted = tuple(f"/{number}/" for number, _ in found)
    return _all_begin(places, counted) or any(step[1:2] == (name,) for _, name in found)


def _is_moved_back(done: Some[Step], theirs: Any, ours: Any) -> bool:
    """At a restart nats-server moves a consumer that waits for a later sequence back to the end of the stream.

    What it counts for another one with the last messages per subject is known besides.
    """
    if done[-1][0] != "restart" or not (_is_state(theirs) and _is_state(ours)):
        return False
    last = ours[0]["state"]["last_seq"]
    for left, right in zip(theirs[1:_ADVISORIES], ours[1:_ADVISORIES], strict=True):
        if left == right or _takes_last_per_subject(right.get("config", {})):
            continue
        if not (
            right["delivered"]["stream_seq"] > last == left["delivered"]["stream_seq"] and left["num_pending"] == 0
        ):
            return False
    return bool(theirs[0] == ours[0] and theirs[_ADVISORIES] == ours[_ADVISORIES])


def _was_told_of_others(done: Some[Step]) -> bool:
    """Ack policy all, an ack of what this consumer did not deliver: nats-server takes its numbers as the floor."""
    for at, step in enumerate(done):
        if step[0] not in ("ack", "forged") or step[3] not in _FINISHING:
            continue
        begun = sum(each[:2] in (("create", step[1]), ("reset", step[1])) for each in done[:at])
        if _configs(done[:at]).get(step[1], {}).get("ack_policy") == "all" and (step[0] == "forged" or begun > 1):
            return True
    return False
