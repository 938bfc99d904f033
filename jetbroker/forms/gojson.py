"""JSON as Go's encoding/json reads and writes it: the same bytes out, the same refusals with the same texts in.

Bodies are read by orjson. Only what it refuses, or what does not fit afterwards, is read again by gojson_reader,
which keeps number literals, replaces bad Unicode as Go does, and knows Go's texts.
"""

from collections.abc import Iterator
from typing import Any

import orjson

from jetbroker import limits
from jetbroker.forms.gojson_reader import JsonError, Number, read_values, syntax_fault


def dumps(value: Any) -> bytes:
    """`value` as Go encodes it: compact, with `<`, `>`, `&`, U+2028 and U+2029 escaped."""
    return escape_html(orjson.dumps(value))


def escape_html(out: bytes) -> bytes:
    """JSON with `<`, `>`, `&`, U+2028 and U+2029 escaped."""
    for plain, escaped in _HTML_ESCAPES:
        if plain in out:
            out = out.replace(plain, escaped)
    return out


# None of these bytes can stand outside of a string.
_HTML_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
)


def fast_value(body: bytes) -> Any:
    """The one value in `body`, by orjson. Raises ValueError when it refuses, and TooLong."""
    if len(body) > limits.JSON_EXACT_BYTES and (
        body.count(b"[") + body.count(b"{") > limits.JSON_CONTAINERS or body.count(b":") > limits.JSON_KEYS
    ):
        raise TooLong("json: too many values")
    return orjson.loads(body)


def values(body: bytes) -> Iterator[Any]:
    """Each value in `body`, one behind the other; numbers come as int where that is how they were written, else as
    `Number`. Raises JsonError with Go's text, and TooLong.
    """
    if len(body) > limits.JSON_EXACT_BYTES:
        raise TooLong
    return read_values(body)


def one_value(body: bytes) -> Any:
    """The one value that `body` is, with numbers as in `values`. Raises JsonError with the text that Go has for a body
    that is at hand as a whole, and TooLong.
    """
    if len(body) > limits.JSON_EXACT_BYTES:
        raise TooLong
    fault = syntax_fault(body)
    if fault:
        raise JsonError(fault, fault)
    return next(read_values(body))


class TooLong(ValueError):
    """More than is read in one piece; or longer than JSON_EXACT_BYTES, which is not read again to word a refusal."""


__all__ = ["JsonError", "Number", "TooLong", "dumps", "escape_html", "fast_value", "one_value", "values"]
