"""A million subscriptions at a hub when a leaf comes: how long it takes to tell it, and what others wait meanwhile."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.cases import Case, Row
from benchmarks.raw import RawConnection
from benchmarks.servers import ROOT, BenchmarkError, Server, free_port

SUBJECTS = 1_000_000
AT_ONCE = 10_000


@contextmanager
def _bystander(server: Server) -> Iterator[subprocess.Popen[str]]:
    """A client that pings; asked by a line, it tells the longest time since it was last asked."""
    command = [sys.executable, "-m", "fuzz.meaning.bystander", str(server.port), str(server.pid), "", ""]
    pings = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        yield pings
    finally:
        pings.kill()
        pings.wait()


def _longest_ms(pings: subprocess.Popen[str]) -> float:
    if pings.stdin is None or pings.stdout is None:
        raise BenchmarkError("the pinging client has no pipes")
    pings.stdin.write("\n")
    pings.stdin.flush()
    return float(pings.stdout.readline().split()[2]) / 1e6


def _told(hub: Server, _: Path, divisor: int) -> dict[str, float]:
    subjects = SUBJECTS // divisor
    port = free_port()
    hub.options = f'server_name: "hub"\nleafnodes {{ listen: "127.0.0.1:{port}" }}\n'
    hub.start()
    with RawConnection(hub.port) as client, _bystander(hub) as pings:
        for first in range(0, subjects, AT_ONCE):
            lines = (b"SUB million.%d.b %d\r\n" % (number, number) for number in range(first, first + AT_ONCE))
            client.send(b"".join(lines))
            client.sync()
        _longest_ms(pings)
        began = time.perf_counter()
        with RawConnection(port) as leaf:
            leaf.until(b"LS+ million.", subjects)
            seconds = time.perf_counter() - began
            return {"told_s": seconds, "longest_ms": _longest_ms(pings)}


def interest_cases() -> list[Case]:
    """What a hub's interest costs when a leaf comes."""
    rows = (
        Row("told_s", "a million subscriptions told to a new leaf"),
        Row("longest_ms", "the same: the longest PING of another client"),
    )
    return [Case("link-interest", _told, rows)]
