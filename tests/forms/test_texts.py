"""Texts as Go prints and reads them; the expected ones were printed by Go."""

from __future__ import annotations

import pytest

from jetbroker.forms import strconv
from jetbroker.forms.api_level import API_LEVEL, level_supported
from jetbroker.forms.durations import parse_duration
from jetbroker.forms.gotext import char_quoted, duration_text, quoted, time_quoted
from jetbroker.forms.sizes import friendly_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '""'),
        ("é ☺", '"é ☺"'),
        ('a"b\\', r'"a\"b\\"'),
        ("\a\b\f\n\r\t\v\x00\x7f", r'"\a\b\f\n\r\t\v\x00\x7f"'),
        ("\u00ad\u2028\U000e0001", r'"\u00ad\u2028\U000e0001"'),
        (b"\xff\xc3\xa9", r'"\xffé"'),
        (b"\xff".decode("utf-8", "surrogateescape"), r'"\xff"'),
    ],
)
def test_strconv_quote(text: str | bytes, expected: str) -> None:
    assert quoted(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("é", r'"\xc3\xa9"'), ('"\\\n', r'"\"\\\x0a"'), ("\x7f", '"\x7f"'), (b"\xff", r'"\xff"')]
)
def test_quotes_in_errors_about_times(text: str | bytes, expected: str) -> None:
    assert time_quoted(text) == expected


def test_characters_in_errors_about_json() -> None:
    assert [char_quoted(char) for char in "a'\"\n\xe9"] == ["'a'", r"'\''", "'\"'", r"'\n'", "'é'"]


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        (b"0", 0), (b"+0", 0), (b"-5s", -5 * 10**9), (b"1h30m", 5400 * 10**9), (b".5s", 5 * 10**8), (b"1.s", 10**9),
        (b"0.5ns", 0), ("2µs".encode(), 2000), ("2μs".encode(), 2000), (b"1.000000001s", 10**9 + 1),
        (b"2562047h47m16.854775807s", 2**63 - 1), (b"-9223372036854775808ns", -(2**63)),
    ],
)  # fmt: skip
def test_time_parse_duration(text: bytes, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"", 'time: invalid duration ""'),
        (b"-", 'time: invalid duration "-"'),
        (b".s", 'time: invalid duration ".s"'),
        (b"s", 'time: invalid duration "s"'),
        (b"1", 'time: missing unit in duration "1"'),
        (b"1h.", 'time: invalid duration "1h."'),
        (b"1h5", 'time: missing unit in duration "1h5"'),
        (b"5d", 'time: unknown unit "d" in duration "5d"'),
        (b"1 s", 'time: unknown unit " s" in duration "1 s"'),
        (b"9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
        (b"2562047h48m", 'time: invalid duration "2562047h48m"'),
    ],
)
def test_what_time_parse_duration_refuses(text: bytes, fault: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_duration(text)
    assert str(caught.value) == fault


@pytest.mark.parametrize(("ns", "text"), [(0, "0s"), (1, "1ns"), (1500, "1.5µs"), (3_600_000_000_000, "1h0m0s")])
def test_durations_are_printed_so_that_they_can_be_read(ns: int, text: str) -> None:
    assert duration_text(ns) == text
    assert parse_duration(text.encode()) == ns


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (-1, "-1 B"), (0, "0 B"), (1023, "1023 B"), (1024, "1.00 KB"), (1536, "1.50 KB"), (2**20 - 1, "1024.00 KB"),
        (2**30, "1.00 GB"), (2**50, "1.00 PB"), (2**63 - 1, "8.00 EB"),
    ],
)  # fmt: skip
def test_friendly_bytes(size: int, text: str) -> None:
    assert friendly_bytes(size) == text


def test_strconv_numbers() -> None:
    assert [strconv.atoi(text) for text in ("0", "-7", "+007", str(2**63 - 1), str(-(2**63)))] == [
        0, -7, 7, 2**63 - 1, -(2**63)
    ]  # fmt: skip
    assert strconv.parse_uint("0000065535", 2**16 - 1) == 65535
    for function, text, why in (
        ("Atoi", "", "invalid syntax"),
        ("Atoi", "-", "invalid syntax"),
        ("Atoi", "1_0", "invalid syntax"),
        ("Atoi", "٣", "invalid syntax"),
        ("Atoi", str(2**63), "value out of range"),
        ("ParseInt", "9" * 5000, "value out of range"),
        ("ParseUint", "-1", "invalid syntax"),
        ("ParseUint", "65536", "value out of range"),
    ):
        with pytest.raises(ValueError) as caught:
            if function == "ParseUint":
                strconv.parse_uint(text, 2**16 - 1)
            else:
                (strconv.atoi if function == "Atoi" else strconv.parse_int)(text)
        assert str(caught.value) == f'strconv.{function}: parsing "{text}": {why}'


def test_api_levels() -> None:
    assert all(map(level_supported, (None, b"", b"0", b"-9", b"+1", b"%d" % API_LEVEL)))
    assert not any(map(level_supported, (b"%d" % (API_LEVEL + 1), b"x", b"1.0", b" 1", b"9" * 30)))
