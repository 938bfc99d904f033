"""Query strings and the texts around them."""

from __future__ import annotations

import pytest

from jetbroker.monitor.query import BadRequest, Query
from jetbroker.monitor.sources import go_float, uptime_text


@pytest.mark.parametrize(
    ("raw", "name", "expected"),
    [
        ("", "a", ""),
        ("a=1", "a", "1"),
        ("a=1&a=2", "a", "1"),
        ("a=%41+b%2Bc", "a", "A b+c"),
        ("%61=1", "a", "1"),
        ("a=1;b=2", "a", ""),
        ("a=%zz&a=2", "a", "2"),
        ("a=%4", "a", ""),
        ("a", "a", ""),
        ("a=b=c", "a", "b=c"),
        ("a=%ff", "a", "\ufffd"),
    ],
)
def test_text(raw: str, name: str, expected: str) -> None:
    assert Query(raw).text(name) == expected


@pytest.mark.parametrize(
    ("raw", "expected"), [("", 0), ("n=", 0), ("n=7", 7), ("n=-7", -7), ("n=%2B7", 7), ("n=007", 7)]
)
def test_integer(raw: str, expected: int) -> None:
    assert Query(raw).integer("n") == expected


@pytest.mark.parametrize("value", ["x", "-", "1_0", "0x1", " 1", "1.0", "9223372036854775808", "9" * 5000, "\u0663"])
def test_integers_that_are_none(value: str) -> None:
    with pytest.raises(BadRequest, match=r"^Error decoding int for 'n': strconv\.Atoi: parsing "):
        Query(f"n={value}").integer("n")


@pytest.mark.parametrize("value", ["-1", "%2B1", "18446744073709551616"])
def test_unsigned_numbers_that_are_none(value: str) -> None:
    with pytest.raises(BadRequest, match=r"^Error decoding uint64 for 'n': strconv\.ParseUint: parsing "):
        Query(f"n={value}").unsigned("n")


def test_booleans() -> None:
    assert all(Query(f"b={text}").boolean("b") for text in ("1", "t", "T", "true", "True", "TRUE"))
    assert not any(Query(f"b={text}").boolean("b") for text in ("", "0", "f", "F", "false", "False", "FALSE"))
    with pytest.raises(BadRequest, match='parsing "tRUE": invalid syntax'):
        Query("b=tRUE").boolean("b")


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0s"),
        (59.9, "59s"),
        (60, "1m0s"),
        (3661, "1h1m1s"),
        (90_061, "1d1h1m1s"),
        (400 * 86_400, "1y35d0h0m0s"),
        (-5, "0s"),
    ],
)
def test_uptime(seconds: float, expected: str) -> None:
    assert uptime_text(int(seconds * 1e9)) == expected


def test_floats_without_a_fraction() -> None:
    assert [repr(go_float(value)) for value in (0.0, 2.0, 2.5)] == ["0", "2", "2.5"]
