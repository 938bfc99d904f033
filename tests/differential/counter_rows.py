"""Counters that are played on both servers: each rule, each error, numbers of any size, alone and in batches."""

from __future__ import annotations

from typing import Any

from tests.differential.batch_rows import ATOMIC, part, plain, whole
from tests.support.publishes import Case, Publish

COUNTERS = {"allow_msg_counter": True}
INCR, SOURCE, SOURCES = "Nats-Incr", "Nats-Stream-Source", "Nats-Counter-Sources"
Row = tuple[str, list[Publish], dict[str, Any]]


def add(value: str, *more: tuple[str, str], subject: str = "s.a", data: bytes = b"") -> Publish:
    """One increment."""
    return Publish(subject, ((INCR, value), *more), data)


def cases() -> list[Case]:
    """All of them."""
    rows = [*_numbers(), *_rules(), *_broken(), *_limits(), *_batches()]
    found = [Case(name, publishes, COUNTERS | config) for name, publishes, config in rows]
    found += [Case(f"{case.name}, in memory", case.publishes, case.config | {"storage": "memory"}) for case in found]
    found.append(Case("disabled", [add("1"), add("x"), add("1", data=b"x"), plain()], {}))
    found.append(Case("disabled, in a batch", whole("b", ("s.a", ((INCR, "1"),)), ("s.b", ())), ATOMIC))
    found.append(Case("sealed", [add("1"), add("1"), plain()], COUNTERS, {1: {"sealed": True}}))
    return found


def _numbers() -> list[Row]:
    nines, tens = "9" * 40, "1" + "0" * 40
    odd = ["", " ", "x", "1x", "x1", "1.5", "1e3", "0x10", "1_000", "--1", "+-1", "+", "-", "1 2", "١", "1,0", "NaN"]
    return [
        ("one, two, three", [add("1"), add("2"), add("3")], {}),
        ("two subjects", [add("1"), add("10", subject="s.b"), add("1"), add("-3", subject="s.b")], {}),
        ("down and below nothing", [add("-1"), add("1"), add("-5"), add("+5"), add("-0"), add("0")], {}),
        ("zeros in front", [add("007"), add("-0008"), add("+000"), add("00000000000000000000001")], {}),
        ("beyond 64 bits", [add("9223372036854775807"), add("1"), add("18446744073709551615"), add("-" + nines)], {}),
        ("up and down again", [add(nines), add("1"), add("-" + tens), add("-1"), add(tens), add("-" + nines)], {}),
        ("very long", [add("9" * 5000), add("1"), add("-" + "9" * 5000), add("-1")], {}),
        ("as long as a header may be", [add("7" * 60000), add("3" * 60000), add("1")], {}),
        *[(f"increment {text!r}", [add("5"), add(text), add("1")], {}) for text in odd],
    ]


def _rules() -> list[Row]:
    beside = [("Nats-Rollup", "sub"), ("Nats-Rollup", "x"), ("Nats-Expected-Stream", "STREAM"),
              ("Nats-Expected-Stream", "T"), ("Nats-Expected-Last-Msg-Id", "1"), ("Nats-Expected-Last-Sequence", "1"),
              ("Nats-Expected-Last-Subject-Sequence", "1"), ("Nats-Expected-Last-Subject-Sequence-Subject", "s.b"),
              ("Nats-Expected-Last-Sequence", ""), ("Nats-Rollup", ""), ("Nats-TTL", "5"), ("Nats-TTL", "x"),
              ("Nats-Schedule", "@every 1h"), ("Nats-Schedule", "x"), ("Nats-Msg-Id", "1"), ("X", "y"),
              ("Nats-Marker-Reason", "Purge"), ("Nats-Request-Info", "{}"), ("Nats-Required-Api-Level", "99"),
              ("Nats-Batch-Sequence", "1"), ("Nats-Batch-Id", "b"), (INCR, "7")]  # fmt: skip
    rolled = {"allow_rollup_hdrs": True}
    return [
        *[(f"beside {name}: {value}", [add("2"), add("3", (name, value)), add("4")], rolled) for name, value in beside],
        ("no headers", [plain(), add("1"), plain()], {}),
        ("others only", [plain("s.a", header) for header in (("X", "1"), ("Nats-Msg-Id", "1"), ("nats-incr", "1"))],
         {}),
        ("a roll-up without an increment", [add("1"), plain("s.a", ("Nats-Rollup", "sub"), data=b"")], rolled),
        ("an id twice", [add("1", ("Nats-Msg-Id", "a")), add("5", ("Nats-Msg-Id", "a")), add("1")], {}),
        ("an id without an increment", [add("1", ("Nats-Msg-Id", "a")), plain("s.a", ("Nats-Msg-Id", "a"))], {}),
        ("with a payload", [add("1", data=b"x"), add("x", data=b"x"), add("1", data=b'{"val":"5"}')], {}),
        ("the wrong stream without an increment", [plain("s.a", ("Nats-Expected-Stream", "T"))], {}),
        ("the wrong sequence without an increment", [plain("s.a", ("Nats-Expected-Last-Sequence", "7"))], {}),
        ("ttl disabled without an increment", [plain("s.a", ("Nats-TTL", "7"))], {}),
        ("renamed", [add("1"), add("2", subject="s.b"), add("3")],
         {"subject_transform": {"src": "s.*", "dest": "s.all"}}),
        ("published again", [add("1"), add("2")], {"republish": {"src": "s.>", "dest": "r.>"}}),
    ]  # fmt: skip


