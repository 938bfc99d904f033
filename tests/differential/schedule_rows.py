"""Message schedules that are played on both servers: every header and every error. None of them is due soon."""

from __future__ import annotations

from typing import Any

from tests.differential.batch_rows import NONE, part, plain, whole
from tests.support.publishes import Case, Publish

ON = {"allow_msg_schedules": True}
WITH_TTL = ON | {"allow_msg_ttl": True}
YEARLY = "0 0 3 29 2 *"


def schedule(pattern: str | None, *more: tuple[str, str], target: str | None = "s.t", subject: str = "s.a") -> Publish:
    """A schedule; None leaves a header out."""
    headers = []
    if pattern is not None:
        headers.append(("Nats-Schedule", pattern))
    if target is not None:
        headers.append(("Nats-Schedule-Target", target))
    return Publish(subject, (*headers, *more), b"x")


def zoned(pattern: str, zone: str) -> Publish:
    return schedule(pattern, ("Nats-Schedule-Time-Zone", zone))


PATTERNS = [
    "", " ", "x", "@at", "@at ", "@at x", "@at 2090-01-01T00:00:00Z", "@at 2090-01-01T00:00:00.5+02:00",
    "@at 2090-01-01t00:00:00z", "@at 2090-01-01", "@at  2090-01-01T00:00:00Z", "@at 2090-13-01T00:00:00Z",
    "@at 0001-01-01T00:00:00Z", "@AT 2090-01-01T00:00:00Z",
    "@every", "@every ", "@every 1h", "@every 1h30m", "@every 1.5h", "@every 999ms", "@every 0", "@every -1h",
    "@every  1h", "@every 3600", "@every x", "@every 1h x", "@every 2562047h", "@every 9999999h",
    "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@Yearly", "@hourly ", "@reboot", "@minutely",
    YEARLY, "0 0 3 29 2", "0 0 3 29 2 * *", "  0 0 3   29 2 *  ", "0 0 3 29 feb *", "0 0 3 29 FEB *", "0 0 3 29 2 ?",
    "0 0 3 30 2 *", "0 0 3 31 2,4,6,9,11 *", "60 0 3 29 2 *", "0 60 3 29 2 *", "0 0 24 29 2 *", "0 0 3 0 2 *",
    "0 0 3 32 2 *", "0 0 3 29 0 *", "0 0 3 29 13 *", "0 0 3 29 2 7", "0 0 3 29 2 sun", "0 0 3 29 2 sunday",
    "0 0 3 29 2 mon-fri", "0 0 3 29 2 fri-mon", "0 0 3 29 2 1,3", "0 0 3 29 2 1-5/2", "0 0 3 29 2 1/2",
    "0 0 3 1-3-5 2 *", "0 0 3 1/2/3 2 *", "0 0 3 */0 2 *", "0 0 3 */x 2 *", "0 0 3 */-1 2 *", "0 0 3 -1 2 *",
    "0 0 3 1- 2 *", "0 0 3 , 2 *", "0 0 3 1,,2 2 *", "0 0 3 +29 2 *", "0 0 3 029 2 *", "0 0 3 29.0 2 *",
    "0 0 3 *-5 2 *", "0 0 3 */99 2 *", "0 0 3 5-4 2 *", "0 0 3 2-2 2 *", "jan 0 3 29 2 *", "0 0 3 29 mon *",
]  # fmt: skip
# in some way more than a calendar or a clock has
ODD = [
    "* , * * * *", "* * , * * *", "* * * , * ,", "0 0 3 29 2 ,", "0 0 3 , 2 mon", "0 0 3 30 2 ,",
    "0 0 3 31 2,4 *", "0 0 3 31 2,4 mon", "0 0 3 29 , *", "0,, 0 3 29 2 *", "0 0 3 29 2 */7",
    "0 0 3 29 2 */8", "0 0 3 */32 2 *", "0 0 3 29/99 2 *", "0 0 3 29/9223372036854775807 2 *",
    "0 0 3 29/9223372036854775808 2 *", "0 0 3 " + "9" * 5000 + " 2 *", "0 0 3 " + "0" * 5000 + "29 2 *",
    "0 0 3 29/-0 2 *", "0 0 3 29/+1 2 *", "0 0 3 +29/+1 2 *", "0 0 3 1-/2 2 *", "0 0 3 /2 2 *", "0 0 3 29/ 2 *",
    "0 0 3 ?/2 2 *", "0 0 3 ?-5 2 *", "0 0 3 ** 2 *", "0 0 3 *,x 2 *", "0 0 3 29 Feb-MAR *", "0 0 3 29 feb-jan *",
    "0 0 3 29 2 SUN-sat", "0 0 3 29 2 sun/2", "0 0 3 29 2 0-6/6", "0 0 3 1_0 2 *", "0 0 3 0x1d 2 *",
    "0\t0\v3\f29 2 *", "0\x1c0 3 29 2 * *", "0\u00a00\u20033\u300029 2 *", "0 0 3 \uff12\uff19 2 *",
    "0 0 3 " + ",".join(["29"] * 4000) + " 2 *", "0 0 3 " + ",".join(["29"] * 4000) + ",x 2 *", "0 " * 9000,
    "@at 9999-12-31T23:59:60Z", "@at 10000-01-01T00:00:00Z", "@at 2090-02-29T00:00:00Z",
    "@at 2090-01-01T24:00:00Z", "@at 2090-01-01T0:00:00Z", "@at 2090-01-01T00:00:00,5Z",
    "@at 2090-01-01T00:00:00+24:00", "@at 2090-01-01T00:00:00+25:00", "@at 2090-01-01T00:00:00-00:00",
    "@at 2090-01-01T00:00:00." + "5" * 5000 + "Z", "@at 2090-01-01T00:00:00.Z", "@at " + "9" * 5000,
    "@at 2090-01-01T00:00:00Z ", "@at 2090-01-01T00:00:00", "@at 2090-01-01T00:00:00Z\x00",
    "@every 1ns", "@every 1s1ns", "@every 999999999ns", "@every +1h", "@every -1s", "@every -9223372036854775808ns",
    "@every 9223372036854775808ns", "@every " + "9" * 5000 + "h", "@every " + "0" * 5000 + "1h",
    "@every 1h" + "1ns" * 3000, "@every 1.h", "@every .5h", "@every .h", "@every 1." + "9" * 5000 + "h",
    "@every 3600000000\u00b5s", "@every 1d",
]  # fmt: skip
ZONES = ["UTC", "", " ", "x", "Europe/Berlin", "europe/berlin", "EST", "Etc/GMT+5", "America", "../etc/passwd",
         "/etc/localtime", "x" * 5000, "UTC\x00", "a\\b", "Etc/", "Local", "local", "Z", "+02:00",
         "Europe/Berlin ", "Asia/Kathmandu"]  # fmt: skip


