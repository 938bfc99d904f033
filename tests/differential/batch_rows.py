"""Atomic batches that are played on both servers: each rule, each error, and how they meet."""

from __future__ import annotations

from typing import Any

from tests.support.publishes import Case, Publish

ATOMIC = {"allow_atomic": True}
NONE: tuple[tuple[str, str], ...] = ()


def part(
    batch: str, seq: object, *more: tuple[str, str], commit: str | None = None, subject: str = "s.a", data: bytes = b"x"
) -> Publish:
    """One message of a batch."""
    headers = [("Nats-Batch-Id", batch), ("Nats-Batch-Sequence", str(seq))]
    if commit is not None:
        headers.append(("Nats-Batch-Commit", commit))
    return Publish(subject, (*headers, *more), data)


def plain(subject: str = "s.a", *headers: tuple[str, str], data: bytes = b"p") -> Publish:
    return Publish(subject, headers, data)


def whole(batch: str, *messages: tuple[str, tuple[tuple[str, str], ...]], commit: str = "1") -> list[Publish]:
    """A batch of these subjects and headers; the last one commits."""
    last = len(messages)
    return [
        part(batch, n, *headers, subject=subject, data=b"%d" % n, commit=commit if n == last else None)
        for n, (subject, headers) in enumerate(messages, 1)
    ]


