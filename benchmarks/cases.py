"""What is measured: each case yields named figures from one fresh server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.servers import (
    JETBROKER,
    JETBROKER_2M,
    NATS_SERVER,
    NATS_SERVER_ALWAYS,
    BenchmarkError,
    Server,
    Variant,
    run_loadgen,
)

RESTART_MESSAGES = 3_000_000
BACKUP_GIB = 1.0
QUICK_DIVISOR = 10
CPU_MODES = ("core", "jspub", "jspull")  # of the load generator, that measure the server's processor time, too
CPU = "processor time of the server for each"
NO_GROUP_COMMIT_DIVISOR = 40  # nats-server syncs each message by itself: a few thousand a second


@dataclass(frozen=True)
class Row:
    """One line of the report: a figure of ours against one of theirs.

    `must` is the ratio to reach (always "times better": for figures where less is better theirs / ours), `at_most`
    and `at_least` bounds for our own figure in the figure's unit.
    """

    figure: str
    title: str
    ours: Variant = JETBROKER
    theirs: Variant = NATS_SERVER
    must: float | None = None
    at_most: float | None = None
    at_least: float | None = None


@dataclass(frozen=True)
class Unit:
    """How a figure is shown; `more_is_better` decides which way round the ratio goes."""

    name: str
    more_is_better: bool
    digits: int = 0


UNITS = {
    "rate": Unit("msg/s", True),
    "round_trips": Unit("/s", True),
    "median_us": Unit("µs", False, 1),
    "p99_us": Unit("µs", False, 1),
    "ready_s": Unit("s", False, 3),
    "first_copy_s": Unit("s", False, 2),
    "told_s": Unit("s", False, 2),
    "longest_ms": Unit("ms", False, 1),
    "rss_before": Unit("MB", False, 1),
    "bytes_per_connection": Unit("bytes", False),
    "connects": Unit("/s", True),
    "subscribes": Unit("/s", True),
    "puts": Unit("/s", True),
    "gets": Unit("/s", True),
    "watched": Unit("msg/s", True),
    "bytes_per_subscription": Unit("bytes", False),
    "rate_1k": Unit("msg/s", True),
    "rate_100k": Unit("msg/s", True),
    "rate_1m": Unit("msg/s", True),
    "flatness": Unit("", True, 2),
    "disturbance": Unit("", False, 2),
    "backup_mb_s": Unit("MB/s", True),
    "backup_p99_us": Unit("µs", False, 1),
    "restore_mb_s": Unit("MB/s", True),
    "restore_p99_us": Unit("µs", False, 1),
    "copy_sync_p99_us": Unit("µs", False, 1),
    "copy_mb_s": Unit("MB/s", True),
    "cpu_ns": Unit("ns", False),
}


@dataclass(frozen=True)
class Case:
    """A measurement. `measure(server, loadgen, divisor)` starts the server and returns its figures."""

    name: str
    measure: Callable[[Server, Path, int], dict[str, float]]
    rows: tuple[Row, ...] = field(default=())

    @property
    def variants(self) -> list[Variant]:
        """Each server and mode once, ours and theirs in turn."""
        found: list[Variant] = []
        for row in self.rows:
            found += [variant for variant in (row.ours, row.theirs) if variant not in found]
        return found


def _load(mode: str, messages: int, *arguments: str) -> Callable[[Server, Path, int], dict[str, float]]:
    def measure(server: Server, loadgen: Path, divisor: int) -> dict[str, float]:
        server.start()
        count = messages // divisor
        if server.variant == NATS_SERVER_ALWAYS:
            count //= NO_GROUP_COMMIT_DIVISOR
        watched = ("--pid", str(server.pid)) if mode in CPU_MODES else ()
        result = run_loadgen(loadgen, server.port, [mode, "--msgs", str(count), *arguments, *watched])
        if mode == "reqrep":
            result["round_trips"] = result.pop("rate")
        return {name: float(result[name]) for name in UNITS if name in result}

    return measure


def _start_up(server: Server, _loadgen: Path, _divisor: int) -> dict[str, float]:
    return {"ready_s": server.start()}


def _restart(server: Server, loadgen: Path, divisor: int) -> dict[str, float]:
    server.start()
    messages = RESTART_MESSAGES // divisor
    run_loadgen(loadgen, server.port, ["jspub", "--size", "128", "--msgs", str(messages), "--keep"])
    server.kill()
    elapsed = server.start()
    stored = server.stored_messages("BENCH")
    if stored != messages:
        raise BenchmarkError(f"{stored} of {messages} messages are there after kill -9")
    return {"ready_s": elapsed}


def _memory(server: Server, loadgen: Path, divisor: int) -> dict[str, float]:
    server.start()
    idle = ["idle", "--pid", str(server.pid), "--conns"]
    run_loadgen(loadgen, server.port, [*idle, "20"])  # what a server loads with its first clients is not theirs
    result = run_loadgen(loadgen, server.port, [*idle, str(5000 // divisor)])
    return {"rss_before": result["rss_before"] / 1e6, "bytes_per_connection": float(result["bytes_per_connection"])}


def file_rows(title: str, must: float | None = None, must_2m: float | None = None) -> tuple[Row, ...]:
    return (
        Row("rate", title, must=must),
        Row("rate", f"{title}, 2m against 2m", ours=JETBROKER_2M, must=must_2m),
    )


def _publish_cases() -> list[Case]:
    cases: list[Case] = []
    for size, size_text in ((128, "128 B"), (1024, "1 KiB")):
        for inflight, messages in ((1000, 1_000_000 if size == 128 else 400_000), (1, 20_000)):
            title = f"publish, file, {size_text}, {inflight:,} in flight"
            headline = size == 128 and inflight == 1000
            rows = file_rows(title, *((1.8, 4.0) if headline else ()))
            if headline:
                rows += (Row("cpu_ns", f"{title}, {CPU}"), Row("cpu_ns", f"{title}, 2m, {CPU}", ours=JETBROKER_2M))
            if inflight == 1000:
                rows += (Row("rate", f"{title}, always against always", theirs=NATS_SERVER_ALWAYS),)
            arguments = ("--size", str(size), "--inflight", str(inflight))
            cases.append(
                Case(f"publish-file-{size}-{inflight}", _load("jspub", messages, *arguments, "--storage", "file"), rows)
            )
            title = f"publish, memory, {size_text}, {inflight:,} in flight"
            cases.append(
                Case(
                    f"publish-memory-{size}-{inflight}",
                    _load("jspub", messages, *arguments, "--storage", "memory"),
                    (Row("rate", title, must=3.0 if headline else None),),
                )
            )
    return cases


def _core_case(
    name: str, title: str, messages: int, must: float, size: int, pubs: int = 1, subs: int = 1, subjects: int = 1
) -> Case:
    arguments = ("--size", size, "--pubs", pubs, "--subs", subs, "--subjects", subjects)
    rows = Row("rate", title, must=must), Row("cpu_ns", f"{title}, {CPU}")
    return Case(name, _load("core", messages, *map(str, arguments)), rows if name == "core-1-1-16" else rows[:1])


def all_cases(backup_gib: float = BACKUP_GIB) -> list[Case]:
    """Every case, in the order of the report; `backup_gib` is the size of the stream that is backed up."""
    from benchmarks.backups import backup_cases
    from benchmarks.consumers import consumer_cases  # it needs the names above
    from benchmarks.hostile import hostile_cases
    from benchmarks.link_interest import interest_cases
    from benchmarks.links import link_cases
    from benchmarks.publishing import publishing_cases
    from benchmarks.scale import scale_cases

    return [
        _core_case("core-1-1-16", "core 1 to 1, 16 B", 10_000_000, 5.0, 16),
        _core_case("core-1-1-128-subjects", "core 1 to 1, 128 B, 1,000 subjects", 5_000_000, 2.5, 128, subjects=1000),
        _core_case("core-1-1-1024", "core 1 to 1, 1 KiB", 2_000_000, 1.0, 1024),
        _core_case("core-1-4-16", "core 1 to 4, 16 B, delivered", 5_000_000, 5.0, 16, subs=4),
        _core_case("core-4-4-128", "core 4 to 4, 128 B, delivered", 2_000_000, 2.5, 128, pubs=4, subs=4),
        Case(
            "request-reply",
            _load("reqrep", 20_000, "--size", "16"),
            (
                Row("round_trips", "request-reply, round trips"),
                Row("median_us", "request-reply, median"),
                Row("p99_us", "request-reply, 99th percentile"),
            ),
        ),
        *_publish_cases(),
        Case(
            "pull-explicit",
            _load("jspull", 500_000, "--size", "128", "--ack", "explicit"),
            (
                Row("rate", "pull, batch 500, explicit acks, 128 B", must=2.0),
                Row("cpu_ns", f"pull, batch 500, explicit acks, 128 B, {CPU}"),
            ),
        ),
        Case(
            "pull-none",
            _load("jspull", 1_000_000, "--size", "128", "--ack", "none"),
            (Row("rate", "pull, batch 500, no acks, 128 B", must=2.0),),
        ),
        *(
            Case(
                f"pull-{policy.removesuffix('_client')}",
                _load("jspull", 500_000, "--size", "128", "--ack", "explicit", "--priority", policy),
                (Row("rate", f"pull, batch 500, explicit acks, 128 B, priority policy {policy}", must=2.0),),
            )
            for policy in ("overflow", "pinned_client")
        ),
        Case("start", _start_up, (Row("ready_s", "start, empty store, until ready"),)),
        Case("restart", _restart, (Row("ready_s", "restart after kill -9, 3 million messages", at_most=1.0),)),
        Case(
            "memory",
            _memory,
            (
                Row("rss_before", "memory, idle server"),
                Row("bytes_per_connection", "memory per idle connection", at_most=6144.0),
            ),
        ),
        *publishing_cases(),
        *consumer_cases(),
        *backup_cases(backup_gib),
        *link_cases(),
        *interest_cases(),
        *scale_cases(),
        *hostile_cases(),
    ]