def cases() -> list[Case]:
    """All of them."""
    rows = [*_patterns(), *_headers(), *_ends(), *_batches()]
    found = [Case(name, publishes, config) for name, publishes, config in rows]
    found += [Case(f"{name}, disabled", publishes, {k: v for k, v in config.items() if k != "allow_msg_schedules"})
              for name, publishes, config in rows if "allow_atomic" not in config]  # fmt: skip
    found.append(Case("enabled by an update", [schedule(YEARLY), schedule(YEARLY)], {}, {1: ON}))
    found.append(Case("in memory", [schedule(YEARLY), schedule(YEARLY), plain("s.a")], ON | {"storage": "memory"}))
    return found


def _patterns() -> list[tuple[str, list[Publish], dict[str, Any]]]:
    return [
        *[(f"pattern {text!r}", [schedule(text)], ON) for text in PATTERNS],
        *[(f"odd pattern {n} {text[:40]!r}", [schedule(text)], ON) for n, text in enumerate(ODD)],
        *[(f"zone {text!r}"[:60], [zoned(YEARLY, text)], ON) for text in ZONES],
        ("zone with @every", [zoned("@every 1h", "UTC")], ON),
        ("zone with @at", [zoned("@at 2090-01-01T00:00:00Z", "UTC")], ON),
        ("zone with @yearly", [zoned("@yearly", "UTC")], ON),
        ("zone alone", [Publish("s.a", (("Nats-Schedule-Time-Zone", "UTC"),))], ON),
        ("bad zone alone", [Publish("s.a", (("Nats-Schedule-Time-Zone", "x"),))], ON),
        ("bad zone and pattern", [zoned("x", "y")], ON),
    ]


