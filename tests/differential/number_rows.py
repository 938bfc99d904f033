"""Publish headers that are numbers, with every extreme, played on both servers."""

from __future__ import annotations

from typing import Any

from tests.differential.batch_rows import ATOMIC, SEQ, SUBJECT_SEQ, part, plain
from tests.differential.schedule_rows import WITH_TTL, YEARLY, schedule
from tests.support.publishes import Case

ZEROS = "0" * 5000 + "1"
FEW = ["-1", "1e3", "NaN", "9223372036854775808", "18446744073709551616", "9" * 5000, "x" * 5000]
TEXTS = ["0", "1", "01", "+1", "-1", "-0", "1.0", "1e3", "0x1", "1_0", "\u0661", " 1", "1\x00", "x", "never",
         "9223372036854775807", "9223372036854775808", "18446744073709551615", ZEROS, "x" * 5000, "1ns", "1s",
         "1h" * 5000, "-1s", "9223372036854775807ns", "9223372036854775808ns", "-9223372036854775808ns",
         "9223372036s", "9223372037s", "2562048h", "1." + "9" * 5000 + "s", "9" * 5000 + "h"]  # fmt: skip
# beyond 2^64 nats-server's reading of times to live wraps around: that is not followed
BEYOND = ["18446744073709551616", "9" * 5000, "-" + "9" * 5000, "+" + "9" * 5000]
SOON = ("1", "01", "1s", ZEROS)  # gone before they are looked at
UNREAD = ["Msg-Size", "Num-Pending", "Required-Api-Level", "Expected-Last-Msg-Id", "Last-Sequence", "UpTo-Sequence",
          "Pending-Messages", "Pending-Bytes", "Last-Consumer", "Last-Stream", "Sequence", "Time-Stamp",
          "Batch-Commit", "Batch-Sequence", "Counter-Sources"]  # fmt: skip
OFF: dict[str, Any] = {}
TTL = {"allow_msg_ttl": True}
LEVEL, LIFE, SCHEDULED = "Nats-Required-Api-Level", "Nats-TTL", "Nats-Schedule-TTL"


def cases() -> list[Case]:
    """All of them; each ends with a publish that must be stored."""
    every = [*TEXTS, *BEYOND]
    rows = [(f"Nats-{name}", text, [plain("s.a", (f"Nats-{name}", text))], OFF) for name in UNREAD for text in FEW]
    rows += [("Nats-Rollup", text, [plain("s.a", ("Nats-Rollup", text))], {"allow_rollup_hdrs": True}) for text in FEW]
    rows += [("Nats-Incr", text, [plain("s.a", ("Nats-Incr", text))], OFF) for text in every]
    rows += [(name, text, [plain(), plain("s.a", (name, text))], OFF) for name in (SEQ, SUBJECT_SEQ) for text in every]
    rows += [(LIFE, text, [plain("s.a", (LIFE, text))], OFF) for text in TEXTS]
    rows += [(LIFE, text, [plain("s.a", (LIFE, text))], TTL) for text in TEXTS if text not in SOON]
    rows += [(SCHEDULED, text, [schedule(YEARLY, (SCHEDULED, text))], WITH_TTL) for text in TEXTS]
    rows += [("Nats-Batch-Sequence", text, [part("b", text), part("b", 2, commit="1")], ATOMIC) for text in every]
    for name, texts in ((SEQ, every), (LIFE, TEXTS), ("Nats-Incr", FEW), (LEVEL, every), ("Nats-Batch-Commit", FEW)):
        rows += [
            (f"in a batch {name}", text, [part("b", 1), part("b", 2, (name, text)), part("b", 3, commit="1")], ATOMIC)
            for text in texts
            if (name, text) != (LEVEL, ZEROS)
        ]
    return [
        Case(f"{name} {text[:20]!r} {number}", [*publishes, plain("s.z")], config)
        for number, (name, text, publishes, config) in enumerate(rows)
    ]
