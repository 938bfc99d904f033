"""JSON objects as Go reads them into structs: keys in any case, unknown ones ignored, wrong types refused.

Rules: as nats-server 2.14.5 was observed to keep them (tests/differential/).
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from jetbroker.errors import ProtocolError
from jetbroker.forms.gojson_reader import syntax_fault

_KINDS: Final = {bool: "bool", str: "string", list: "array", dict: "object"}
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_FOLDED = str.maketrans({"\u017f": "s", "\u212a": "k"})  # the only letters that Go takes for ASCII ones

TEXT, BOOLEAN, TEXTS, RULES = "string", "bool", "[]string", "server.SubjectPermission"
INT = ("int", INT64_MIN, INT64_MAX)

Kind = str | tuple[str, int, int]
"""One of the names above, or a number's Go type with its range."""


def read_struct(raw: bytes, holder: str, fields: Mapping[str, Kind]) -> dict[str, Any]:
    """The values of `fields` (names in lower case) that are given and not null; the last one of a name counts.

    A RULES value becomes {"allow": [str], "deny": [str]} as far as it is given. Raises ProtocolError without a text
    (the connection is closed without a word) where Go would fail; `holder` is the struct's name there.
    """
    found: dict[str, Any] = {}
    for key, value in _decode_object(raw, holder).given():
        kind = fields.get(key)
        if kind is not None:
            found[key] = _typed(value, kind, key, holder)
    return found


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with all of its keys, in order: each one's type counts, the last one's value."""

    def given(self) -> Iterator[tuple[str, Any]]:
        """Keys as Go compares them, and values; a null means the key was not given."""
        return ((_folded(name), value) for name, value in self if value is not None)


def _folded(name: str) -> str:
    return (name if name.isascii() else name.translate(_FOLDED)).lower()


class _Float(float):
    """A number that is no integer; shown as it was written."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def _decode_object(raw: bytes, holder: str) -> _Pairs:
    text = raw.decode("utf-8", "replace")
    try:
        found = _DECODER.decode(text)
    except (ValueError, RecursionError):
        raise ProtocolError("", detail=syntax_fault(raw) or "exceeded max depth") from None
    if found is None:
        return _Pairs()
    _require(isinstance(found, _Pairs), found, f"server.{holder}")
    pairs: _Pairs = found
    return pairs


def _refuse(constant: str) -> None:
    raise ValueError(constant)


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_Pairs, parse_constant=_refuse, parse_float=_Float)


def _typed(value: Any, kind: Kind, key: str, holder: str) -> Any:
    if kind == TEXT:
        _require(isinstance(value, str), value, "string", key, holder)
        return _LONE_SURROGATE.sub("\ufffd", value)  # as Go reads them
    if kind == BOOLEAN:
        _require(isinstance(value, bool), value, "bool", key, holder)
        return value
    if kind == TEXTS:
        return _texts(value, key, holder)
    if isinstance(kind, tuple):
        wanted, least, most = kind
        _require(_is_number(value, least, most), value, wanted, key, holder)
        return value
    _require(isinstance(value, _Pairs), value, kind, key, holder)
    return {
        name: _texts(found, f"{key}.{name}", "SubjectPermission")
        for name, found in value.given()
        if name in ("allow", "deny")
    }


def _texts(value: Any, key: str, holder: str) -> list[str]:
    _require(type(value) is list, value, "[]string", key, holder)
    for entry in value:
        _require(entry is None or isinstance(entry, str), entry, "string", key, holder)
    return [_LONE_SURROGATE.sub("\ufffd", entry or "") for entry in value]


def _is_number(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _require(condition: bool, value: Any, wanted: str, field: str = "", holder: str = "") -> None:
    if not condition:
        given = {} if isinstance(value, _Pairs) else value
        raise ProtocolError("", detail=_type_fault(given, wanted, field, holder))


def _type_fault(value: Any, wanted: str, field: str, holder: str) -> str:
    """A value of another type than its field of this holder has; an empty holder: the value is the whole."""
    given = _KINDS.get(type(value), "number")
    if given == "number" and wanted.lstrip("u").startswith("int"):
        given = f"number {value}"
    place = f"struct field {holder}.{field}" if holder else "value"
    return f"json: cannot unmarshal {given} into Go {place} of type {wanted}"
