"""When a message schedule is due: `@at`, `@every` and cron patterns of six fields, in the time zone they name."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import Protocol
from zoneinfo import TZPATH, ZoneInfo

from jetbroker.bounds import INT64_MAX
from jetbroker.forms.durations import parse_duration
from jetbroker.forms.gotext import SECOND, ZERO_TIME, format_time, parse_time
from jetbroker.jetstream.publish.cron_fields import STAR, parse_field

_NAMED = {
    "@yearly": "0 0 0 1 1 *",
    "@annually": "0 0 0 1 1 *",
    "@monthly": "0 0 0 1 * *",
    "@weekly": "0 0 0 * * 0",
    "@daily": "0 0 0 * * *",
    "@midnight": "0 0 0 * * *",
    "@hourly": "0 0 * * * *",
}
_MONTHS = b"janfebmaraprmayjunjulaugsepoctnovdec"
_DAYS = b"sunmontuewedthufrisat"
_MAX_YEARS_AHEAD = 5
_MAX_DAYS_TRIED = 64  # in a row whose clocks skip all times that are wanted: twice a year at most
_MONTH_DAYS = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # at most
_EVERY_WEEK = sum(1 << 7 * week for week in range(5))
_ZONE_NAME = re.compile(r"[A-Za-z0-9_+/-]{1,64}")
_LOCAL_ZONE = Path("/etc/localtime")
_NO_BLANKS = "\x1c\x1d\x1e\x1f"  # for Go; they are for Python
_TIME = re.compile(r"([0-9T:-]{18,19})([.,][0-9]{1,9})?[0-9]*(Z|[+-][0-9]{2}:[0-9]{2})")
EARLIEST = 1  # ns since 1970: what is due before that is as due as it can be, and 0 means "not due" to timers
NEVER_DUE = INT64_MAX  # and later than this is nothing


class Pattern(Protocol):
    """When something is due, in ns since 1970: from EARLIEST to NEVER_DUE."""

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
        return bounded(self.at)

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
        return bounded(_whole_second(since) + self.length)

    def following(self, due: int, now: int) -> int | None:
        following = _whole_second(due) + self.length
        return bounded(following if following >= now else _whole_second(now) + self.length)

    def text(self, due: int) -> str:
        return format_time(due)


@dataclass(frozen=True)
class Cron:
    """Seconds, minutes, hours, days of the month, months, days of the week (0 is Sunday) on which it is due, as bits.

    A time that clocks skip in spring does not come, one that they repeat in autumn comes twice. Months, days and
    times of day are looked up in the bits, so that no pattern costs more steps than there are months to look at.
    """

    seconds: int
    minutes: int
    hours: int
    days: int
    months: int
    weekdays: int
    any_day: bool  # one of the two fields of days is a star: both must hold, else one of them
    zone: tzinfo
    repeats = True

    def first(self, since: int) -> int | None:
        second = bounded(since) // SECOND + 1
        local = datetime.fromtimestamp(second, self.zone)
        last_year = local.year + _MAX_YEARS_AHEAD
        for _ in range(_MAX_DAYS_TRIED):
            day = self._day_from(local.date(), last_year)
            if day is None:
                break
            if day != local.date():
                second = max(self._midnight(day), second + 1)
                local = datetime.fromtimestamp(second, self.zone)
            if day == local.date():
                found = self._time_in_day(local, second)
                if found is not None:
                    return bounded(found * SECOND)
                second = max(self._midnight(day + timedelta(days=1)), second + 1)
                local = datetime.fromtimestamp(second, self.zone)
        return None

    def following(self, due: int, now: int) -> int | None:
        following = self.first(due)
        return self.first(_whole_second(now)) if following is not None and following < now else following

    def text(self, due: int) -> str:
        offset = datetime.fromtimestamp(due // SECOND, self.zone).utcoffset() or timedelta()
        return format_time(due, int(offset.total_seconds()))

    def never_comes(self) -> bool:
        """Is there no such day or time in any year?"""
        if not (self.seconds and self.minutes and self.hours):
            return True
        months = [month for month in range(1, 13) if self.months >> month & 1]
        in_month = any(self.days & (2 << _MONTH_DAYS[month]) - 2 for month in months)
        in_week = bool(months and self.weekdays)
        return not (in_month and in_week if self.any_day else in_month or in_week)

    def _day_from(self, first: date, last_year: int) -> date | None:
        """The first day from `first` on that is one of its days."""
        year, month, first_day = first.year, first.month, first.day
        while year <= last_year:
            if self.months >> month & 1:
                days = _from(self._days_of(year, month), first_day)
                if days:
                    return date(year, month, _lowest(days))
            year, month, first_day = year + month // 12, month % 12 + 1, 0
        return None

    def _days_of(self, year: int, month: int) -> int:
        """Its days in one month, as bits."""
        weekday, length = monthrange(year, month)  # of its first day, 0 is Monday
        shift = (weekday + 1) % 7
        week = (self.weekdays >> shift | self.weekdays << (7 - shift)) & 0x7F
        in_week = week * _EVERY_WEEK << 1
        return (self.days & in_week if self.any_day else self.days | in_week) & (2 << length) - 2

    def _midnight(self, day: date) -> int:
        """When a day begins; where clocks skip its midnight, as late as they say it would have been."""
        return int(datetime(day.year, day.month, day.day, tzinfo=self.zone).timestamp())

    def _time_in_day(self, local: datetime, second: int) -> int | None:
        """The first time of day from `local` on that is one of its times, in seconds since 1970; None: no more."""
        end = self._midnight(local.date() + timedelta(days=1))
        if local.utcoffset() != datetime.fromtimestamp(end, self.zone).utcoffset():
            return self._time_while_clocks_change(local, second)
        hour, minute = local.hour, local.minute
        this_minute = _from(self.seconds, local.second)
        this_hour = _from(self.minutes, minute if this_minute else minute + 1)
        this_day = _from(self.hours, hour if this_hour else hour + 1)
        if not this_day:
            return None
        found_hour = _lowest(this_day)
        found_minute = _lowest(this_hour if found_hour == hour else self.minutes)
        is_now = (found_hour, found_minute) == (hour, minute)
        found_second = _lowest(this_minute if is_now else self.seconds)
        return second + (found_hour - hour) * 3600 + (found_minute - minute) * 60 + found_second - local.second

    def _time_while_clocks_change(self, local: datetime, second: int) -> int | None:
        """As above, step by step: at most the hours of a day and the minutes of some."""
        day = local.date()
        while local.date() == day:
            seconds = self.seconds >> local.second
            if not self.hours >> local.hour & 1:
                second += 3600 - local.minute * 60 - local.second
            elif not self.minutes >> local.minute & 1 or not seconds:
                second += 60 - local.second
            else:
                return second + _lowest(seconds)
            local = datetime.fromtimestamp(second, self.zone)
        return None


def bounded(when: int) -> int:
    """`when`, or the nearest time that timers and headers know."""
    return min(max(when, EARLIEST), NEVER_DUE)


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
    if not _ZONE_NAME.fullmatch(name) or not _may_exist(name):
        return None
    try:
        if name == "Local":
            with _LOCAL_ZONE.open("rb") as file:
                return ZoneInfo.from_file(file)
        return ZoneInfo(name)
    except FileNotFoundError:
        return UTC if name == "Local" else None
    except (OSError, ValueError, KeyError):
        return None


def _may_exist(name: str) -> bool:
    """A quick look: many publishes may ask for many zones that do not exist."""
    if name == "Local":
        return True
    places = [place for place in map(Path, TZPATH) if place.is_dir()]
    return any((place / name).is_file() for place in places) if places else True


def _once(value: str) -> Pattern | None:
    known = _TIME.fullmatch(value)  # however many digits a fraction has, nine of them count
    try:
        return Once(parse_time("".join(part or "" for part in known.groups())).ns) if known else None
    except ValueError:
        return None


def _interval(value: str) -> Pattern | None:
    try:
        length = parse_duration(value.encode("utf-8", "replace"))
    except ValueError:
        return None
    return Interval(length) if length >= SECOND else None


def _cron(text: str, zone: tzinfo) -> Pattern | None:
    fields = [field.encode("utf-8", "replace") for field in text.split(maxsplit=6)]
    if len(fields) != 6 or any(char in text for char in _NO_BLANKS):
        return None
    found = [
        parse_field(fields[0], 0, 59),
        parse_field(fields[1], 0, 59),
        parse_field(fields[2], 0, 23),
        parse_field(fields[3], 1, 31),
        parse_field(fields[4], 1, 12, _MONTHS),
        parse_field(fields[5], 0, 6, _DAYS),
    ]
    sound = [bits for bits in found if bits is not None]
    if len(sound) != 6:
        return None
    seconds, minutes, hours, days, months, weekdays = (bits & ~STAR for bits in sound)
    any_day = bool((sound[3] | sound[5]) & STAR)
    pattern = Cron(seconds, minutes, hours, days, months, weekdays, any_day, zone)
    return None if pattern.never_comes() else pattern


def _from(bits: int, number: int) -> int:
    """Without the bits below."""
    return bits >> number << number


def _lowest(bits: int) -> int:
    """The number of the lowest bit."""
    return (bits & -bits).bit_length() - 1


def _whole_second(ns: int) -> int:
    """Rounded, half a second up."""
    return (ns + SECOND // 2) // SECOND * SECOND