def alone(name: str, value: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """A message with one more header."""
    return "s.a", ((name, value),)


A, B, C = ("s.a", NONE), ("s.b", NONE), ("s.c", NONE)
SEQ, SUBJECT_SEQ = "Nats-Expected-Last-Sequence", "Nats-Expected-Last-Subject-Sequence"
OF = "Nats-Expected-Last-Subject-Sequence-Subject"


def cases() -> list[Case]:
    """All of them."""
    rows: list[tuple[str, list[Publish], dict[str, Any]]] = [*_shape(), *_commit(), *_expected(), *_limits()]
    found = [Case(name, publishes, ATOMIC | config) for name, publishes, config in rows]
    found += [Case(f"{case.name}, in memory", case.publishes, case.config | {"storage": "memory"}) for case in found]
    started = [part("b", 1), part("b", 2), part("b", 3, commit="1")]
    found.append(Case("disabled", [plain(), *started], {}))
    found.append(Case("disabled while one is under way", started, ATOMIC, {1: {}, 2: ATOMIC}))
    found.append(Case("disabled, too large for a message", [part("b", 1, data=b"x" * 99)], {"max_msg_size": 90}))
    return found


def _shape() -> list[tuple[str, list[Publish], dict[str, Any]]]:
    long_id = "i" * 64
    return [
        ("three messages", [plain(), *whole("b", A, B, C), plain()], {}),
        ("end of batch", [part("b", 1), part("b", 2, subject="s.b"), part("b", 3, commit="eob", data=b"no")], {}),
        ("one message", [part("b", 1, commit="1")], {}),
        ("a lone end of batch", [part("b", 1, commit="eob"), part("b", 2)], {}),
        ("an id twice", [*whole("b", A, B), *whole("b", A, B)], {}),
        ("two at once", [part("b", 1), part("c", 1), part("c", 2, commit="1"), part("b", 2, commit="1")], {}),
        ("an empty id is none", [part("", 1, commit="1")], {}),
        ("longest id", whole(long_id, A, B), {}),
        ("id too long", [part(long_id + "i", 1)], {}),
        ("odd ids", [p for i in ('a"b', "a\\b", "grün", "<&>", "a b", "\x01") for p in whole(i, A, B)], {}),
        ("no sequence", [Publish("s.a", (("Nats-Batch-Id", "b"),))], {}),
        *[(f"sequence {text!r}", [part("b", text)], {}) for text in
          ("", "x", "-1", "0", "00", "01", "+1", "1.0", " 1", "18446744073709551615", "18446744073709551616")],
        ("begins with two", [part("b", 2), part("b", 1), part("b", 2, commit="1")], {}),
        ("a gap", [part("b", 1), part("b", 3), part("b", 2, commit="1")], {}),
        ("the same again", [part("b", 1), part("b", 1), part("b", 2, commit="1")], {}),
        *[(f"commit {text!r}", [part("b", 1), part("b", 2, commit=text), part("b", 3, commit="1")], {})
          for text in ("", "0", "2", "EOB", "true", "11")],
        ("begins with a bad commit", [part("b", 1, commit="x"), part("b", 2)], {}),
        ("empty payloads", [part("b", 1, data=b""), part("b", 2, data=b"", commit="1")], {}),
        ("status line", [Publish("s.a", part("b", 1, commit="1").headers)], {}),
    ]  # fmt: skip


def _commit() -> list[tuple[str, list[Publish], dict[str, Any]]]:
    level, ids = "Nats-Required-Api-Level", "Nats-Msg-Id"
    ttl, rollup = "Nats-TTL", "Nats-Rollup"
    rolled: dict[str, Any] = {"allow_rollup_hdrs": True}
    first = ("s.a", ((rollup, "sub"),))
    return [
        *[(f"api level {text!r}", [part("b", 1), part("b", 2, (level, text)), part("b", 3, commit="1")], {})
          for text in ("0", "4", "99", "x", "", "-1", "+2")],
        ("api level at the end", [part("b", 1), part("b", 2, (level, "99"), commit="1"), part("b", 3)], {}),
        ("request info", whole("b", alone("Nats-Request-Info", "{}"), B), {}),
        ("ids", [*whole("b", alone(ids, "1"), alone(ids, "2")), plain("s.a", (ids, "2"))], {}),
        ("an id of before", [plain("s.a", (ids, "1")), *whole("b", A, alone(ids, "1"))], {}),
        ("an id twice inside", whole("b", alone(ids, "1"), B, alone(ids, "1")), {}),
        ("last id is unsupported", whole("b", A, alone("Nats-Expected-Last-Msg-Id", "1")), {}),
        ("last id before a wrong stream", whole("b", ("s.a", (("Nats-Expected-Stream", "X"),)),
                                                alone("Nats-Expected-Last-Msg-Id", "1")), {}),
        ("the stream", whole("b", alone("Nats-Expected-Stream", "STREAM"), B), {}),
        ("another stream", whole("b", A, alone("Nats-Expected-Stream", "T"), B), {}),
        ("ttl disabled", whole("b", A, alone(ttl, "5")), {}),
        ("bad ttl, disabled", whole("b", A, alone(ttl, "x")), {}),
        ("ttl", whole("b", alone(ttl, "50"), alone(ttl, "never")), {"allow_msg_ttl": True}),
        ("bad ttl", whole("b", A, alone(ttl, "x")), {"allow_msg_ttl": True}),
        ("raised ttl", whole("b", A, alone(ttl, "1")), {"subject_delete_marker_ttl": 60_000_000_000}),
        ("roll-up disabled", whole("b", first, B), {}),
        ("roll-up", [plain(), plain("s.b"), *whole("b", first, B)], rolled),
        ("roll-up of a subject behind another", [plain(), *whole("b", B, first)], rolled),
        ("roll-up of a subject in the batch", [plain(), *whole("b", A, first)], rolled),
        ("roll-up, then the subject again", [plain(), *whole("b", first, A, A)], rolled),
        ("roll-up of all", [plain(), plain("s.b"), *whole("b", ("s.a", ((rollup, "ALL"),)), B)], rolled),
        ("roll-up of all, second", [plain(), *whole("b", B, ("s.a", ((rollup, "all"),)))], rolled),
        ("bad roll-up", whole("b", A, alone(rollup, "x")), rolled),
        ("increment", whole("b", A, alone("Nats-Incr", "1")), {}),
        ("bad increment", whole("b", A, alone("Nats-Incr", "x")), {}),
        ("schedule disabled", whole("b", A, alone("Nats-Schedule", "@every 1h")), {}),
        ("scheduler disabled", whole("b", A, alone("Nats-Scheduler", "s.x")), {}),
    ]  # fmt: skip


def _expected() -> list[tuple[str, list[Publish], dict[str, Any]]]:
    of_b = ((SUBJECT_SEQ, "1"), (OF, "s.b"))
    return [
        ("last sequence", [plain(), *whole("b", alone(SEQ, "1"), B)], {}),
        ("wrong last sequence", [plain(), *whole("b", alone(SEQ, "2"), B)], {}),
        ("last sequence, second", [plain(), *whole("b", A, alone(SEQ, "2"))], {}),
        ("wrong last sequence, second", [plain(), *whole("b", A, alone(SEQ, "1"))], {}),
        ("bad last sequence", [plain(), *whole("b", alone(SEQ, "x"), B)], {}),
        ("of the subject", [plain(), *whole("b", alone(SUBJECT_SEQ, "1"), B)], {}),
        ("of the subject, wrong", [plain(), *whole("b", alone(SUBJECT_SEQ, "0"), B)], {}),
        ("of a new subject", [plain(), *whole("b", ("s.c", ((SUBJECT_SEQ, "0"),)), B)], {}),
        ("of a subject in the batch", [plain(), *whole("b", A, alone(SUBJECT_SEQ, "2"))], {}),
        ("of two subjects", [plain(), plain("s.b"), *whole(
            "b", alone(SUBJECT_SEQ, "1"), ("s.b", ((SUBJECT_SEQ, "2"),)))], {}),
        ("of another subject", [plain("s.b"), *whole("b", ("s.a", of_b), ("s.c", of_b), B)], {}),
        ("of another subject, then another number", [plain("s.b"), *whole(
            "b", ("s.a", of_b), ("s.c", ((SUBJECT_SEQ, "2"), (OF, "s.b"))))], {}),
        ("of another subject in the batch", [plain("s.b"), *whole("b", B, ("s.a", of_b))], {}),
        ("of many subjects", [plain("s.b"), *whole("b", ("s.a", ((SUBJECT_SEQ, "1"), (OF, "s.*"))), B)], {}),
        ("of many subjects, some in the batch", [plain("s.b"), *whole(
            "b", B, ("s.a", ((SUBJECT_SEQ, "1"), (OF, "s.*"))))], {}),
        ("another subject alone", whole("b", A, ("s.a", ((OF, "s.b"),))), {}),
        ("both wrong", [plain(), *whole("b", ("s.a", ((SEQ, "7"), (SUBJECT_SEQ, "8"))))], {}),
    ]  # fmt: skip


def _limits() -> list[tuple[str, list[Publish], dict[str, Any]]]:
    new: dict[str, Any] = {"discard": "new"}
    return [
        ("longest", [*[part("b", n) for n in range(1, 1000)], part("b", 1000, commit="1")], {}),
        ("longest with its end", [*[part("b", n) for n in range(1, 1001)], part("b", 1001, commit="eob")], {}),
        ("too long", [*[part("b", n) for n in range(1, 1002)], part("b", 1002, commit="1")], {}),
        ("begins beyond", [part("b", 1001), part("b", 1002), part("b", 1001, commit="eob")], {}),
        ("too many", [part(f"b{n}", 1) for n in range(51)], {}),
        ("too large a message", [part("b", 1), part("b", 2, data=b"x" * 200), part("b", 3, commit="1")],
         {"max_msg_size": 150}),
        ("too large a header", [part("b", 1, ("X", "y" * 65536)), part("b", 2, commit="1")], {}),
        ("evicts", [plain(), plain(), *whole("b", A, B, C)], {"max_msgs": 4}),
        ("evicts its own", [plain(), *whole("b", A, B, C)], {"max_msgs": 2}),
        ("evicts by size", [plain(), plain(), *whole("b", A, B, C)], {"max_bytes": 400}),
        ("evicts of the subject", [plain(), *whole("b", A, B, A, A)], {"max_msgs_per_subject": 2}),
        ("no room by number", [plain(), plain(), *whole("b", A, B, C)], new | {"max_msgs": 4}),
        ("room by number", [plain(), *whole("b", A, B, C)], new | {"max_msgs": 4}),
        ("no room by size", [plain(), *whole("b", A, B, C)], new | {"max_bytes": 300}),
        ("no room in the subject", [plain(), *whole("b", B, A, A)],
         new | {"max_msgs_per_subject": 2, "discard_new_per_subject": True}),
        ("room in the subject", [plain(), *whole("b", B, A)],
         new | {"max_msgs_per_subject": 2, "discard_new_per_subject": True}),
        ("no room in the subject but a roll-up", [plain(), *whole("b", B, alone("Nats-Rollup", "sub"))],
         new | {"max_msgs_per_subject": 1, "discard_new_per_subject": True, "allow_rollup_hdrs": True}),
        ("nobody is interested", [plain(), *whole("b", A, B), plain()], {"retention": "interest"}),
    ]  # fmt: skip
