"""Publishing beyond plain messages: counters, and batches that are answered now and then."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.cases import Case, Row, file_rows
from benchmarks.raw import client_of
from benchmarks.servers import Server, run_loadgen

COUNTED, COUNTERS = 500_000, 1000
INCREMENT = b"NATS/1.0\r\nNats-Incr: 1\r\n\r\n"
BATCHED, AHEAD, FLOW = 1_000_000, 1000, 500
PAYLOAD = b"x" * 128


def _counters(server: Server, _: Path, divisor: int) -> dict[str, float]:
    count = COUNTED // divisor
    with client_of(server) as client:
        config = {"name": "S", "subjects": ["c.*"], "storage": "file", "allow_msg_counter": True, "allow_direct": True}
        client.request("STREAM.CREATE.S", config)
        began = time.perf_counter()
        client.publish(lambda number: b"c.%d" % (number % COUNTERS), b"", count, headers=INCREMENT)
        return {"rate": count / (time.perf_counter() - began)}


def _fast_batch(server: Server, loadgen: Path, divisor: int) -> dict[str, float]:
    """One batch, answered every 500 messages, the most that nats-server grants; two answers may be out."""
    server.start()
    sizes = ["--msgs", str(BATCHED // divisor), "--size", str(len(PAYLOAD))]
    result = run_loadgen(loadgen, server.port, ["fastbatch", "--inflight", str(AHEAD), "--batch", str(FLOW), *sizes])
    return {"rate": float(result["rate"])}


def publishing_cases() -> list[Case]:
    """Both."""
    return [
        Case("js-counters", _counters, (Row("rate", "increments of 1,000 counters, 1,000 in flight", must=3.0),)),
        Case("js-fast-batch", _fast_batch, file_rows("fast batch, file, 128 B, 1,000 in flight", must=3.0)),
    ]
