"""Publishes that several rules forbid or bring about at once, alone and in a batch: which comes first, what follows."""

from __future__ import annotations

from itertools import combinations
from typing import Any

from tests.differential.batch_rows import ATOMIC, plain, whole
from tests.support.publishes import Case, Publish

ID, LAST_ID = "Nats-Msg-Id", "Nats-Expected-Last-Msg-Id"
TTL, ROLLUP = "Nats-TTL", "Nats-Rollup"
FEATURES: dict[str, Any] = {"allow_msg_ttl": True, "allow_rollup_hdrs": True, "allow_msg_schedules": True}
FAULTS: list[tuple[str, str]] = [
    ("Nats-Incr", "x"), ("Nats-Incr", "1"), ("Nats-Expected-Stream", "T"), (TTL, "x"), (TTL, "5"), (ID, "known"),
    ("Nats-Expected-Last-Subject-Sequence", "9"), ("Nats-Expected-Last-Subject-Sequence-Subject", "s.b"),
    ("Nats-Expected-Last-Sequence", "9"), (LAST_ID, "other"), ("Nats-Schedule", "x"), ("Nats-Scheduler", "s.b"),
    ("Nats-Schedule-Next", "purge"), (ROLLUP, "x"), (ROLLUP, "sub"), ("Pad", "y" * 300), ("Nats-Request-Info", "{}"),
]  # fmt: skip
NEW: dict[str, Any] = {"discard": "new", "allow_rollup_hdrs": True}
PER_SUBJECT: dict[str, Any] = NEW | {"max_msgs_per_subject": 1, "discard_new_per_subject": True}
DEAF: dict[str, Any] = {"retention": "interest", **FEATURES}


def cases() -> list[Case]:
    """All of them."""
    rows: list[tuple[str, list[Publish], dict[str, Any]]] = [*_alone(), *_with_batches()]
    found = [Case(name, publishes, config) for name, publishes, config in rows]
    for name, config in (("", {}), (" with features", FEATURES), (" and small", FEATURES | {"max_msg_size": 200}),
                         (" without room", {"discard": "new", "max_msgs": 1, "allow_msg_ttl": True}),
                         (" that nobody wants", DEAF)):  # fmt: skip
        pairs = list(combinations(FAULTS, 2))
        alone = [plain("s.a", *pair) for pair in pairs]
        batches = [publish for n, pair in enumerate(pairs) for publish in whole(f"b{n}", ("s.c", ()), ("s.a", pair))]
        known = plain("s.b", (ID, "known"))
        found.append(Case(f"two faults{name}", [known, *alone], config))
        found.append(Case(f"two faults in a batch{name}", [known, *batches], config | ATOMIC))
    return found + [
        Case(f"{case.name}, in memory", case.publishes, case.config | {"storage": "memory"}) for case in found
    ]


def _alone() -> list[tuple[str, list[Publish], dict[str, Any]]]:
    up, up_all, last = (ROLLUP, "sub"), (ROLLUP, "all"), (LAST_ID, "i")
    return [
        ("full subject, roll-up", [plain(), plain(), plain("s.a", up), plain("s.b"), plain("s.a", up_all)],
         PER_SUBJECT),
        ("full subject and stream, roll-up", [plain(), plain("s.b"), plain("s.a", up)], PER_SUBJECT | {"max_msgs": 2}),
        ("full subject and bytes, roll-up", [plain(data=b"x" * 50), plain("s.a", up), plain("s.a", up, data=b"y" * 99)],
         PER_SUBJECT | {"max_bytes": 120}),
        ("full stream, roll-up", [plain(), plain("s.b"), plain("s.a", up), plain("s.c", up)], NEW | {"max_msgs": 2}),
        ("raised ttl", [plain("s.a", (TTL, "1")), plain("s.a", (TTL, "never")), plain("s.a", (TTL, "0"))],
         {"subject_delete_marker_ttl": 60_000_000_000}),
        ("ttl with one message per subject", [plain("s.a", (TTL, "1"))],
         {"subject_delete_marker_ttl": 60_000_000_000, "max_msgs_per_subject": 1}),
        ("nobody wants a bad ttl", [plain("s.a", (TTL, "x")), plain("s.a", (TTL, "5"))], DEAF),
        ("nobody wants an id", [plain("s.a", (ID, "i")), plain("s.a", (ID, "i")), plain("s.a", last)], DEAF),
        ("nobody wants a roll-up", [plain(), plain("s.a", up), plain("s.a", up_all)], DEAF),
        ("the last id", [plain("s.a", (ID, "i")), plain("s.a", (ID, "j"), last), plain("s.a", last), plain()], {}),
        ("the last id behind one without", [plain("s.a", (ID, "i")), plain(), plain("s.a", last)], {}),
        ("the last id is rolled up", [plain("s.a", (ID, "i")), plain("s.a", up_all), plain("s.a", last)], NEW),
    ]  # fmt: skip


def _with_batches() -> list[tuple[str, list[Publish], dict[str, Any]]]:
    last = (LAST_ID, "i")
    first, second = ("s.a", ((ID, "i"),)), ("s.b", ((ID, "j"),))
    return [
        ("the last id is of a batch", [*whole("b", second, first), plain("s.a", last)], ATOMIC),
        ("the last id is not the last of a batch", [*whole("b", first, second), plain("s.a", last)], ATOMIC),
        ("nobody wants a batch with ids", [*whole("b", second, first), plain("s.a", last), plain("s.b", (ID, "j"))],
         DEAF | ATOMIC),
        ("nobody wants a batch with a roll-up", [*whole("b", ("s.a", ((ROLLUP, "sub"),)), second)], DEAF | ATOMIC),
        ("a batch into a full subject", [plain(), *whole("b", ("s.b", ()), ("s.a", ((ROLLUP, "all"),)))],
         PER_SUBJECT | ATOMIC),
        ("a batch evicts what it rolls up", [plain(), plain("s.b"), *whole(
            "b", ("s.a", ((ROLLUP, "sub"),)), ("s.b", ()), ("s.c", ()))],
         {"max_msgs": 2, "allow_rollup_hdrs": True} | ATOMIC),
    ]  # fmt: skip
