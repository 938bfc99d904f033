"""When a message schedule is due: `@at`, `@every` and cron patterns of six fields, in the time zone they name."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import Protocol
from zoneinfo import ZoneInfo

from jetbroker.jetstream.acks import parse_go_duration
from jetbroker.jetstream.gotext import SECOND, ZERO_TIME, format_time, parse_time

_NAMED = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_DAYS = "sun mon tue wed thu fri sat".split()
_MAX_YEARS_AHEAD = 5
_LOCAL_ZONE = Path("/etc/localtime")


class Pattern(Protocol):
    """When something is due, in ns since 1970."""

    repeats: bool

    def first(self, since: int) -> int | None:
        """The first time, for a schedule stored at `since`; it may be over. None: never."""

    def following(self, due: int, now: int) -> int | None:
        """The time after `due`; what was missed before `now` is left out."""

    def text(self, due: int) -> str:
        """A time as headers show it."""


@dataclass(frozen=True)
class Once:
    """`@at`."""

    at: int
    repeats = False

    def first(self, since: int) -> int | None:
        return self.at

    def following(self, due: int, now: int) -> int | None:
        return None

    def text(self, due: int) -> str:
        return format_time(due)


@dataclass(frozen=True)
class Interval:
    """`@every`: counted from a whole second."""

    length: int
    repeats = True

    def first(self, since: int) -> int | None:
        return _whole_second(since) + self.length

    def following(self, due: int, now: int) -> int | None:
        following = _whole_second(due) + self.length
        return following if following >= now else _whole_second(now) + self.length

    def text(self, due: int) -> str:
        return format_time(due)


@dataclass(frozen=True)
class Cron:
    """Seconds, minutes, hours, days of the month, months, days of the week (0 is Sunday) on which it is due.

    A time that clocks skip in spring does not come, one that they repeat in autumn comes twice.
    """

    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool  # one of the two fields of days is a star: both must hold, else one of them
    zone: tzinfo
    repeats = True

    def first(self, since: int) -> int | None:
        second = since // SECOND + 1
        try:
            last_year = datetime.fromtimestamp(second, self.zone).year + _MAX_YEARS_AHEAD
            while True:
                local = datetime.fromtimestamp(second, self.zone)
                if local.year > last_year:
                    return None
                step = self._step(local)
                if step == 0:
                    return second * SECOND
                second += step
        except (OverflowError, ValueError):
            return None  # beyond what the calendar knows

    def following(self, due: int, now: int) -> int | None:
        following = self.first(due)
        return self.first(_whole_second(now)) if following is not None and following < now else following

    def text(self, due: int) -> str:
        offset = datetime.fromtimestamp(due // SECOND, self.zone).utcoffset() or timedelta()
        return format_time(due, int(offset.total_seconds()))

    def _step(self, local: datetime) -> int:
        """Seconds to the next moment that may be due; 0: this one is."""
        if local.month not in self.months:
            following = datetime(local.year + local.month // 12, local.month % 12 + 1, 1, tzinfo=self.zone)
            return _seconds_until(local, following)
        if not self._is_day(local):
            midnight = datetime(local.year, local.month, local.day, tzinfo=self.zone) + timedelta(days=1)
            return _seconds_until(local, midnight)
        if local.hour not in self.hours:
            return 3600 - local.minute * 60 - local.second
        if local.minute not in self.minutes:
            return 60 - local.second
        return 0 if local.second in self.seconds else 1

    def _is_day(self, local: datetime) -> bool:
        in_month = local.day in self.days
        in_week = local.isoweekday() % 7 in self.weekdays
        return in_month and in_week if self.any_day else in_month or in_week


def parse_pattern(text: str, zone: tzinfo | None) -> Pattern | None:
    """The pattern, None: it is none. `zone`: of Nats-Schedule-Time-Zone, None when there is no such header."""
    if text.startswith(("@at ", "@every ")):
        kind, _, value = text.partition(" ")
        if zone is not None:
            return None
        return _once(value) if kind == "@at" else _interval(value)
    return _cron(_NAMED.get(text, text), zone or UTC)


def is_zero(pattern: Pattern) -> bool:
    """Is it the zero time, which stands for no schedule?"""
    return isinstance(pattern, Once) and pattern.at == ZERO_TIME.ns


@lru_cache(maxsize=256)
def load_zone(name: str) -> tzinfo | None:
    """A time zone by its IANA name, "UTC" or "Local"; None: there is none of this name."""
    if name == "UTC":
        return UTC
    try:
        if name == "Local":
            with _LOCAL_ZONE.open("rb") as file:
                return ZoneInfo.from_file(file)
        return ZoneInfo(name)
    except FileNotFoundError:
        return UTC if name == "Local" else None
    except (OSError, ValueError, KeyError):
        return None


def _once(value: str) -> Pattern | None:
    try:
        return Once(parse_time(value).ns)
    except ValueError:
        return None


def _interval(value: str) -> Pattern | None:
    length = parse_go_duration(value.encode())
    return Interval(length) if length >= SECOND else None


def _cron(text: str, zone: tzinfo) -> Pattern | None:
    fields = text.split()
    if len(fields) != 6:
        return None
    try:
        seconds = _field(fields[0], 0, 59)[0]
        minutes = _field(fields[1], 0, 59)[0]
        hours = _field(fields[2], 0, 23)[0]
        days, every_day = _field(fields[3], 1, 31)
        months = _field(fields[4], 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)})[0]
        weekdays, every_weekday = _field(fields[5], 0, 6, {name: number for number, name in enumerate(_DAYS)})
    except ValueError:
        return None
    return Cron(seconds, minutes, hours, days, months, weekdays, every_day or every_weekday, zone)


def _field(text: str, low: int, high: int, names: dict[str, int] | None = None) -> tuple[frozenset[int], bool]:
    """The numbers a field means, and whether it holds a star. Raises ValueError."""
    numbers: set[int] = set()
    star = False
    for part in filter(None, text.split(",")):
        span, *steps = part.split("/")
        if len(steps) > 1:
            raise ValueError(part)
        step = _number(steps[0]) if steps else 1
        ends = span.split("-")
        if ends[0] in ("*", "?"):
            first, last = low, high
            star = star or step == 1
        else:
            if len(ends) > 2:
                raise ValueError(part)
            first = _number(ends[0], names)
            last = _number(ends[1], names) if len(ends) == 2 else high if steps else first
        if step == 0 or not low <= first <= last <= high:
            raise ValueError(part)
        numbers.update(range(first, last + 1, step))
    return frozenset(numbers), star


def _number(text: str, names: dict[str, int] | None = None) -> int:
    named = names.get(text.lower()) if names else None
    if named is not None:
        return named
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise ValueError(text)
    return int(digits)


def _whole_second(ns: int) -> int:
    """Rounded, half a second up."""
    return (ns + SECOND // 2) // SECOND * SECOND


def _seconds_until(local: datetime, wanted: datetime) -> int:
    """At least one; a wall-clock time that is skipped is as late as the clocks say it would have been."""
    return max(int(wanted.timestamp()) - int(local.timestamp()), 1)
