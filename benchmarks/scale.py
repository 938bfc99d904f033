"""Many of everything: idle clients, subscriptions of one client, subjects of an account."""

from __future__ import annotations

from pathlib import Path

from benchmarks.cases import Case, Row
from benchmarks.servers import Server, run_loadgen

CLIENTS = 10_000
HOT_SUBJECTS = 1000  # of those subscribed to, the ones that are published to
MESSAGES = 1_000_000
SIZES = {"1k": 1000, "100k": 100_000, "1m": 1_000_000}


def _clients(server: Server, loadgen: Path, divisor: int) -> dict[str, float]:
    server.start()
    count = str(CLIENTS // divisor)
    result = run_loadgen(loadgen, server.port, ["idle", "--conns", count, "--pid", str(server.pid)])
    return {"connects": float(result["rate"]), "bytes_per_connection": float(result["bytes_per_connection"])}


def _interest(
    server: Server, loadgen: Path, subjects: int, connections: int, messages: int, hot: int
) -> dict[str, float]:
    """A fresh server with so many subjects subscribed to, then messages to `hot` of them (0: to all)."""
    server.start()
    arguments = ["--subjects", subjects, "--conns", connections, "--msgs", messages, "--hot", hot, "--pid", server.pid]
    result = run_loadgen(loadgen, server.port, ["interest", *map(str, arguments)])
    server.stop()
    return {name: float(value) for name, value in result.items() if name != "mode"}


def _one_client(server: Server, loadgen: Path, divisor: int) -> dict[str, float]:
    found = _interest(server, loadgen, SIZES["100k"] // divisor, 1, MESSAGES // divisor, HOT_SUBJECTS)
    return {
        "subscribes": found["subscribe_rate"],
        "bytes_per_subscription": found["bytes_per_subscription"],
        "rate": found["rate"],
    }


def _subjects(hot: int, messages: int, server: Server, loadgen: Path, divisor: int) -> dict[str, float]:
    figures = {}
    for name, subjects in SIZES.items():
        found = _interest(server, loadgen, max(subjects // divisor, HOT_SUBJECTS), 10, messages // divisor, hot)
        figures[f"rate_{name}"] = found["rate"]
        figures["bytes_per_subscription"] = found["bytes_per_subscription"]
    figures["flatness"] = figures["rate_1m"] / figures["rate_1k"]
    return figures


def _hot_subjects(server: Server, loadgen: Path, divisor: int) -> dict[str, float]:
    return _subjects(HOT_SUBJECTS, MESSAGES, server, loadgen, divisor)


def _all_subjects(server: Server, loadgen: Path, divisor: int) -> dict[str, float]:
    return _subjects(0, MESSAGES // 2, server, loadgen, divisor)


def scale_cases() -> list[Case]:
    """In the order of the report."""
    return [
        Case(
            "scale-clients",
            _clients,
            (
                Row("connects", f"{CLIENTS:,} clients with a subscription, connected", at_least=3000.0),
                Row("bytes_per_connection", f"{CLIENTS:,} clients, memory per client", at_most=6144.0),
            ),
        ),
        Case(
            "scale-one-client",
            _one_client,
            (
                Row("subscribes", "100,000 subscriptions on one client, subscribed"),
                Row("bytes_per_subscription", "100,000 subscriptions on one client, memory for each"),
                Row("rate", "100,000 subscriptions on one client, delivered"),
            ),
        ),
        Case(
            "scale-subjects",
            _hot_subjects,
            (
                Row("rate_1k", "publish to 1,000 subjects, 1,000 subscribed"),
                Row("rate_100k", "publish to 1,000 subjects, 100,000 subscribed"),
                Row("rate_1m", "publish to 1,000 subjects, 1,000,000 subscribed"),
                Row("flatness", "publish to 1,000 subjects, rate at 1,000,000 : at 1,000", at_least=0.7),
                Row("bytes_per_subscription", "1,000,000 subjects subscribed, memory for each"),
            ),
        ),
        Case(
            "scale-all-subjects",
            _all_subjects,
            (
                Row("rate_100k", "publish to all of 100,000 subjects in no order"),
                Row("rate_1m", "publish to all of 1,000,000 subjects in no order"),
            ),
        ),
    ]
