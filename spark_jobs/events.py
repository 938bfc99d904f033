"""When an event was, as its message tells: a field of a JSON payload, or a header."""

from __future__ import annotations

from datetime import datetime

import orjson

from jetbroker.tables.convert import microseconds

UNITS = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}  # a unit is so many microseconds


def field_of(payload: bytes, field: str) -> object:
    """What stands in a JSON payload under `order.created`; None when nothing does."""
    try:
        value = orjson.loads(payload)
        for key in field.split("."):
            value = value[key]
    except (ValueError, KeyError, TypeError, IndexError):
        return None
    return value


def event_us(value: object, unit: str = "ms") -> int | None:
    """The time that a value names, in microseconds since 1970; None when it names none.

    ISO 8601 (UTC unless it says otherwise), or a number of units since 1970, as text or not.
    """
    more, less = UNITS[unit]
    try:
        if isinstance(value, str) and not value.lstrip("-").isdecimal():
            return microseconds(datetime.fromisoformat(value))
        if isinstance(value, float):
            return int(value * more / less)
        return int(value) * more // less if isinstance(value, str | int) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        return None
