"""Numbers in decimal digits, read as Go's package strconv reads them; what it refuses is a ValueError with its text."""

from jetbroker.bounds import INT64_MAX, INT64_MIN
from jetbroker.forms.gotext import quoted

_MOST_DIGITS = 20  # of what 64 bits hold; longer ones are not converted


def atoi(text: str) -> int:
    """As strconv.Atoi, in 64 bits."""
    return _signed("Atoi", text)


def parse_int(text: str) -> int:
    """As strconv.ParseInt with base 10 and 64 bits."""
    return _signed("ParseInt", text)


def parse_uint(text: str, highest: int) -> int:
    """As strconv.ParseUint with base 10; `highest` is the largest number of its bits."""
    number = _magnitude("ParseUint", text, text)
    if number > highest:
        raise out_of_range("ParseUint", text)
    return number


def out_of_range(function: str, text: str) -> ValueError:
    """What strconv says of a number that is too large."""
    return ValueError(f"strconv.{function}: parsing {quoted(text)}: value out of range")


def _signed(function: str, text: str) -> int:
    number = _magnitude(function, text, text[1:] if text[:1] in ("+", "-") else text)
    number = -number if text[0] == "-" else number
    if not INT64_MIN <= number <= INT64_MAX:
        raise out_of_range(function, text)
    return number


def _magnitude(function: str, text: str, digits: str) -> int:
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"strconv.{function}: parsing {quoted(text)}: invalid syntax")
    counted = digits.lstrip("0")
    if len(counted) > _MOST_DIGITS:
        raise out_of_range(function, text)
    return int(counted or "0")
