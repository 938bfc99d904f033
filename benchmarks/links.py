"""Links: what crosses one between two servers of the same kind, and streams that are copied over it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client
from nats.errors import NoRespondersError

from benchmarks.cases import Case, Row
from benchmarks.servers import BenchmarkError, Server, free_port, run_loadgen

COPIED = 1_000_000
LEAVES = 20
OF_EACH_LEAF = 20_000
TIMEOUT_S = 120.0
PROBE_S = 0.002
# How far a publisher is ahead of its subscriber. What is in flight stands in the kernel's buffers: 2 MiB stay in the
# processor's caches, 16 MiB of large messages are measured at the speed of main memory.
DEEP_MIB, SHALLOW_MIB = 16, 2


def _hub_options(port: int) -> str:
    return f'server_name: "hub"\nleafnodes {{ listen: "127.0.0.1:{port}" }}\n'


def _leaf_options(number: int, port: int) -> str:
    return f'server_name: "leaf{number}"\nleafnodes {{ remotes: [ {{ url: "nats-leaf://127.0.0.1:{port}" }} ] }}\n'


@contextmanager
def _leaf(hub: Server, port: int, number: int = 0) -> Iterator[Server]:
    """A server like the hub that dials it; not started yet."""
    with Server(hub.variant, hub.nats_server) as leaf:
        leaf.options = _leaf_options(number, port)
        leaf.domain = f"leaf{number}"
        yield leaf


@contextmanager
def _pair(hub: Server) -> Iterator[Server]:
    """Start the hub, and yield a leaf of it that runs."""
    port = free_port()
    hub.options = _hub_options(port)
    hub.domain = "hub"
    hub.start()
    with _leaf(hub, port) as leaf:
        leaf.start()
        yield leaf


def _throughput(
    mode: str, size: int, messages: int, *, to_leaf: bool, ahead_mib: int = DEEP_MIB
) -> Callable[[Server, Path, int], dict[str, float]]:
    def measure(hub: Server, loadgen: Path, divisor: int) -> dict[str, float]:
        with _pair(hub) as leaf:
            near, far = (hub, leaf) if to_leaf else (leaf, hub)
            arguments = [mode, "--size", size, "--msgs", messages // divisor, "--sub-port", far.port]
            arguments += ["--window-mib", ahead_mib]
            result = run_loadgen(loadgen, near.port, list(map(str, arguments)))
        if mode == "reqrep":
            return {"round_trips": result["rate"], "median_us": result["median_us"], "p99_us": result["p99_us"]}
        return {"rate": float(result["rate"])}

    return measure


# --- streams that are copied ---


async def _api(client: Client, subject: str, body: dict[str, Any]) -> dict[str, Any]:
    """One request, again as long as its subject has not crossed the link."""
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        try:
            answer = await client.request(subject, json.dumps(body).encode(), timeout=TIMEOUT_S)
        except NoRespondersError:
            await asyncio.sleep(PROBE_S)
            continue
        found: dict[str, Any] = json.loads(answer.data)
        if "error" in found:
            raise BenchmarkError(f"{subject}: {found['error']}")
        return found
    raise BenchmarkError(f"{subject}: nobody answers")


async def _until(client: Client, stream: str, messages: int) -> None:
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        info = await _api(client, f"$JS.API.STREAM.INFO.{stream}", {})
        if info["state"]["messages"] >= messages:
            return
        await asyncio.sleep(PROBE_S)
    raise BenchmarkError(f"{stream} holds {info['state']['messages']} of {messages} messages")


def _external(domain: str) -> dict[str, Any]:
    return {"external": {"api": f"$JS.{domain}.API", "deliver": ""}}


async def _mirror(client: Client, domain: str) -> None:
    config = {"name": "COPY", "storage": "file", "mirror": {"name": "BENCH", **_external(domain)}}
    await _api(client, "$JS.API.STREAM.CREATE.COPY", config)


def _run(work: Callable[[Client], Awaitable[float]], server: Server) -> float:
    async def connected() -> float:
        client = await nats.connect(f"nats://127.0.0.1:{server.port}")
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(connected())


def _publish(server: Server, loadgen: Path, count: int) -> None:
    run_loadgen(loadgen, server.port, ["jspub", "--size", "128", "--msgs", str(count), "--keep"])


def _catch_up(hub: Server, loadgen: Path, divisor: int) -> dict[str, float]:
    messages = COPIED // divisor

    async def copied(client: Client) -> float:
        await _api(client, "$JS.leaf0.API.STREAM.INFO.BENCH", {})
        began = time.perf_counter()
        await _mirror(client, "leaf0")
        await _until(client, "COPY", messages)
        return messages / (time.perf_counter() - began)

    with _pair(hub) as leaf:
        _publish(leaf, loadgen, messages)
        return {"rate": _run(copied, hub)}


def _star(hub: Server, loadgen: Path, divisor: int) -> dict[str, float]:
    each = OF_EACH_LEAF // divisor
    port = free_port()
    hub.options, hub.domain = _hub_options(port), "hub"
    hub.start()

    async def gathered(client: Client) -> float:
        for number in range(LEAVES):
            await _api(client, f"$JS.leaf{number}.API.STREAM.INFO.BENCH", {})
        sources = [{"name": "BENCH", **_external(f"leaf{number}")} for number in range(LEAVES)]
        began = time.perf_counter()
        await _api(client, "$JS.API.STREAM.CREATE.ALL", {"name": "ALL", "storage": "file", "sources": sources})
        await _until(client, "ALL", each * LEAVES)
        return each * LEAVES / (time.perf_counter() - began)

    return {"rate": _with_leaves(hub, port, loadgen, each, 0, lambda: _run(gathered, hub))}


def _with_leaves(hub: Server, port: int, loadgen: Path, each: int, number: int, work: Callable[[], float]) -> float:
    if number == LEAVES:
        return work()
    with _leaf(hub, port, number) as leaf:
        options, leaf.options = leaf.options, ""
        leaf.start()  # alone: its messages are not for the streams of the others
        _publish(leaf, loadgen, each)
        leaf.stop()
        leaf.options = options
        leaf.start()
        return _with_leaves(hub, port, loadgen, each, number + 1, work)


def _return(hub: Server, loadgen: Path, divisor: int) -> dict[str, float]:
    """From the moment a killed leaf is ready again to the first message that the hub copies from it."""
    with _pair(hub) as leaf:
        _publish(leaf, loadgen, 1000)

        async def first(client: Client) -> float:
            await _api(client, "$JS.leaf0.API.STREAM.INFO.BENCH", {})
            await _mirror(client, "leaf0")
            await _until(client, "COPY", 1000)
            leaf.kill()
            await asyncio.to_thread(leaf.start)
            began = time.perf_counter()
            await asyncio.to_thread(_publish_one, leaf)
            await _until(client, "COPY", 1001)
            return time.perf_counter() - began

        return {"first_copy_s": _run(first, hub)}


def _publish_one(server: Server) -> None:
    async def publish(client: Client) -> float:
        await _api(client, "bench.js", {})
        return 0.0

    _run(publish, server)


def _one_way(
    name: str, text: str, size: int, messages: int, ahead_mib: int, must: float | None = 4.0
) -> Iterator[Case]:
    for to_leaf, way in ((True, "hub to leaf"), (False, "leaf to hub")):
        yield Case(
            f"link-{'down' if to_leaf else 'up'}-{name}",
            _throughput("core", size, messages, to_leaf=to_leaf, ahead_mib=ahead_mib),
            (Row("rate", f"over a link, {way}, {text}", must=must),),
        )


def link_cases() -> list[Case]:
    """All that crosses a link."""
    return [
        *_one_way("16", "16 B", 16, 5_000_000, DEEP_MIB),
        *_one_way("128", "128 B", 128, 3_000_000, DEEP_MIB),
        *_one_way("1024", f"1 KiB, {SHALLOW_MIB} MiB in flight", 1024, 1_000_000, SHALLOW_MIB),
        *_one_way("1024-deep", f"1 KiB, {DEEP_MIB} MiB in flight", 1024, 1_000_000, DEEP_MIB, must=None),
        Case(
            "link-request-reply",
            _throughput("reqrep", 16, 20_000, to_leaf=True),
            (
                Row("round_trips", "request-reply over a link, round trips"),
                Row("median_us", "request-reply over a link, median"),
                Row("p99_us", "request-reply over a link, 99th percentile"),
            ),
        ),
        Case("link-mirror", _catch_up, (Row("rate", "mirror over a link, a million messages", must=3.0),)),
        Case("link-star", _star, (Row("rate", f"{LEAVES} leaves sourced into a hub"),)),
        Case("link-return", _return, (Row("first_copy_s", "a killed leaf is back, until its next message is copied"),)),
    ]
