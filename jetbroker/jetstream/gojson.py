"""JSON as Go's encoding/json reads and writes it: the same bytes out, the same refusals with the same texts in.

Bodies are read by orjson. Only what it refuses, or what does not fit afterwards, is read again by the slower reader
here, which keeps number literals, replaces bad Unicode as Go does, and knows Go's texts. It walks with an explicit
stack, so depth costs no Python recursion.
"""

import re
from collections.abc import Iterator
from typing import Any

import orjson

from jetbroker.jetstream.gotext import quote

MAX_DEPTH = 10_000  # as encoding/json
MAX_EXACT_BYTES = 64 * 1024  # what is longer is not read a second time just to word a refusal

_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"')
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_LONE_SURROGATE = re.compile(r"[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)")
_UNESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LITERALS: dict[int, tuple[bytes, Any]] = {
    ord("t"): (b"true", True),
    ord("f"): (b"false", False),
    ord("n"): (b"null", None),
}

_VALUE = "looking for beginning of value"
_KEY = "looking for beginning of object key string"


class JsonError(Exception):
    """The text is no JSON. The message is Go's."""


class Number(str):
    """A number as it was written."""

    __slots__ = ()


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
    """The one value in `body`, by orjson. Raises ValueError when it refuses."""
    return orjson.loads(body)


def values(body: bytes) -> Iterator[Any]:
    """Each value in `body`, one behind the other; numbers come as `Number`. Raises JsonError with Go's text."""
    at = _skip(body, 0)
    while at < len(body):
        value, at = _read_value(body, at)
        yield value
        at = _skip(body, at)


def _skip(body: bytes, at: int) -> int:
    match = _SPACE.match(body, at)
    return match.end() if match else at


def _read_value(body: bytes, at: int) -> tuple[Any, int]:
    """The value that starts at `at`, and where it ends."""
    root: list[Any] = []
    stack: list[tuple[Any, str]] = []  # the open containers, each with the key its parent keeps it under
    container: Any = root
    key = ""
    while True:
        opener = body[at : at + 1]
        if opener in (b"{", b"["):
            if len(stack) >= MAX_DEPTH:
                raise _unexpected(body, at, "exceeded max depth")
            stack.append((container, key))
            container = {} if opener == b"{" else []
            at = _skip(body, at + 1)
            if body[at : at + 1] not in (b"}", b"]") or (opener == b"{") != (body[at : at + 1] == b"}"):
                key, at = _read_key(body, at) if opener == b"{" else ("", at)
                continue
        else:
            value, at = _read_scalar(body, at)
            _put(container, key, value)
        while stack:  # behind a value: close what ends here, or go on to the next value
            at = _skip(body, at)
            is_object = isinstance(container, dict)
            mark = body[at : at + 1]
            if mark == (b"}" if is_object else b"]"):
                at += 1
                value = container
                container, key = stack.pop()
                _put(container, key, value)
                continue
            if mark != b",":
                raise _unexpected(body, at, "after object key:value pair" if is_object else "after array element")
            at = _skip(body, at + 1)
            key, at = _read_key(body, at) if is_object else ("", at)
            break
        else:
            return root[0], at


def _put(container: Any, key: str, value: Any) -> None:
    if isinstance(container, dict):
        container[key] = value
    else:
        container.append(value)


def _read_key(body: bytes, at: int) -> tuple[str, int]:
    if body[at : at + 1] != b'"':
        raise _unexpected(body, at, _KEY)
    key, at = _read_string(body, at)
    at = _skip(body, at)
    if body[at : at + 1] != b":":
        raise _unexpected(body, at, "after object key")
    return key, _skip(body, at + 1)


def _read_scalar(body: bytes, at: int) -> tuple[Any, int]:
    first = body[at] if at < len(body) else 0
    if first == ord('"'):
        return _read_string(body, at)
    if first in _LITERALS:
        text, value = _LITERALS[first]
        for index, expected in enumerate(text[1:], 1):
            if body[at + index : at + index + 1] != bytes((expected,)):
                where = f"in literal {text.decode()} (expecting {_quote_byte(expected)})"
                raise _unexpected(body, at + index, where)
        return value, at + len(text)
    if first == ord("-") or ord("0") <= first <= ord("9"):
        return _read_number(body, at)
    raise _unexpected(body, at, _VALUE)


def _read_number(body: bytes, at: int) -> tuple[Number, int]:
    match = _NUMBER.match(body, at)
    if match is None:
        raise _unexpected(body, at + 1, "in numeric literal")
    end = match.end()
    tail = body[end : end + 1]
    has_fraction = b"." in match.group()
    has_exponent = b"e" in match.group().lower()
    if tail == b"." and not has_fraction and not has_exponent:
        raise _unexpected(body, end + 1, "after decimal point in numeric literal")
    if tail in (b"e", b"E") and not has_exponent:
        signed = body[end + 1 : end + 2] in (b"+", b"-")
        raise _unexpected(body, end + 1 + signed, "in exponent of numeric literal")
    return Number(match.group().decode()), end


def _read_string(body: bytes, at: int) -> tuple[str, int]:
    match = _STRING.match(body, at)
    if match is None:
        raise _string_fault(body, at)
    text = match.group()[1:-1].decode("utf-8", "replace")
    if "\\" in text:
        text = _ESCAPE.sub(_unescape, text)
        # an escaped pair is one character; half of one is replaced
        text = _LONE_SURROGATE.sub("\ufffd", text).encode("utf-16", "surrogatepass").decode("utf-16")
    return text, match.end()


def _unescape(match: re.Match[str]) -> str:
    code = match.group(1)
    if len(code) == 5:
        return chr(int(code[1:], 16))
    return _UNESCAPED.get(code, code)


def _string_fault(body: bytes, at: int) -> JsonError:
    at += 1
    while True:
        plain = _PLAIN.match(body, at)
        at = plain.end() if plain else at
        if body[at : at + 1] != b"\\":
            return _unexpected(body, at, "in string literal")
        at += 1
        if body[at : at + 1] == b"u":
            for _ in range(4):
                at += 1
                if body[at : at + 1] not in _HEX:
                    return _unexpected(body, at, "in \\u hexadecimal character escape")
        elif body[at : at + 1] not in _ESCAPABLE:
            return _unexpected(body, at, "in string escape code")
        at += 1


_HEX = frozenset(bytes((byte,)) for byte in b"0123456789abcdefABCDEF")
_ESCAPABLE = frozenset(bytes((byte,)) for byte in b'"\\/bfnrt')


def _unexpected(body: bytes, at: int, where: str) -> JsonError:
    if at >= len(body):
        return JsonError("unexpected EOF")
    text = f"invalid character {_quote_byte(body[at])} {where} at offset {at + 1}"
    return JsonError(text)


def _quote_byte(byte: int) -> str:
    if byte == ord("'"):
        return "'\\''"
    if byte == ord('"'):
        return "'\"'"
    return "'" + quote(chr(byte))[1:-1] + "'"
