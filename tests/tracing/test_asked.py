"""What headers ask of a trace, how blocks are changed for others, and that hostile blocks cost their length."""

from __future__ import annotations

import time

import pytest

from jetbroker.tracing.asked import read
from jetbroker.tracing.headers import DESTINATION, DISABLED, disabled_in_place, with_header

PARENT = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"
LARGE = 1 << 20


def block(*lines: str) -> bytes:
    return ("NATS/1.0\r\n" + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode()


@pytest.mark.parametrize(
    ("lines", "destination", "only"),
    [
        (["Nats-Trace-Dest: a"], b"a", False),
        (["Nats-Trace-Dest: a", "Nats-Trace-Only: ON"], b"a", True),
        (["Nats-Trace-Dest: a", "Nats-Trace-Only: no", "Nats-Trace-Only: 1"], b"a", False),
        (["Nats-Trace-Dest:", "Nats-Trace-Dest: b", "Nats-Trace-Dest: c"], b"b", False),
        ([PARENT + "01"], None, False),
        ([PARENT.upper() + "03", "Nats-Trace-Only: 1"], None, False),
    ],
)
def test_what_is_asked(lines: list[str], destination: bytes | None, only: bool) -> None:
    asked = read(block(*lines))
    assert asked is not None
    assert (asked.destination, asked.only) == (destination, only)


@pytest.mark.parametrize(
    "lines",
    [
        [], ["nats-trace-dest: a"], ["Nats-Trace-Dest: trace disabled"], ["Nats-Trace-Dest : a"], [PARENT + "00"],
        [PARENT + "81"], [PARENT + "1"], ["traceparent: 01"], ["no colon", "Nats-Trace-Dest"],
    ],
)  # fmt: skip
def test_nothing_is_asked(lines: list[str]) -> None:
    assert read(block(*lines)) is None


def test_other_blocks_ask_nothing() -> None:
    assert read(b"NATS/1.0 503\r\nNats-Trace-Dest: a\r\n\r\n") is None
    assert read(b"") is None


def test_blocks_are_changed_as_nats_server_does() -> None:
    found = block("Nats-Trace-Dest: a", "B: c", "Nats-Trace-Dest:d")
    assert with_header(found, DESTINATION, b"e") == block("B: c", "Nats-Trace-Dest: e")
    assert with_header(b"", DESTINATION, b"e") == block("Nats-Trace-Dest: e")
    assert disabled_in_place(found) == block("Nats-Trace-Dest: trace disabled", "B: c", "Nats-Trace-Dest:d")
    assert disabled_in_place(block("B: c")) == block("B: c", "Nats-Trace-Dest: trace disabled")


@pytest.mark.parametrize("line", ["Nats-Trace-Dest: a", "Nats-Trace-Dest:", "traceparent: -", "A: b", ":", "A:"])
def test_a_large_block_costs_its_length(line: str) -> None:
    large = block("Nats-Trace-Dest: a", *[line] * (LARGE // (len(line) + 2)))
    began = time.process_time()
    read(large)
    with_header(large, DESTINATION, DISABLED)
    disabled_in_place(large)
    assert time.process_time() - began < 2.0
