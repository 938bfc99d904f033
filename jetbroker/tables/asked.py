"""What callers and command lines ask for: times (ISO 8601, milliseconds since 1970, "2h ago"), typed columns."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from jetbroker.errors import StoreReadError
from jetbroker.forms.durations import parse_duration
from jetbroker.store.offline.reader import MAX_TIME_NS, MIN_TIME_NS
from jetbroker.tables.convert import microseconds
from jetbroker.tables.typed import FORMS, MODES

if TYPE_CHECKING:
    import argparse


def moment_ns(moment: str | int | datetime, what: str) -> int:
    """Nanoseconds since 1970 of a datetime, ISO 8601 text (both UTC unless they say otherwise), or milliseconds.

    `what` begins the StoreReadError for anything else.
    """
    if isinstance(moment, datetime):
        return _bounded(microseconds(moment) * 1000)
    text = str(moment).strip()
    try:
        if text.lstrip("-").isdecimal():
            return _bounded(int(text) * 1_000_000)
        return _bounded(microseconds(datetime.fromisoformat(text)) * 1000)
    except ValueError:
        raise StoreReadError(
            f"{what}: {text[:100]!r} is neither an ISO 8601 time (2026-01-31T12:00:00Z) nor milliseconds since 1970"
        ) from None


def since_ns(text: str, what: str) -> int:
    """The same, and a duration ("90s", "2h", "7d"): so long before now."""
    days = text[:-1] if text.endswith("d") else ""
    if days.isdecimal() and days.isascii() and len(days) < 6:
        return time.time_ns() - int(days) * 86_400 * 1_000_000_000
    try:
        return time.time_ns() - parse_duration(text.encode())
    except ValueError:
        pass
    try:
        return moment_ns(text, what)
    except StoreReadError as error:
        raise StoreReadError(f"{error}, nor a duration before now (90s, 2h, 7d)") from None


def as_text(time_ns: int) -> str:
    """ISO 8601 in UTC with milliseconds."""
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + (
        f".{time_ns // 1_000_000 % 1000:03d}Z"
    )


def _bounded(time_ns: int) -> int:
    return min(max(time_ns, MIN_TIME_NS), MAX_TIME_NS + 1)


def add_typed(columns: argparse._ArgumentGroup) -> None:
    """The arguments that make typed columns of payloads: those of TypedPayloads."""
    columns.add_argument(
        "--decode", default="", metavar="TEXT", help="typed columns: 'amount double, item.name string'"
    )
    columns.add_argument("--model", default="", metavar="MODULE:CLASS", help="typed columns out of a pydantic model")
    columns.add_argument("--form", choices=FORMS, default="json", help="what payloads are (default: %(default)s)")
    columns.add_argument(
        "--mode", choices=MODES, default="permissive", help="what becomes of payloads that do not validate"
    )
