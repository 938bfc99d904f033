"""Durations as Go reads and prints them. Apart from the other values, because a start without a file needs them too."""

import re

from jetbroker.errors import ConfigError

_UNIT_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([^0-9.]*)")
_MAX_DURATION_SECONDS = 2**63 / 1e9  # what nats-server's nanoseconds can hold
LONGEST_SECONDS = 2**63 // 10**9  # whole ones: a float of more could be too many nanoseconds for 64 bits


def parse_duration(text: str) -> float:
    """Seconds of a duration as Go writes it: `300ms`, `1h30m`, `1.5s`, `0`; units ns us ms s m h."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return 0.0
    if not rest:
        raise ConfigError(f"time: invalid duration {_quoted(text)}")
    total, pos = 0.0, 0
    while pos < len(rest):
        match = _DURATION_PART.match(rest, pos)
        if match is None:
            raise ConfigError(f"time: invalid duration {_quoted(text)}")
        if not match[2]:
            raise ConfigError(f"time: missing unit in duration {_quoted(text)}")
        if match[2] not in _UNIT_SECONDS:
            raise ConfigError(f"time: unknown unit {_quoted(match[2])} in duration {_quoted(text)}")
        total += float(match[1]) * _UNIT_SECONDS[match[2]]
        pos = match.end()
    if total > _MAX_DURATION_SECONDS:
        raise ConfigError(f"time: invalid duration {_quoted(text)}")
    return bounded(-total if text[0] == "-" else total)


def bounded(seconds: float) -> float:
    """`seconds`, or the nearest whose nanoseconds 64 bits hold; a part of the last of them may be dropped."""
    return min(max(seconds, -LONGEST_SECONDS), LONGEST_SECONDS)


def format_duration(seconds: float) -> str:
    """A duration as Go prints it: `2m0s`, `1h5m0s`, `300ms`."""
    if seconds < 0:
        return f"-{format_duration(-seconds)}"
    for unit, most in (("ns", 1e-6), ("µs", 1e-3), ("ms", 1.0)):
        if 0 < seconds < most:
            return f"{round(seconds / _UNIT_SECONDS[unit], 6):.12g}{unit}"
    whole, fraction = divmod(seconds, 60)
    minutes = int(whole)
    text = f"{round(fraction, 9):g}s"
    if minutes >= 60:
        return f"{minutes // 60}h{minutes % 60}m{text}"
    return f"{minutes}m{text}" if minutes else text


def _quoted(text: str) -> str:
    """Quoted as Go's errors about durations do: whatever is not printable ASCII as bytes."""
    parts = []
    for byte in text.encode("utf-8", "surrogateescape"):
        char = chr(byte)
        parts.append(f"\\{char}" if char in '"\\' else char if " " <= char <= "~" else f"\\x{byte:02x}")
    return f'"{"".join(parts)}"'
