"""The extremes of each type of value: as JSON, as text in a header, in a subject and in a configuration.

`@NOW+5@` stands for a time so many seconds ahead, which is filled in when a step is played: a step that was written
down means the same when it is played again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from random import Random

import orjson

from jetbroker.forms import gojson
from jetbroker.jetstream.models.decode import (
    BoolKind,
    DecodeError,
    Kind,
    ListKind,
    MapKind,
    NumberKind,
    Place,
    StructKind,
    TextKind,
    TimeKind,
)

HEAVY = 0.02  # of the values are so long that they take their time
MANY = 1000  # entries of a long list
_LONG_NUMBER = "9" * 5000

_BOUNDS = (7, 8, 15, 16, 31, 32, 53, 63, 64)
INTEGERS = (
    *("0", "1", "-1", "2", "3", "10", "100", "1000", "-2", "-100"),
    *(str(sign * 2**bits + more) for bits in _BOUNDS for sign in (1, -1) for more in (-1, 0, 1)),
    *(str(10**18), str(10**19), "99999999999999999999", "-0", "00", "1.5", "1e3", "1e308", "1e400", "-1e308", "0.1"),
    *("+1", "0x10", "1_000", "NaN", "Infinity", "", " 1", "1 ", "\u0661"),
)
_SECOND = 10**9
_YEAR = 365 * 24 * 3600 * _SECOND
DURATIONS = (
    *(str(sign * 10**power) for power in (0, 3, 6, 8, 9, 10, 12, 15, 18) for sign in (1, -1)),
    *(str(years * _YEAR) for years in (1, 100, 291, 292, 293)),
    *INTEGERS,
)
GO_DURATIONS = (
    *("0", "0s", "1s", "-1s", "1ns", "999ms", "1h", "1.5s", ".5s", "1.s", "2562047h47m16.854775807s", "2562048h"),
    *("-2562047h47m16.854775808s", "9223372036854775807ns", "9223372036854775808ns", "1µs", "1μs", "1d", "1", "s", "."),
    *("1e9s", "1s1s1s", "100000000000000000000s", "0.000000000000000000000000000000001s", "-", "+", "", "never", "1S"),
    *("86400s", "1m", "5s", "292y", "1h" * 500),
)
TIMES = (
    *("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000001Z", "0000-01-01T00:00:00Z", "0000-12-31T23:59:59Z"),
    *("1600-01-01T00:00:00Z", "1677-09-21T00:12:43.145224191Z", "1677-09-21T00:12:43Z", "1677-09-21T00:12:44Z"),
    *("1678-01-01T00:00:00Z", "1969-12-31T23:59:59.999999999Z", "1970-01-01T00:00:00Z", "1970-01-01T00:00:01Z"),
    *("@NOW+0@", "@NOW+1@", "@NOW+2@", "@NOW-1@", "@NOW+3600@", "@NOW-3600@"),
    *("2262-04-11T23:47:16Z", "2262-04-11T23:47:16.854775807Z", "2262-04-11T23:47:16.854775808Z"),
    *("2262-04-12T00:00:00Z", "2263-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:60Z"),
    *("2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z", "2024-02-30T00:00:00Z", "1900-02-29T00:00:00Z"),
    *("2024-01-01T00:00:00+24:00", "2024-01-01T00:00:00-24:00", "2024-01-01T00:00:00+23:59"),
    *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2024-01-01T24:00:00Z", "2024-13-01T00:00:00Z"),
    *("10000-01-01T00:00:00Z", "-001-01-01T00:00:00Z", "2024-01-01", "now", "", "2024-01-01t00:00:00z"),
    *("2024-01-01T00:00:00.Z", "2024-01-01T00:00:00,5Z", "2024-01-01T00:00:00." + "1" * 5000 + "Z"),
)
TEXTS = (
    *("", "a", " ", "a b", ".", "..", "../..", "/", "a/b", "\\", "*", ">", "a.*", "a.>", "a..b", ".a", "a."),
    *("$JS.>", "$JS.API.>", "$SYS.>", "$G", "%", "%s%n%d", "{}", "{0}", "{{", "null", "true", "0", "-1", "NaN"),
    *("\x00", "a\x00b", "\r\n", "a\r\nb", "\t", "\x7f", "\u00e9", "\u202e", "\ufeff", "\U0001f600", "\ud7ff"),
    *("x" * 255, "x" * 256, "x" * 4096, "ä" * 128, "CON", "__proto__", "constructor", "_", "-", "~"),
)
LONG_TEXTS = ("x" * 65_536, ".".join("y" * 20_000), "a." * 20_000, "*." * 500 + "*", "ä" * 30_000, "9" * 5000)
SUBJECTS = (
    *("", "a", "*", ">", "a.b", "a.*.c", "*.*", "a.>", "*.>", "a..b", ".a", "a.", "a b", "a\tb", "\x00", "a.>.b", "a*"),
    *("$JS.>", "$JS.API.>", "$JS.API.STREAM.CREATE.*", "$JS.ACK.>", "$JS.FC.>", "$JS.EVENT.>", "$SYS.>", "$SYS.REQ.>"),
    *("_INBOX.>", "_R_.>", "$KV.b.>", "$O.b.>", "ä.ö", "\u202e", "x" * 255, ".".join("x" * 40), "*." * 20 + "*"),
)
TRANSFORMS = (
    *("{{wildcard(1)}}", "{{wildcard(0)}}", "{{wildcard(-1)}}", "{{wildcard(99999999999999999999)}}", "$1", "$0", "$9"),
    *("{{partition(10,1)}}", "{{partition(0,1)}}", "{{partition(-1,1)}}", "{{partition(2147483648,1)}}"),
    *("{{partition(9223372036854775808,1)}}", "{{partition(10,1,1,1)}}", "{{partition(10)}}", "{{partition()}}"),
    *("{{split(1,-)}}", "{{split(1,)}}", "{{split(1,.)}}", "{{SplitFromLeft(1,3)}}", "{{SplitFromRight(1,-3)}}"),
    *(
        "{{splitFromLeft(1,99999999999)}}",
        "{{slicefromleft(1,1)}}",
        "{{SliceFromLeft(1,0)}}",
        "{{sliceFromRight(1,-1)}}",
    ),
    *("{{left(1,2)}}", "{{right(1,2147483648)}}", "{{random(10)}}", "{{random(0)}}", "{{unknown(1)}}", "{{wildcard(1)"),
    *("{{{{wildcard(1)}}}}", "{{ wildcard ( 1 ) }}", "{{wildcard(1)}}." * 50 + "x", "a.{{partition(5,1)}}.>"),
    *("{{partition(" + "1," * 200 + "1)}}", "{{wildcard(" + "1" * 5000 + ")}}", "{{" * 300, "x.$1.$1.$2", "> >"),
)
PATTERNS = (
    *(f"@at {moment}" for moment in TIMES),
    *(f"@every {length}" for length in GO_DURATIONS),
    *("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", "@never", "@", "@at", "@every "),
    *(
        "* * * * * *",
        ", * * * * *",
        "* , * * * *",
        "* * * , * *",
        "* * * * , *",
        "* * * * * ,",
        ",,,,,,",
        "0 0 0 31 2 *",
    ),
    *("0 0 0 29 2 *", "0 0 0 30 2 *", "0 0 0 31 4,6,9,11 *", "59 59 23 31 12 6", "*/59 */59 */23 */31 */12 */6"),
    *("*/0 * * * * *", "60 * * * * *", "-1 * * * * *", "0-59/7 * * * * *", "5-1 * * * * *", "0/99999999999 * * * * *"),
    *("? ? ? ? ? ?", "* * * * jan mon", "* * * * JAN-DEC SUN-SAT", "* * * * * 7", "* * * 0 * *", "* * * * 13 *"),
    *("* * * * *", "* * * * * * *", "", " ", "0 0 0 29 2 0", "1,2,3 4,5 6 7 8 *", "0," * 3000 + "0 * * * * *"),
    *("99999999999999999999 * * * * *", "* * * * * " + "9" * 5000, "0 0 0 1 1 *", "@at @NOW+1@", "@every 1s"),
)
ZONES = (
    "UTC",
    "Local",
    "Europe/Berlin",
    "America/St_Johns",
    "../../../etc/passwd",
    "/etc/localtime",
    "",
    ".",
    "x" * 4000,
)
NAK_DELAYS = tuple(f'{{"delay": {value}}}' for value in (*DURATIONS, _LONG_NUMBER, "null", '"1s"', "[]"))

_WRONG = (b"null", b"true", b"[]", b"{}", b"0", b'"x"', b"[[]]", b"[{}]", b'{"a":{}}', b"1.5", b"[null]", b'""')
_BROKEN_TEXTS = (b'"\xff\xfe"', b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\u0000"', b'"a\x01"', b'"\\q"')
_DEEP = (b"[" * 1000 + b"]" * 1000, b'{"a":' * 500 + b"0" + b"}" * 500, b"[" * 100_000)
_STAMP = re.compile(rb"@NOW([+-]\d+)@")


def text_json(text: str) -> bytes:
    """A text as JSON."""
    return orjson.dumps(text)


def _with(raw: Sequence[str], *more: str) -> tuple[bytes, ...]:
    return tuple(value.encode() for value in (*raw, *more))


_NUMBERS = (*_with(INTEGERS, _LONG_NUMBER, "-" + _LONG_NUMBER, '"1"'),)
_LENGTHS = (*_with(DURATIONS, _LONG_NUMBER, '"1s"'),)
_TIMES = tuple(map(text_json, TIMES))
_TEXTS = (*map(text_json, TEXTS), *map(text_json, SUBJECTS), *map(text_json, TRANSFORMS), *_BROKEN_TEXTS)
_LONG = tuple(map(text_json, LONG_TEXTS))


def of_kind(kind: Kind, random: Random) -> bytes:
    """One extreme of a field of the API, as JSON; most often one that can be decoded. Raises TypeError for a kind
    this table knows nothing of.
    """
    roll = random.random()
    if roll < 0.06:
        return random.choice(_WRONG)
    if roll < 0.06 + HEAVY / 8:
        return random.choice(_DEEP)
    if isinstance(kind, ListKind):
        return _list(kind.item, random)
    if isinstance(kind, MapKind):
        return _map(random)
    if isinstance(kind, StructKind):
        return random.choice(_WRONG)
    if roll > 1 - HEAVY and isinstance(kind, TextKind):
        return random.choice(_LONG)
    return random.choice(_candidates(kind) if roll < 0.2 else _fitting(kind))


def _candidates(kind: Kind) -> tuple[bytes, ...]:
    names: dict[str, str] | None = getattr(kind, "names", None)
    if names is not None:
        return (*map(text_json, names), b'""', b"null", b"0", b'"x"')
    if isinstance(kind, NumberKind):
        return _LENGTHS if kind.go_type == "time.Duration" else _NUMBERS
    if isinstance(kind, TimeKind):
        return _TIMES
    if isinstance(kind, BoolKind):
        return (b"true", b"false", b"null", b'"true"', b"1")
    if isinstance(kind, TextKind):
        return _TEXTS
    raise TypeError(f"no extremes of {type(kind).__name__}")


@cache
def _fitting(kind: Kind) -> tuple[bytes, ...]:
    """Those that the broker decodes."""
    return tuple(value for value in _candidates(kind) if _fits(kind, value))


def _fits(kind: Kind, value: bytes) -> bool:
    try:
        kind.read(gojson.fast_value(clock(value)), Place(), kind.zero(), True)
    except (DecodeError, ValueError):
        return False
    return True


def _list(item: Kind, random: Random) -> bytes:
    size = random.choice((0, 1, 1, 2, 2, 3, 10)) if random.random() > HEAVY else MANY
    if size == MANY and random.random() < 0.5:
        return b"[" + b",".join(b'"s0.k.%d"' % number for number in range(MANY)) + b"]"
    entries = [of_kind(item, random) for _ in range(min(size, 10))]
    return (
        b"["
        + b",".join(random.choice(entries) if size == MANY else entry for entry in entries * max(1, size // 10))
        + b"]"
    )


def _map(random: Random) -> bytes:
    size = random.choice((0, 1, 2, 5)) if random.random() > HEAVY else MANY
    pairs = [
        text_json(f"{random.choice(TEXTS)[:300]}{number or ''}") + b":" + random.choice((*_TEXTS[:60], b"null", b"1"))
        for number in range(size)
    ]
    return b"{" + b",".join(pairs) + b"}"


def body(random: Random, good: bytes) -> bytes:
    """What may stand in the place of a whole body, some of it around a good one."""
    return random.choice(
        (
            *(
                b"",
                b" ",
                b"{",
                b"}",
                b"[]",
                b"null",
                b"0",
                b'"x"',
                b"{}",
                b"{}{}",
                b"\x00",
                b"\xff",
                b"{" * 200,
                b"[" * 5000,
            ),
            *(good[:-1], good + good, good + b"x", good[: len(good) // 2], b"\xef\xbb\xbf" + good, b" \r\n\t" + good),
            *(good.replace(b"{", b'{"":0,', 1), good.replace(b"{", b'{"unknown":1,', 1), good.upper()),
            *(b"[" + b"1," * 30_000 + b"1]", b'{"a":' + b"[" * 20_000, b"9" * 5000, b'{"seq":' + b"9" * 5000 + b"}"),
        )
    )


def clock(data: bytes) -> bytes:
    """`data` with its `@NOW+5@` filled in."""
    if b"@NOW" not in data:
        return data
    now = time.time()

    def moment(found: re.Match[bytes]) -> bytes:
        return f"{datetime.fromtimestamp(now + int(found[1]), UTC):%Y-%m-%dT%H:%M:%SZ}".encode()

    return _STAMP.sub(moment, data)
