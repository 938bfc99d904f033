"""Bodies that nats-server reads with json.Unmarshal: as a whole, never strictly, and with other words for faults."""

import json
import re
from typing import TypeVar

from jetbroker.forms.gotext import char_quoted
from jetbroker.jetstream.models.decode import DecodeError, decode

T = TypeVar("T")
_OFFSET = re.compile(r" at offset \d+$")


def unmarshal(cls: type[T], go_name: str, body: bytes) -> T:
    """`body` as a `cls`. Raises DecodeError."""
    text = body.strip()
    if not text:
        raise DecodeError("unexpected end of JSON input")
    try:
        found = decode(cls, go_name, text, strict=False)
    except DecodeError as error:
        raise DecodeError(_error_text(text, str(error))) from error
    if _trailing(text):
        raise DecodeError(_error_text(text, ""))
    return found


def _error_text(text: bytes, error: str) -> str:
    """Go words an error in a text that is at hand as a whole otherwise than one in a stream of values."""
    trailing = _trailing(text)
    if trailing:
        return f"invalid character {char_quoted(trailing[0])} after top-level value"
    return _OFFSET.sub("", error).replace("unexpected EOF", "unexpected end of JSON input")


def _trailing(text: bytes) -> str:
    """What stands behind the first value, "" when nothing or when the first value is broken itself."""
    try:
        decoded = text.decode("utf-8", "replace")
        _, end = json.JSONDecoder().raw_decode(decoded)
    except (ValueError, RecursionError):
        return ""
    return decoded[end:].lstrip(" \t\r\n")
