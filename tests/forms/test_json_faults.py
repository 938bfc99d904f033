"""What Go's Unmarshal says of a text that is not one JSON value."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetbroker.forms.gojson_reader import syntax_fault

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
ENDED = "unexpected end of JSON input"


@given(VALUES, st.sampled_from(["", " ", "\n\t"]))
def test_a_value_has_no_fault(value: object, blanks: str) -> None:
    assert syntax_fault(f"{blanks}{json.dumps(value)}{blanks}".encode()) == ""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"", ENDED),
        (b'{"a"', ENDED),
        (b'"a', ENDED),
        (b"[1,", ENDED),
        (b"-", "invalid character ' ' in numeric literal"),
        (b"1e", "invalid character ' ' in exponent of numeric literal"),
        (b"tru", "invalid character ' ' in literal true (expecting 'e')"),
        (b'"\\', "invalid character ' ' in string escape code"),
        (b'"\\u00', "invalid character ' ' in \\u hexadecimal character escape"),
        (b"{} x", "invalid character 'x' after top-level value"),
        (b"{'a':1}", "invalid character '\\'' looking for beginning of object key string"),
        (b'{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        (b'"\n"', "invalid character '\\n' in string literal"),
        (b"[" * 10_001, "invalid character '[' exceeded max depth"),
    ],
)
def test_where_it_is_wrong(text: bytes, fault: str) -> None:
    assert syntax_fault(text) == fault
