"""What Spark's filters allow the source to leave unread."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from jetbroker.store.offline.reader import Query, is_literal
from jetbroker.tables.convert import microseconds

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

NEVER_NULL = ("stream", "seq", "time", "subject", "headers", "data", "size", "account", "segment", "deleted")
COMPARISONS = ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual")


def narrowed(query: Query, pushed: Filter) -> tuple[Query, bool]:
    """The query, no wider than one pushed filter allows, and whether it now takes exactly the rows that pass.

    Spark checks the rows of a filter that is not exact once more. Filters that say nothing useful here change nothing.
    """
    kind = type(pushed).__name__
    column = getattr(pushed, "attribute", ("",))[0]
    value = getattr(pushed, "value", None)
    if kind == "IsNotNull" and column in NEVER_NULL:
        return query, True
    if column == "seq":
        low, high = _bounds(kind, value)
        within = replace(
            query,
            start_seq=query.start_seq if low is None else max(low, query.start_seq),
            end_seq=query.end_seq if high is None else max(0, min(high, query.end_seq)),  # there is no sequence 0
        )
        return within, kind in COMPARISONS and (low, high) != (None, None)
    if column == "time":
        low, high = _bounds(kind, _as_microseconds(value))
        within = replace(
            query,
            start_ns=query.start_ns if low is None else max(low * 1000, query.start_ns),
            end_ns=query.end_ns if high is None else min(high * 1000 + 999, query.end_ns),
        )
        return within, kind in COMPARISONS and (low, high) != (None, None)
    if column == "domain":
        domains = _domains(kind, value, query.domains)
        return replace(query, domains=domains), kind in ("EqualTo", "EqualNullSafe", "IsNull")
    if column == "subject" and not query.subject:
        pattern = _subject_pattern(kind, value)
        return replace(query, subject=pattern), bool(pattern) and kind in COMPARISONS
    return query, False


def _as_microseconds(value: Any) -> Any:
    if isinstance(value, datetime):
        return microseconds(value)
    if isinstance(value, (list, tuple)):
        return [_as_microseconds(item) for item in value]
    return None


def _bounds(kind: str, value: Any) -> tuple[int | None, int | None]:
    """(lowest, highest) integer that a comparison leaves over; None: unbounded."""
    if kind == "In" and isinstance(value, (list, tuple)):
        there = [item for item in value if isinstance(item, int)]
        return (min(there), max(there)) if there else (None, None)
    if not isinstance(value, int):
        return None, None
    return {
        "EqualTo": (value, value),
        "EqualNullSafe": (value, value),
        "GreaterThan": (value + 1, None),
        "GreaterThanOrEqual": (value, None),
        "LessThan": (None, value - 1),
        "LessThanOrEqual": (None, value),
    }.get(kind, (None, None))


def _domains(kind: str, value: Any, wanted: frozenset[str | None] | None) -> frozenset[str | None] | None:
    """Those of the wanted domains (None: all) that a comparison leaves over."""
    if kind in ("EqualTo", "EqualNullSafe"):
        left = frozenset([value])
    elif kind == "In" and isinstance(value, (list, tuple)):
        left = frozenset(value)
    elif kind == "IsNull":
        left = frozenset([None])
    else:
        return wanted
    return left if wanted is None else left & wanted


def _subject_pattern(kind: str, value: Any) -> str:
    """A pattern that every subject passing the filter matches, "" when there is none to be had."""
    # where text was not UTF-8 the column shows U+FFFD, which is not what the record holds
    if not isinstance(value, str) or "\ufffd" in value:
        return ""
    if kind in ("EqualTo", "EqualNullSafe"):
        return value if is_literal(value) else ""
    if kind == "StringStartsWith" and "." in value:
        tokens = value.rpartition(".")[0]
        return f"{tokens}.>" if is_literal(tokens) else ""
    return ""