def _broken() -> list[Row]:
    return [
        ("a source that a publisher makes up", [add("1", (SOURCE, "T 1 > > s.a")), add("1")], {}),
        ("an empty source", [add("1", (SOURCE, "")), add("1")], {}),
        *[(f"sources {text!r}", [add("1", (SOURCES, text)), add("2"), add("3", subject="s.b")], {}) for text in
          ("", "x", "{}", "null", "[]", "5", '{"T":5}', '{"T":null}', '{"T":{"s.a":5}}', '{"T":{"s.a":null}}',
           '{"T":{"s.a":"5"}}', '{"T":{"s.b":"x","s.a":"5"},"A":{}}', '{"T":{"s.a":"5"}} x', '{"<":{"&":"5"}}',
           '{"T":{"s.a":"1","s.a":"2"}}', '{ "T" : { } }')],
    ]  # fmt: skip


def _limits() -> list[Row]:
    return [
        ("one message each", [add("1"), add("2", subject="s.b"), add("3"), add("4")], {"max_msgs_per_subject": 1}),
        ("few messages", [add("1"), add("2", subject="s.b"), add("3", subject="s.c"), add("4")], {"max_msgs": 2}),
        ("too large", [add("1"), add("1" + "0" * 40), add("2")], {"max_msg_size": 75}),
        ("grows too large", [add("9" * 20), add("9" * 20), add("9" * 20)], {"max_msg_size": 67}),
        ("too large a header", [add("1"), add("1", ("X", "y" * 65536)), add("1")], {}),
        ("too large a header with a wrong number", [add("x" * 65536), add("1" * 65536)], {}),
    ]


def _batches() -> list[Row]:
    def of(*values: str) -> list[Publish]:
        last = len(values)
        return [part("b", n, (INCR, value), data=b"", commit="1" if n == last else None)
                for n, value in enumerate(values, 1)]  # fmt: skip

    rows: list[Row] = [
        ("a batch", [add("1"), *of("2", "3", "-10"), add("1")], ATOMIC),
        ("a batch of two subjects", [
            part("b", 1, (INCR, "1"), data=b""), part("b", 2, (INCR, "5"), subject="s.b", data=b""),
            part("b", 3, (INCR, "1"), data=b"", commit="1"), add("1"), add("1", subject="s.b")], ATOMIC),
        ("a batch, one without", [part("b", 1, (INCR, "1"), data=b""), part("b", 2, data=b"", commit="1")], ATOMIC),
        ("a batch, one wrong", [*of("1", "x"), add("1")], ATOMIC),
        ("a batch with a payload", [part("b", 1, (INCR, "1"), commit="1")], ATOMIC),
        ("a batch beside an expectation", [
            part("b", 1, (INCR, "1"), ("Nats-Expected-Last-Sequence", "0"), data=b"", commit="1")], ATOMIC),
        ("a batch with a broken counter", [add("1", (SOURCES, "x")), *of("1", "2"), add("1", subject="s.b")], ATOMIC),
        ("a batch with a made-up source", [part("b", 1, (INCR, "1"), (SOURCE, "T"), data=b"", commit="1")], ATOMIC),
        ("a batch with sources", [add("1", (SOURCES, '{"T":{"s.a":"5"}}')), *of("1", "2")], ATOMIC),
        ("a batch that grows too large", [*of("9" * 30, "9" * 30)], ATOMIC | {"max_msg_size": 150}),
        ("a batch that ends with its end", [
            part("b", 1, (INCR, "1"), data=b""), part("b", 2, (INCR, "2"), data=b""),
            part("b", 3, commit="eob", data=b"")], ATOMIC),
        ("an id twice in a batch", [
            part("b", 1, (INCR, "1"), ("Nats-Msg-Id", "1"), data=b""),
            part("b", 2, (INCR, "1"), ("Nats-Msg-Id", "1"), data=b"", commit="1"), add("1")], ATOMIC),
    ]  # fmt: skip
    return rows
