"""How far a streaming query is behind its streams."""

from __future__ import annotations

import json
from typing import Any


def lag(progress: Any) -> dict[str, int]:
    """Sequences of each stream that `query.lastProgress` says were not read yet; {} before the first batch.

    It is an upper bound: a sequence may be without a message, or the query's `subject` may not match it.
    """
    behind: dict[str, int] = {}
    for source in _field(progress, "sources") or []:
        latest, read = _offset(source, "latestOffset"), _offset(source, "endOffset")
        for stream, there in latest.items():
            behind[stream] = max(0, there["seq"] - read.get(stream, {"seq": 0})["seq"])
    return behind


def _field(value: Any, name: str) -> Any:
    """Spark gives a progress as a dict or as an object."""
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


def _offset(source: Any, name: str) -> dict[str, Any]:
    """Only offsets of this source: others are of another form."""
    offset = _field(source, name)
    try:
        found = json.loads(offset) if isinstance(offset, str) else offset
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: at for name, at in found.items() if isinstance(at, dict) and isinstance(at.get("seq"), int)}
