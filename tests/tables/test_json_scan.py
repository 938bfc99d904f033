"""The scanner of JSON payloads against the decoder that makes objects of them: equal values, equal rows refused."""

from __future__ import annotations

import json
from collections.abc import Sequence

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jetbroker.tables import ddl
from jetbroker.tables.column_types import arrow_type
from jetbroker.tables.convert import RowDecoder
from jetbroker.tables.json_scan import Column, JsonScanner, takes

pa = pytest.importorskip("pyarrow")

TEXT = "s string, b boolean, y byte, h short, i int, l long, f float, d double, t timestamp, o.s string, o.p.d double"
FIELDS = ddl.parse(TEXT, "json")

NUMBERS = (
    st.integers(-(2**64), 2**64)
    | st.sampled_from([127, 128, -128, -129, 32768, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**30])
    | st.floats(allow_nan=False, allow_infinity=False)
)
SCALARS = (
    st.none()
    | st.booleans()
    | NUMBERS
    | st.text(max_size=8)
    | st.sampled_from(["2026-01-31T12:00:00Z", "2026-01-31", ""])
)
KEYS = st.sampled_from(["s", "b", "y", "h", "i", "l", "f", "d", "t", "o", "p", "x"]) | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=8
)
# as a column wants it, more often than chance would have it
FITTING = st.fixed_dictionaries(
    {},
    optional={
        "s": st.text(max_size=8) | st.none(),
        "b": st.booleans(),
        "y": st.integers(-128, 127),
        "h": st.integers(-(2**15), 2**15 - 1),
        "i": st.integers(-(2**31), 2**31 - 1),
        "l": st.integers(-(2**63), 2**63 - 1),
        "f": st.floats(width=32, allow_nan=False, allow_infinity=False),
        "d": NUMBERS,
        "t": st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
        "o": st.none()
        | st.fixed_dictionaries({}, optional={"s": st.text(max_size=4), "p": st.dictionaries(KEYS, NUMBERS)}),
        "x": VALUES,
    },
)


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    """JSON in one of the forms in which programs write it, sometimes with a byte that is not right."""
    document = draw(FITTING | st.dictionaries(KEYS, VALUES, max_size=5) | VALUES)
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r")]))
    raw = json.dumps(document, ensure_ascii=draw(st.booleans()), separators=separators).encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 3)) == 0 and raw:
        at = draw(st.integers(0, len(raw) - 1))
        raw = (
            raw[:at]
            + draw(st.binary(max_size=2) | st.sampled_from([b"0", b'"', b"\\", b"}", b"e", b"."]))
            + raw[at + 1 :]
        )
    return raw


def columns(decoder: RowDecoder | JsonScanner, raws: list[bytes]) -> tuple[list[str], list[int], str]:
    """What it makes of them: values, the rows refused, and why the first one was."""
    array = pa.array([b"before", *raws], pa.binary())[1:]
    _, ends, data = array.buffers()
    found: tuple[Sequence[list[object] | Column], list[int]] = decoder.decode(
        memoryview(ends).cast("B"), memoryview(data or b"").cast("B"), array.offset, len(array)
    )
    made, bad = found
    values = []
    for field, column in zip(FIELDS, made, strict=True):
        kind = arrow_type(field.type)
        if isinstance(column, list):
            values.append(repr(pa.array(column, kind).to_pylist()))
            continue
        buffers = [None if buffer is None else pa.py_buffer(buffer) for buffer in column.buffers()]
        built = pa.Array.from_buffers(kind, len(array), buffers, column.nulls)
        built.validate(full=True)
        values.append(repr(built.to_pylist()))  # -0.0 is not 0.0
    return values, bad, str(decoder.fault)


@given(st.lists(payloads(), max_size=6))
@example([b""])
@example(
    [b'{"d":-0}', b'{"d":-0.0}', b'{"d":0e5}', b'{"d":1e999}', b'{"x":1e999}', b'{"d":01}', b'{"d":1.}', b'{"d":-}']
)
@example([b'{"d":0.1234567890123456789}', b'{"d":123456789012345678901234567890}', b'{"d":9007199254740993}'])
@example([b'{"s":"a","s":"b"}', b'{"o":{"s":"a"},"o":{}}', b'{"o":{"s":"a"},"o":null}', b'{"x":1,"x":2}'])
@example([b'{"s":"\\u00e9"}', b'{"\\u0073":"a"}', b'{"x":"\\ud800"}', b'{"s":"\\x"}', b'{"s":"a\tb"}', b'{"s":"\xff"}'])
@example(
    [
        b'{"s":"a"} x',
        b' {"s":"a"}\n',
        b'\xef\xbb\xbf{"s":"a"}',
        b"[]",
        b"null",
        b'{"s":"a",}',
        b'{"s"}',
        b"{",
        b'{"s":tru}',
    ]
)
@example([b'{"x":' + b"[" * 70 + b"]" * 70 + b"}", b'{"x":' + b"[" * 2000 + b"]" * 2000 + b"}"])
@example([b'{"f":3.4e38}', b'{"f":3.5e38}', b'{"f":1e39}', b'{"y":128}', b'{"l":9223372036854775808}', b'{"b":1}'])
def test_payloads_give_what_they_give_as_objects(raws: list[bytes]) -> None:
    decoder = RowDecoder(FIELDS, orjson.loads, False)
    assert columns(JsonScanner(FIELDS, decoder), raws) == columns(decoder, raws)


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("a double, b.c string, b.d long", True),
        ("a decimal(4,2)", False),
        ("a array<long>", False),
        ("a string, a.b string", False),
        (", ".join(f"k{number} long" for number in range(64)), True),
        (", ".join(f"k{number} long" for number in range(65)), False),
    ],
)
def test_what_is_not_simple_is_decoded_as_objects(text: str, taken: bool) -> None:
    assert takes(ddl.parse(text, "json")) is taken
