"""Durations of options, in seconds. Apart from the other values, because a start without a file needs them too."""

from jetbroker.errors import ConfigError
from jetbroker.forms import durations
from jetbroker.forms.gotext import SECOND, duration_text

LONGEST_SECONDS = 2**63 // SECOND  # whole ones: a float of more could be too many nanoseconds for 64 bits


def parse_duration(text: str) -> float:
    """Seconds of a duration as Go writes it: `300ms`, `1h30m`, `1.5s`, `0`; units ns us ms s m h."""
    try:
        return bounded(durations.parse_duration(text.encode("utf-8", "surrogateescape")) / SECOND)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def bounded(seconds: float) -> float:
    """`seconds`, or the nearest whose nanoseconds 64 bits hold; a part of the last of them may be dropped."""
    return min(max(seconds, -LONGEST_SECONDS), LONGEST_SECONDS)


def format_duration(seconds: float) -> str:
    """A duration as Go prints it: `2m0s`, `1h5m0s`, `300ms`."""
    return duration_text(round(seconds * SECOND))
