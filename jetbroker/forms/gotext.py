"""Texts as Go prints them: quoted strings, durations and RFC 3339 times with nanoseconds."""

import re
from dataclasses import dataclass

from jetbroker.bounds import INT64_MIN, clamp_int64

NANOSECOND = 1
MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

ZERO_TIME_TEXT = "0001-01-01T00:00:00Z"
_ZERO_TIME_SECONDS = -62_135_596_800  # of year 1 in Unix time
_DAYS_BEFORE_YEAR_ZERO = 719_468
_FIRST_NS = (_ZERO_TIME_SECONDS - 366 * 86_400) * SECOND  # of year 0, a leap year
_LAST_NS = 253_402_300_800 * SECOND - 1  # of year 9999
_LAYOUT = "2006-01-02T15:04:05Z07:00"
_ESCAPES = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def quoted(text: str | bytes) -> str:
    """As strconv.Quote and %q print it; bytes that are no UTF-8, and surrogates that stand for such, as \\xNN."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    code = ord(char)
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8
        code -= 0xDC00
    elif code >= 0x80:
        return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return f"\\x{code:02x}"


def char_quoted(char: str) -> str:
    """A character in single quotes, as the errors of encoding/json show it."""
    return "'" + ({"'": "\\'", '"': '"'}.get(char) or quoted(char)[1:-1]) + "'"


def time_quoted(text: str | bytes) -> str:
    """As the errors of Go's package time quote it: what is not ASCII, and control characters, byte by byte."""
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    parts = (
        f"\\{chr(byte)}" if byte in b'"\\' else chr(byte) if 0x20 <= byte < 0x80 else f"\\x{byte:02x}" for byte in raw
    )
    return f'"{"".join(parts)}"'


def duration_text(nanoseconds: int) -> str:
    """A duration as Go prints it: `1h30m0s`, `1.5s`, `100ms`, `0s`."""
    sign = "-" if nanoseconds < 0 else ""
    rest = abs(nanoseconds)
    if rest == 0:
        return "0s"
    for unit, name in ((NANOSECOND, "ns"), (MICROSECOND, "µs"), (MILLISECOND, "ms")):
        if rest < unit * 1000:
            return f"{sign}{_fraction(rest, unit)}{name}"
    minutes, below = divmod(rest, MINUTE)
    hours, minutes = divmod(minutes, 60)
    text = f"{_fraction(below, SECOND)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text


def _fraction(value: int, unit: int) -> str:
    whole, part = divmod(value, unit)
    if not part:
        return str(whole)
    return f"{whole}.{part:0{len(str(unit)) - 1}d}".rstrip("0")


@dataclass(frozen=True)
class Timestamp:
    """A point in time as it was written, for replies that echo it: nanoseconds since 1970, and the UTC offset.

    The years 0 to 9999 reach beyond 64 bits: all that computes takes `ns`.
    """

    written_ns: int
    offset_seconds: int = 0

    @property
    def ns(self) -> int:
        """Nanoseconds since 1970, the nearest that 64 bits hold: the years 1678 to 2262."""
        return clamp_int64(self.written_ns)

    @property
    def unix_nano(self) -> int:
        """What Go compares with the times of messages: beyond 64 bits it comes around at the other end."""
        return (self.written_ns - INT64_MIN) % 2**64 + INT64_MIN

    def utc(self) -> "Timestamp":
        """The same time written in UTC. Raises ValueError with Go's text for a year that has no four digits there."""
        if not _FIRST_NS <= self.written_ns <= _LAST_NS:
            raise ValueError("Time.MarshalJSON: year outside of range [0,9999]")
        return Timestamp(self.written_ns)

    def left(self, now_ns: int) -> int:
        """Nanoseconds from `now_ns` until then, below zero when it is past; in 64 bits, as Go's durations."""
        return clamp_int64(self.written_ns - now_ns)

    def __str__(self) -> str:
        return format_time(self.written_ns, self.offset_seconds)