def _headers() -> list[tuple[str, list[Publish], dict[str, Any]]]:
    targets = [None, "", "s.a", "s.*", "s.>", "t", "s", "s..b", "s.b c", "s.b", "S.b"]
    sources = ["", "s.a", "s.t", "s.*", "t", "s.b", "s..b"]
    ttls = ["", "5", "never", "1h", "0", "x", "-1", "100ms"]
    rollups = ["", "sub", "SUB", "all", "x"]
    found: list[tuple[str, list[Publish], dict[str, Any]]] = [
        *[(f"target {text!r}", [schedule(YEARLY, target=text)], ON) for text in targets],
        *[(f"source {text!r}", [schedule(YEARLY, ("Nats-Schedule-Source", text))], ON) for text in sources],
        *[(f"ttl {text!r}", [schedule(YEARLY, ("Nats-Schedule-TTL", text))], WITH_TTL) for text in ttls],
        *[(f"ttl {text!r} not allowed", [schedule(YEARLY, ("Nats-Schedule-TTL", text))], ON) for text in ttls],
        *[(f"roll-up of what it makes {text!r}", [schedule(YEARLY, ("Nats-Schedule-Rollup", text))], ON)
          for text in rollups],
        *[(f"roll-up {text!r}", [schedule(YEARLY, ("Nats-Rollup", text))], ON) for text in rollups],
        ("its own ttl", [schedule(YEARLY, ("Nats-TTL", "1h"))], WITH_TTL),
        ("one per subject", [plain("s.a"), schedule(YEARLY), schedule("@every 2h"), plain("s.a")], ON),
        ("other headers", [schedule(YEARLY, ("A", "b"), ("Nats-Msg-Id", "1"), ("Nats-Expected-Last-Sequence", "0"))],
         ON),
        ("a duplicate", [schedule(YEARLY, ("Nats-Msg-Id", "1")), schedule("x", ("Nats-Msg-Id", "1")),
                         schedule(YEARLY, ("Nats-Msg-Id", "1"))], ON),
        ("wrong sequence first", [schedule("x", ("Nats-Expected-Last-Sequence", "9"))], ON),
        ("request info", [schedule(YEARLY, ("Nats-Request-Info", "{}"))], ON),
        ("several faults", [schedule(YEARLY, ("Nats-Schedule-TTL", "x"), ("Nats-Schedule-Rollup", "x"), target="x")],
         ON),
        ("several other faults", [schedule(YEARLY, ("Nats-Schedule-TTL", "5"), ("Nats-Schedule-Source", "s..b"),
                                           target="t")], ON),
        ("source and target elsewhere", [schedule(YEARLY, ("Nats-Schedule-Source", "u"), target="t")], ON),
        ("too large with its roll-up", [schedule(YEARLY)], ON | {"max_msg_size": 75}),
    ]  # fmt: skip
    return found


def _ends() -> list[tuple[str, list[Publish], dict[str, Any]]]:
    def end(scheduler: str | None, following: str | None, subject: str = "s.e") -> Publish:
        headers = []
        if scheduler is not None:
            headers.append(("Nats-Scheduler", scheduler))
        if following is not None:
            headers.append(("Nats-Schedule-Next", following))
        return Publish(subject, tuple(headers))

    pairs = [("s.a", None), (None, "purge"), ("s.a", ""), ("", "purge"), ("s.a", "2090-01-01T00:00:00Z"), ("", ""),
             ("s.a", "PURGE"), ("s.*", "purge"), ("s..a", "purge"), ("x.y", "purge"), ("s.a", "purge")]  # fmt: skip
    return [
        *[(f"end {pair}", [schedule(YEARLY), end(*pair)], ON) for pair in pairs],
        ("end of itself", [schedule(YEARLY), end("s.a", "purge", "s.a")], ON),
        ("end of no schedule", [plain("s.a"), end("s.a", "purge")], ON),
        ("end of nothing", [end("s.a", "purge")], ON),
        ("end of what was one", [schedule(YEARLY), plain("s.a"), end("s.a", "purge")], ON),
        ("a schedule that ends another", [schedule(YEARLY), schedule(
            YEARLY, ("Nats-Scheduler", "s.a"), ("Nats-Schedule-Next", "purge"), subject="s.b")], ON),
    ]  # fmt: skip


def _batches() -> list[tuple[str, list[Publish], dict[str, Any]]]:
    both = ON | {"allow_atomic": True}
    one = ("s.a", (("Nats-Schedule", YEARLY), ("Nats-Schedule-Target", "s.t")))
    bad = ("s.a", (("Nats-Schedule", "x"), ("Nats-Schedule-Target", "s.t")))
    end = ("s.e", (("Nats-Scheduler", "s.a"), ("Nats-Schedule-Next", "purge")))
    plain_a = ("s.a", NONE)
    return [
        ("in a batch", whole("b", one, ("s.b", NONE)), both),
        ("in a batch, by its end", [*whole("b", ("s.b", NONE), one, commit="eob")], both),
        ("last before the end", [part("b", 1), part("b", 2, *one[1], subject="s.b"), part("b", 3, commit="eob")], both),
        ("a bad one in a batch", whole("b", ("s.b", NONE), bad), both),
        ("two of a subject in a batch", whole("b", one, one), both),
        ("behind its subject in a batch", whole("b", plain_a, one), both),
        ("ended in its batch", whole("b", one, end), both),
        ("ended in a batch, no schedule", whole("b", plain_a, end), both),
        ("ended in a later batch", [schedule(YEARLY), *whole("b", ("s.b", NONE), end)], both),
    ]
