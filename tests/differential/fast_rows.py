"""Fast batches that are played on both servers: the grammar of reply subjects, flow, gaps, ends, errors, limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support.fast import APPEND, COMMIT, END, PING, START, Fast, FastCase
from tests.support.publishes import Publish

Steps = Sequence[Fast | Publish]
Row = tuple[str, Steps, dict[str, Any]]
GAPS = ("fail", "ok")
PLAIN = Publish("s.a", (), b"p")


def run(first: int, last: int, **more: Any) -> list[Fast]:
    """Messages `first` to `last`, the first one of a batch starts it."""
    return [Fast(seq, START if seq == 1 else APPEND, **more) for seq in range(first, last + 1)]


def cases() -> list[FastCase]:
    """All of them."""
    rows = [*_replies(), *_ends(), *_flow(), *_gaps(), *_pings(), *_errors(), *_judged(), *_limits()]
    found = [FastCase(name, steps, config) for name, steps, config in rows]
    found += [FastCase(f"{case.name}, in memory", case.steps, case.config | {"storage": "memory"}) for case in found]
    off = {"allow_batched": False}
    found += [
        FastCase("disabled", [PLAIN, *run(1, 3), Fast(4, COMMIT), Fast(1, reply="$FI"), PLAIN], off),
        FastCase("disabled, too large a message", run(1, 2, payload=b"x" * 99), off | {"max_msg_size": 90}),
        FastCase("disabled while one is under way", [*run(1, 3), *run(4, 5), Fast(6, COMMIT)], {}, {3: off, 4: {}}),
        FastCase("sealed while one is under way", [*run(1, 3), Fast(4, COMMIT)], {}, {3: {"sealed": True}}),
        FastCase("updated while one is under way", [*run(1, 3), Fast(4, COMMIT)], {}, {3: {"max_msgs": 2}}),
    ]
    return found


def _replies() -> list[Row]:
    wrong = ["b.10.fail.1.5.$FI", "b.10.fail.1.x.$FI", "b.10.fail.1..$FI", "b.10.fail.1.-1.$FI", "b.10.fail.0.0.$FI",
             "b.10.fail.x.0.$FI", "b.10.fail..0.$FI", "b.10.fail.-1.0.$FI", "b.10.fail.18446744073709551615.1.$FI",
             "b.10.fail.18446744073709551616.1.$FI", "b.10.maybe.1.0.$FI", "b.10.OK.1.0.$FI", "b.10..1.0.$FI",
             "b.10.fail.2.0.$FI", "b.10.fail.1.1.$FI", "b.10.fail.1.3.$FI", "10.fail.1.0.$FI", "fail.1.0.$FI",
             "1.0.$FI", "0.$FI", "$FI", "b.10.fail.01.00.$FI", "b.10.fail.1.0.$fi", "b.10.fail.1.0.$FIx"]  # fmt: skip
    return [
        *[(f"reply {text}", [Fast(1, reply=text), Fast(2, COMMIT)], {}) for text in wrong],
        *[(f"flow {text!r}", [*run(1, 25, flow=text), Fast(26, END, flow=text)], {})
          for text in ("1", "2", "3", "10", "499", "1000", "0", "-1", "x", "65535", "65536", "99999999999")],
        ("longest id", [*run(1, 2, batch="i" * 64), Fast(3, COMMIT, batch="i" * 64)], {}),
        ("id too long", run(1, 1, batch="i" * 65), {}),
        ("odd ids", [step for i in ('a"b', "a\\b", "grün", "<&>", "\x01") for step in
                     (*run(1, 1, batch=i), Fast(2, COMMIT, batch=i))], {}),
    ]  # fmt: skip


def _ends() -> list[Row]:
    found: list[Row] = []
    for gap in GAPS:
        found += [
            (f"three and a commit, {gap}", [PLAIN, *run(1, 3, gap=gap), Fast(4, COMMIT, gap=gap), PLAIN], {}),
            (f"three and an end, {gap}", [*run(1, 3, gap=gap), Fast(4, END, gap=gap), Fast(5, gap=gap)], {}),
            (f"one and a commit, {gap}", [Fast(1, COMMIT, gap=gap), Fast(2, gap=gap)], {}),
            (f"one and an end, {gap}", [*run(1, 1, gap=gap), Fast(2, END, gap=gap)], {}),
            (f"behind a commit, {gap}", [*run(1, 1, gap=gap), Fast(2, COMMIT, gap=gap), Fast(3, gap=gap)], {}),
            (f"an id again, {gap}", [*run(1, 2, gap=gap), Fast(3, COMMIT, gap=gap)] * 2, {}),
            (f"nothing but an end, {gap}", [Fast(2, END, gap=gap)], {}),
        ]
    return found


def _flow() -> list[Row]:
    two: list[Fast] = []
    three: list[Fast] = []
    for seq in range(1, 40):
        two += [step for name in "bc" for step in run(seq, seq, batch=name, flow=400)]
        three += [step for name in "bcd" for step in run(seq, seq, batch=name, flow=3)]
    return [
        ("a long one", [*run(1, 1100, flow=500), Fast(1101, END, flow=500)], {}),
        ("two, one behind the other", [*run(1, 5, flow=2), *run(1, 40, batch="c", flow=8), *run(6, 30, flow=2)], {}),
        ("two at once", [*two, Fast(40, END), Fast(40, END, batch="c")], {}),
        ("three at once", [*three, *[Fast(40, COMMIT, batch=name) for name in "bcd"]], {}),
        ("one ends, the other grows", [*run(1, 1, batch="c"), *run(1, 3, flow=100), Fast(2, END, batch="c"),
                                       *run(4, 60, flow=100)], {}),
        ("many, each with little", [step for n in range(300) for step in run(1, 1, batch=f"b{n}", flow=500)]
         + [step for n in range(300) for step in run(2, 2, batch=f"b{n}", flow=500)] + run(3, 9, batch="b0"), {}),
        ("plain ones in between", [*run(1, 2), PLAIN, *run(3, 4), PLAIN, Fast(5, COMMIT), PLAIN], {}),
    ]  # fmt: skip


def _gaps() -> list[Row]:
    found: list[Row] = []
    for gap in GAPS:

        def of(*steps: tuple[int, int], mode: str = gap) -> Steps:
            return [Fast(seq, operation, gap=mode, flow=2) for seq, operation in steps]

        found += [
            (f"a gap, {gap}", [*of((1, START), (2, APPEND), (5, APPEND), (6, APPEND), (7, COMMIT))], {}),
            (f"a gap at the start, {gap}", of((1, START), (3, APPEND), (4, APPEND), (5, COMMIT)), {}),
            (f"a gap before the commit, {gap}", of((1, START), (2, APPEND), (5, COMMIT), (6, APPEND)), {}),
            (f"a gap before the end, {gap}", of((1, START), (2, APPEND), (5, END), (6, APPEND)), {}),
            (f"a large gap, {gap}", of((1, START), (2**63, APPEND), (2**63 + 1, COMMIT)), {}),
            (f"the largest gap, {gap}", of((1, START), (2**64 - 2, APPEND), (2**64 - 2, APPEND)), {}),
            (f"backwards, {gap}", of((1, START), (2, APPEND), (3, APPEND), (2, APPEND), (4, APPEND)), {}),
            (f"the same again, {gap}", of((1, START), (2, APPEND), (2, APPEND), (3, COMMIT)), {}),
            (f"a start again, {gap}", of((1, START), (1, START), (2, APPEND)), {}),
            (f"a commit backwards, {gap}", of((1, START), (2, APPEND), (2, COMMIT), (3, COMMIT)), {}),
            (f"an end backwards, {gap}", of((1, START), (2, APPEND), (2, END), (3, END)), {}),
            (f"begins with two, {gap}", of((2, APPEND), (1, START), (2, COMMIT)), {}),
            (f"begins with a commit of two, {gap}", of((2, COMMIT), (3, END)), {}),
            (f"the mode changes from {gap}", [*of((1, START)), *of((3, APPEND), mode=GAPS[gap == "fail"]),
                                              *of((5, COMMIT), mode=GAPS[gap == "fail"])], {}),
        ]  # fmt: skip
    return found


def _pings() -> list[Row]:
    found: list[Row] = []
    for gap in GAPS:

        def ping(seq: int, mode: str = gap) -> Fast:
            return Fast(seq, PING, gap=mode, flow=3)

        found += [
            (f"ping in order, {gap}", [*run(1, 4, gap=gap, flow=3), ping(4), *run(5, 7, gap=gap, flow=3), ping(7),
                                       Fast(8, COMMIT, gap=gap)], {}),
            (f"ping ahead, {gap}", [*run(1, 4, gap=gap, flow=3), ping(9), ping(9), Fast(10, COMMIT, gap=gap)], {}),
            (f"ping behind, {gap}", [*run(1, 4, gap=gap, flow=3), ping(2), Fast(5, END, gap=gap)], {}),
            (f"ping first, {gap}", [ping(1), ping(1), *run(1, 2, gap=gap), *run(2, 3, gap=gap), ping(3)], {}),
            (f"ping of none, {gap}", [ping(3), ping(0)], {}),
            (f"ping with a payload and headers, {gap}", [
                *run(1, 2, gap=gap), Fast(2, PING, (("X", "y"),), b"abc", gap=gap), Fast(3, END, gap=gap)], {}),
            (f"ping far ahead, {gap}", [*run(1, 1, gap=gap, flow=3), ping(2**64 - 2), ping(1)], {}),
        ]  # fmt: skip
    return found


def _errors() -> list[Row]:
    found: list[Row] = []
    for gap in GAPS:

        def around(*headers: tuple[str, str], payload: bytes = b"y", mode: str = gap) -> dict[str, Steps]:
            """The message in question first, in the middle, as the commit, and as all there is."""
            odd: dict[str, Any] = {"headers": headers, "payload": payload, "gap": mode, "flow": 2}
            return {
                "first": [PLAIN, Fast(1, START, **odd), *run(2, 4, gap=mode, flow=2), Fast(5, COMMIT, gap=mode)],
                "in between": [*run(1, 2, gap=mode, flow=2), Fast(3, **odd), *run(4, 6, gap=mode, flow=2),
                               Fast(7, COMMIT, gap=mode)],
                "last": [*run(1, 2, gap=mode, flow=2), Fast(3, COMMIT, **odd), Fast(4, gap=mode)],
                "alone": [PLAIN, Fast(1, COMMIT, **odd), Fast(2, gap=mode)],
                "before the end": [*run(1, 2, gap=mode, flow=2), Fast(3, **odd), Fast(4, END, gap=mode)],
            }  # fmt: skip

        rows: list[tuple[str, dict[str, Steps], dict[str, Any]]] = [
            ("wrong last sequence", around(("Nats-Expected-Last-Sequence", "77")), {}),
            ("wrong stream", around(("Nats-Expected-Stream", "T")), {}),
            ("ttl disabled", around(("Nats-TTL", "5")), {}),
            ("too large a message", around(payload=b"y" * 99), {"max_msg_size": 90}),
            ("too large a header", around(("X", "y" * 65600)), {}),
            ("full", around(), {"max_msgs": 2, "discard": "new"}),
            ("full by size", around(payload=b"y" * 300), {"max_bytes": 400, "discard": "new"}),
            ("no room in the subject", around(), {
                "max_msgs_per_subject": 2, "discard_new_per_subject": True, "discard": "new"}),
            ("api level", around(("Nats-Required-Api-Level", "99")), {}),
            ("api level that is there", around(("Nats-Required-Api-Level", "4")), {}),
            ("no increment", around(), {"allow_msg_counter": True}),
        ]  # fmt: skip
        found += [
            (f"{name} {where}, {gap}", steps, config)
            for name, places, config in rows
            for where, steps in places.items()
        ]
        ids: list[tuple[str, Steps]] = [
            (where, [Publish("s.b", (("Nats-Msg-Id", "1"),), b"before"), *steps])
            for where, steps in around(("Nats-Msg-Id", "1")).items()
        ]
        found += [(f"an id of before {where}, {gap}", steps, {}) for where, steps in ids]
        twice = [Fast(2, headers=(("Nats-Msg-Id", "2"),), gap=gap, flow=1) for _ in range(1)]
        again = [Fast(seq, headers=(("Nats-Msg-Id", "2"),), gap=gap, flow=1) for seq in (3, 4, 5)]
        found.append((f"an id again and again, {gap}", [
            *run(1, 1, gap=gap, flow=1), *twice, *again, Fast(6, COMMIT, gap=gap)], {}))  # fmt: skip
    return found


def _judged() -> list[Row]:
    def batch(*headers: tuple[str, str], payload: bytes = b"y") -> Steps:
        return [
            *run(1, 2),
            Fast(3, headers=headers, payload=payload),
            Fast(4, COMMIT, headers=headers, payload=payload),
        ]

    rolled: dict[str, Any] = {"allow_rollup_hdrs": True}
    seq, of = "Nats-Expected-Last-Subject-Sequence", "Nats-Expected-Last-Subject-Sequence-Subject"
    rows: list[Row] = [
        ("other headers", batch(("X", "y"), ("Nats-Foo", "1")), {}),
        ("request info", batch(("Nats-Request-Info", "{}")), {}),
        ("the stream", batch(("Nats-Expected-Stream", "STREAM")), {}),
        ("last sequence", [*run(1, 2), Fast(3, headers=(("Nats-Expected-Last-Sequence", "2"),)), Fast(4, COMMIT)], {}),
        ("bad last sequence", batch(("Nats-Expected-Last-Sequence", "x")), {}),
        ("of the subject", [*run(1, 2), Fast(3, headers=((seq, "2"),)), Fast(4, COMMIT, headers=((seq, "3"),))], {}),
        ("of the subject, wrong", batch((seq, "7")), {}),
        ("of another subject", batch((seq, "0"), (of, "s.b")), {}),
        ("of another subject alone", batch((of, "s.b")), {}),
        ("ttl", batch(("Nats-TTL", "500")), {"allow_msg_ttl": True}),
        ("bad ttl", batch(("Nats-TTL", "x")), {"allow_msg_ttl": True}),
        ("raised ttl", batch(("Nats-TTL", "1")), {"subject_delete_marker_ttl": 60_000_000_000}),
        ("roll-up disabled", batch(("Nats-Rollup", "sub")), {}),
        ("roll-up", batch(("Nats-Rollup", "sub")), rolled),
        ("roll-up of all", [PLAIN, *batch(("Nats-Rollup", "all"))], rolled),
        ("bad roll-up", batch(("Nats-Rollup", "x")), rolled),
        ("increment disabled", batch(("Nats-Incr", "1"), payload=b""), {}),
        ("schedule disabled", batch(("Nats-Schedule", "@every 1h")), {}),
        ("schedule", batch(("Nats-Schedule", "@every 1h"), ("Nats-Schedule-Target", "s.t")),
         {"allow_msg_schedules": True}),
        ("in an atomic batch as well", batch(("Nats-Batch-Id", "x"), ("Nats-Batch-Sequence", "1")),
         {"allow_atomic": True}),
        ("counters", [
            Fast(seq_, START if seq_ == 1 else COMMIT if seq_ == 5 else APPEND, (("Nats-Incr", str(seq_)),), b"")
            for seq_ in range(1, 6)], {"allow_msg_counter": True}),
        ("a counter with a payload", [
            Fast(1, START, (("Nats-Incr", "1"),), b""), Fast(2, COMMIT, (("Nats-Incr", "1"),))],
         {"allow_msg_counter": True}),
        ("a broken counter", [Fast(1, START, (("Nats-Incr", "1"), ("Nats-Counter-Sources", "x")), b""),
                              Fast(2, COMMIT, (("Nats-Incr", "1"),), b"")], {"allow_msg_counter": True}),
        ("renamed", [*run(1, 3), Fast(4, COMMIT)], {"subject_transform": {"src": "s.*", "dest": "t.{{wildcard(1)}}"}}),
        ("nobody is interested", [*run(1, 3, flow=1), Fast(4, COMMIT)], {"retention": "interest"}),
    ]  # fmt: skip
    return rows


def _limits() -> list[Row]:
    return [
        ("too many", [step for n in range(1001) for step in run(1, 1, batch=f"b{n}")] + run(2, 2, batch="b7"), {}),
        ("evicts", [*run(1, 6), Fast(7, COMMIT)], {"max_msgs": 3}),
        ("evicts of the subject", [*run(1, 6), Fast(7, COMMIT)], {"max_msgs_per_subject": 1}),
        ("evicts by size", [*run(1, 6), Fast(7, COMMIT)], {"max_bytes": 150}),
    ]