def format_time(ns: int, offset_seconds: int = 0) -> str:
    """`ns` since 1970 as RFC 3339, with as many of 9 fraction digits as are needed."""
    seconds, fraction = divmod(ns, SECOND)
    days, rest = divmod(seconds + offset_seconds, 86_400)
    year, month, day = _civil(days)
    hour, rest = divmod(rest, 3600)
    minute, second = divmod(rest, 60)
    text = f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}"
    if fraction:
        text += f".{fraction:09d}".rstrip("0")
    if not offset_seconds:
        return text + "Z"
    sign = "-" if offset_seconds < 0 else "+"
    hours, minutes = divmod(abs(offset_seconds) // 60, 60)
    return f"{text}{sign}{hours:02d}:{minutes:02d}"


def _days(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 in the proleptic Gregorian calendar (datetime knows no year 0, RFC 3339 does)."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def _civil(days: int) -> tuple[int, int, int]:
    era, day_of_era = divmod(days + _DAYS_BEFORE_YEAR_ZERO, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + (3 if shifted < 10 else -9)
    return era * 400 + year_of_era + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


# (what Go's layout calls the part, a pattern for it): an error names the first part that does not match.
_PARTS = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("2006", r"[0-9]{4}"),
        ("-", r"-"),
        ("01", r"[0-9]{2}"),
        ("-", r"-"),
        ("02", r"[0-9]{2}"),
        ("T", r"T"),
        ("15", r"[0-9]{1,2}"),
        (":", r":"),
        ("04", r"[0-9]{2}"),
        (":", r":"),
        ("05", r"[0-9]{2}"),
        ("", r"(?:[.,][0-9]+)?"),
        ("Z07:00", r"Z|[+-][0-9]{2}:[0-9]{2}"),
    )
)


def parse_time(text: str) -> Timestamp:
    """The time an RFC 3339 text stands for; digits behind the ninth of a fraction are dropped.

    Raises ValueError with Go's text.
    """
    found = []
    at = 0
    for name, pattern in _PARTS:
        match = pattern.match(text, at)
        if match is None:
            rest = f"cannot parse {time_quoted(text[at:])} as {quoted(name)}"
            raise ValueError(f"parsing time {time_quoted(text)} as {quoted(_LAYOUT)}: {rest}")
        found.append(match.group())
        at = match.end()
    if at != len(text):
        raise ValueError(f"parsing time {time_quoted(text)}: extra text: {time_quoted(text[at:])}")
    year, month, day = int(found[0]), int(found[2]), int(found[4])
    hour, minute, second = int(found[6]), int(found[8]), int(found[10])
    zone = found[12]
    offset_hour, offset_minute = (0, 0) if zone == "Z" else (int(zone[1:3]), int(zone[4:]))
    fault = _range_fault(year, month, day, hour, minute, second, offset_hour, offset_minute)
    if fault:
        raise ValueError(f"parsing time {time_quoted(text)}: {fault} out of range")
    offset = (offset_hour * 60 + offset_minute) * 60 * (-1 if zone[0] == "-" else 1)
    seconds = _days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset
    return Timestamp(seconds * SECOND + int(found[11][1:10].ljust(9, "0") or "0"), offset)


def _range_fault(
    year: int, month: int, day: int, hour: int, minute: int, second: int, offset_hour: int, offset_minute: int
) -> str:
    if not 1 <= month <= 12:
        return "month"
    next_month = (year, month + 1) if month < 12 else (year + 1, 1)
    if not 1 <= day <= _days(*next_month, 1) - _days(year, month, 1):
        return "day"
    for name, value, bound in (
        ("hour", hour, 23),
        ("minute", minute, 59),
        ("second", second, 59),
        ("time zone offset hour", offset_hour, 24),
        ("time zone offset minute", offset_minute, 60),
    ):
        if value > bound:
            return name
    return ""


ZERO_TIME = Timestamp(_ZERO_TIME_SECONDS * SECOND)
