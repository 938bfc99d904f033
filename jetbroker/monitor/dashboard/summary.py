"""The summary that pages are sent each second: bounded, and made once for all who may see the same."""

import time
from typing import Any

import orjson

from jetbroker import NATS_VERSION, __version__, limits
from jetbroker.monitor.dashboard.logins import Scope
from jetbroker.monitor.dashboard.sampling import AccountRow, Sample
from jetbroker.monitor.dashboard.tables import TABLES, Wanted, clipped, rows_of
from jetbroker.monitor.sources import Sources, paced, uptime_text

_COUNTS = ("connections", "subscriptions", "streams", "consumers", "messages", "stored", "in_memory")
_MOVED = ("in_msgs", "in_bytes", "out_msgs", "out_bytes")


async def summary(sources: Sources, sample: Sample, scope: Scope) -> bytes:
    """JSON in one line."""
    problems = [found for found in sample.problems if scope.account in (None, found.account)]
    shown = {
        "time": sample.unix_ms,
        "scope": {"account": scope.account, "messages": scope.messages},
        "server": _server(sources, scope),
        "totals": await _totals(sample, scope),
        "problems": [
            {"account": clipped(found.account), "text": clipped(found.text)}
            for found in problems[: limits.DASHBOARD_PROBLEMS]
        ],
        "tables": {name: await rows_of(sample, scope.account, Wanted(name)) for name in TABLES},
    }
    return orjson.dumps(shown)


def _server(sources: Sources, scope: Scope) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": clipped(str(sources.info.server_name)),
        "version": f"jetbroker {__version__}, nats-server {NATS_VERSION} compatible",
        "uptime": uptime_text(time.time_ns() - sources.started_ns),
    }
    if scope.account is not None:
        return shown
    shown |= {"cpu": sources.usage.cpu_percent(), "memory": sources.usage.memory_bytes()}
    if sources.jetstream is not None:
        shown["max_storage"] = sources.jetstream.reservations.max_storage
    return shown


async def _totals(sample: Sample, scope: Scope) -> dict[str, Any]:
    totals: dict[str, Any] = dict.fromkeys((*_COUNTS, *_MOVED), 0)
    rates = [0.0] * len(_MOVED)
    known = False
    rows: list[AccountRow] = [part.row for part in sample.parts_of(scope.account) if part.row is not None]
    async for row in paced(rows):
        for name in _COUNTS:
            totals[name] += getattr(row, name)
        for at, name in enumerate(_MOVED):
            totals[name] += row.moved[at]
        if row.rates is not None:
            known = True
            rates = [total + one for total, one in zip(rates, row.rates, strict=True)]
    return totals | {"rates": dict(zip(_MOVED, rates, strict=True)) if known else None}
