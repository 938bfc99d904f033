"""Many consumers of a stream, one that matches little of it, and a key-value bucket of a million keys."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.cases import Case, Row
from benchmarks.raw import RawConnection, client_of
from benchmarks.servers import JETBROKER_2M, Server, run_loadgen

PAYLOAD = b"x" * 128
FANS, FANNED = 100, 3000  # less than what a server keeps for a client that is slower than it
OWN_CONSUMERS, OWN_MESSAGES = 1000, 200_000
SPARSE_SUBJECTS, SPARSE_MESSAGES = 1000, 5_000_000
CREATED = 100
KEYS, READ = 1_000_000, 500_000
IN_FLIGHT = 1000


def _stream(client: RawConnection, **config: Any) -> None:
    client.request(f"STREAM.CREATE.{config['name']}", {"storage": "file", **config})


def _consumer(client: RawConnection, stream: str, name: str, **config: Any) -> None:
    wanted = {"durable_name": name, "ack_policy": "none", **config}
    client.request(f"CONSUMER.CREATE.{stream}.{name}", {"stream_name": stream, "config": wanted})


def _fan_out(server: Server, _: Path, divisor: int) -> dict[str, float]:
    """They have nobody to deliver to until all of them are there; a wildcard does not wake them."""
    count = FANNED // divisor
    with client_of(server) as client:
        _stream(client, name="S", subjects=["s"])
        client.publish(lambda _: b"s", PAYLOAD, count)
        for number in range(FANS):
            _consumer(client, "S", f"C{number}", deliver_subject=f"fan.{number}")
        began = time.perf_counter()
        for number in range(FANS):
            client.subscribe(f"fan.{number}")
        client.until(b"MSG s ", count * FANS)
        return {"rate": count * FANS / (time.perf_counter() - began)}


def _own_consumers(server: Server, _: Path, divisor: int) -> dict[str, float]:
    """Each asks for what is published to a subject of its own."""
    count = OWN_MESSAGES // divisor
    with client_of(server) as client, RawConnection(server.port) as reader:
        _stream(client, name="S", subjects=["s.*"])
        for number in range(OWN_CONSUMERS):
            _consumer(client, "S", f"C{number}", filter_subject=f"s.{number}")
        reader.subscribe("pulled")
        body = b'{"batch":%d,"expires":100000000000}' % (count // OWN_CONSUMERS)
        for number in range(OWN_CONSUMERS):
            reader.send(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C%d pulled %d\r\n%b\r\n" % (number, len(body), body))
        reader.sync()
        began = time.perf_counter()
        with ThreadPoolExecutor(1) as pool:  # who does not read meanwhile would be cut off
            published = pool.submit(client.publish, lambda number: b"s.%d" % (number % OWN_CONSUMERS), PAYLOAD, count)
            reader.until(b"MSG s.", count)
            published.result()
        return {"rate": count / (time.perf_counter() - began)}


def _sparse(server: Server, _: Path, divisor: int) -> dict[str, float]:
    """One in a thousand messages matches: all of those are fetched; then more such consumers are made."""
    count = SPARSE_MESSAGES // divisor
    matching = count // SPARSE_SUBJECTS
    with client_of(server, "pulled") as client:
        _stream(client, name="S", subjects=["s.*"])
        client.publish(lambda number: b"s.%d" % (number % SPARSE_SUBJECTS), PAYLOAD, count)
        began = time.perf_counter()
        _consumer(client, "S", "C", filter_subject="s.7")
        body = b'{"batch":%d}' % matching
        client.send(b"PUB $JS.API.CONSUMER.MSG.NEXT.S.C pulled %d\r\n%b\r\n" % (len(body), body))
        client.until(b"MSG s.7 ", matching)
        rate = matching / (time.perf_counter() - began)
        seconds = []
        for number in range(CREATED):
            began = time.perf_counter()
            _consumer(client, "S", f"D{number}", filter_subject=f"s.{number}")
            seconds.append(time.perf_counter() - began)
        return {"rate": rate, "median_us": median(seconds) * 1e6}


def _key_value(server: Server, loadgen: Path, divisor: int) -> dict[str, float]:
    """As clients make a bucket, put, get and watch; four of them, up to a thousand puts or gets under way."""
    server.start()
    keys = ["--subjects", str(KEYS // divisor), "--msgs", str(READ // divisor), "--size", str(len(PAYLOAD))]
    result = run_loadgen(loadgen, server.port, ["kv", "--conns", "4", "--inflight", str(IN_FLIGHT), *keys])
    return {figure: float(result[figure]) for figure in ("puts", "gets", "watched")}


def consumer_cases() -> list[Case]:
    """All of them."""
    return [
        Case("js-fan-out", _fan_out, (Row("rate", f"{FANS} push consumers of one stream, delivered"),)),
        Case("js-own-consumers", _own_consumers, (Row("rate", "1,000 consumers, each of its own subject"),)),
        Case(
            "js-sparse",
            _sparse,
            (
                Row("rate", "a consumer of 1 in 1,000 of 5 million messages", must=10.0),
                Row("median_us", "such a consumer is made", at_most=5000.0),
            ),
        ),
        Case(
            "js-key-value",
            _key_value,
            (
                Row("puts", "key-value, a million keys, put", must=3.0),
                Row("puts", "key-value, a million keys, put, 2m against 2m", ours=JETBROKER_2M),
                Row("gets", "key-value, a million keys, get", must=3.0),
                Row("watched", "key-value, a million keys, watched", must=3.0),
            ),
        ),
    ]
