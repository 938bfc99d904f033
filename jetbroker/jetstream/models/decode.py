"""Dataclasses as JSON, with the semantics of Go's encoding/json.

A field says what it is by `json_field(kind, ...)`.  Reading is strict by default: unknown fields, wrong types and
numbers that do not fit are refused with Go's texts; keys match without regard to case; null leaves a value alone.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import orjson

from jetbroker.forms import gojson
from jetbroker.forms.gojson import JsonError, Number, TooLong
from jetbroker.forms.gotext import ZERO_TIME, Timestamp, parse_time, quoted

T = TypeVar("T")


class DecodeError(Exception):
    """The body does not decode. The message is Go's, without a prefix."""


class UnfitError(DecodeError):
    """A value of the wrong type or out of range."""

    def __init__(self, value: Any, go_type: str, where: "Place") -> None:
        super().__init__(f"json: cannot unmarshal {_found(value)} into Go {where} of type {go_type}")


@dataclasses.dataclass(frozen=True)
class Place:
    """Where in a document a value stands, as Go words it."""

    struct: str = ""
    path: str = ""

    def __str__(self) -> str:
        return f"struct field {self.struct}.{self.path}" if self.struct else "value"

    def field(self, struct: str, name: str) -> "Place":
        """The place of a field of `struct` below this one."""
        return Place(struct, f"{self.path}.{name}" if self.path else name)


def _found(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, Number | int | float):
        # Go tells the number only when a number was wanted; `of type` sorts that out in NumberKind.
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


class Kind:
    """How one type of value is read and written."""

    go_type = ""

    def read(self, value: Any, where: Place, old: Any, strict: bool) -> Any:
        """The decoded value; `old` is what the field held before. Raises DecodeError."""
        raise NotImplementedError

    def write(self, value: Any) -> Any:
        """What goes into the JSON."""
        return value

    def zero(self) -> Any:
        """The value of a field that was not given."""
        raise NotImplementedError


class TextKind(Kind):
    """A string."""

    go_type = "string"

    def read(self, value: Any, where: Place, old: Any, strict: bool) -> Any:
        if value is None:
            return old
        if not isinstance(value, str) or isinstance(value, Number):
            raise UnfitError(value, self.go_type, where)
        return value

    def zero(self) -> Any:
        return ""


class BoolKind(Kind):
    """A truth value."""

    go_type = "bool"

    def read(self, value: Any, where: Place, old: Any, strict: bool) -> Any:
        if value is None:
            return old
        if not isinstance(value, bool):
            raise UnfitError(value, self.go_type, where)
        return value

    def zero(self) -> Any:
        return False


class NumberKind(Kind):
    """An integer between two bounds."""

    def __init__(self, go_type: str, low: int, high: int) -> None:
        self.go_type = go_type
        self.low = low
        self.high = high

    def read(self, value: Any, where: Place, old: Any, strict: bool) -> Any:
        if value is None:
            return old
        if isinstance(value, bool) or not isinstance(value, Number | int | float):
            raise UnfitError(value, self.go_type, where)
        number: int | None = None
        if isinstance(value, int):
            number = value
        elif isinstance(value, Number) and len(value) <= 20 and value.lstrip("-").isdigit():
            number = int(value)
        if number is None or not self.low <= number <= self.high:
            raise DecodeError(f"json: cannot unmarshal number {value} into Go {where} of type {self.go_type}")
        return number

    def zero(self) -> Any:
        return 0


class EnumKind(Kind):
    """One of a few names. `refusal` words what is no such name, given the JSON text of the value."""

    def __init__(self, names: dict[str, str], zero: str, refusal: Callable[[str], str]) -> None:
        self.names = names
        self.first = zero
        self.refusal = refusal

    def read(self, value: Any, where: Place, old: Any, strict: bool) -> Any:
        known = isinstance(value, str) and not isinstance(value, Number)
        name = self.names.get(value) if known else None
        if name is None:
            raise DecodeError(self.refusal(_json_text(value)))
        return name

    def zero(self) -> Any:
        return self.first


class CheckedTextKind(TextKind):
    """One of a few names, read as a string first (so a number is an unfit value, null is empty)."""

    def __init__(self, names: dict[str, str], zero: str, refusal: str) -> None:
        self.names = names
        self.first = zero
        self.refusal = refusal

    def read(self, value: Any, where: Place, old: Any, strict: bool) -> Any:
        name = self.names.get(super().read(value, where, "", strict))
        if name is None:
            raise DecodeError(self.refusal)
        return name

    def zero(self) -> Any:
        return self.first


class TimeKind(Kind):
    """An optional point in time."""

    go_type = "time.Time"

    def read(self, value: Any, where: Place, old: Any, strict: bool) -> Any:
        if value is None:
            return None
        if not isinstance(value, str) or isinstance(value, Number):
            raise DecodeError("Time.UnmarshalJSON: input is not a JSON string")
        try:
            return parse_time(value)
        except ValueError as error:
            raise DecodeError(str(error)) from None

    def write(self, value: Any) -> Any:
        return str(value)

    def zero(self) -> Any:
        return None


class PlainTimeKind(TimeKind):
    """A point in time that is always there; not given it is the zero time."""

    def read(self, value: Any, where: Place, old: Any, strict: bool) -> Any:
        return old if value is None else super().read(value, where, old, strict)

    def zero(self) -> Any:
        return ZERO_TIME


_ONLY_TEXT = {str}


class ListKind(Kind):
    """A list of one kind; null and not given are both the empty list."""

    def __init__(self, item: Kind, item_type: str = "") -> None:
        self.item = item
        self.go_type = f"[]{item_type or item.go_type}"

    def read(self, value: Any, where: Place, old: Any, strict: bool) -> Any:
        if value is None:
            return []
        if not isinstance(value, list):
            raise UnfitError(value, self.go_type, where)
        if type(self.item) is TextKind and set(map(type, value)) <= _ONLY_TEXT:
            return value
        return [self.item.read(entry, where, self.item.zero(), strict) for entry in value]

    def write(self, value: Any) -> Any:
        if type(self.item) is TextKind:  # there may be very many, and each is written as it is
            return value
        return [self.item.write(entry) for entry in value]

    def zero(self) -> Any:
        return []


class MapKind(Kind):
    """One kind by string."""

    def __init__(self, item: Kind) -> None:
        self.item = item
        self.go_type = f"map[string]{item.go_type}"

    def read(self, value: Any, where: Place, old: Any, strict: bool) -> Any:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise UnfitError(value, self.go_type, where)
        return dict(old) | {key: self.item.read(entry, where, self.item.zero(), strict) for key, entry in value.items()}

    def write(self, value: Any) -> Any:
        return dict(sorted(value.items()))

    def zero(self) -> Any:
        return {}


class StructKind(Kind):
    """A dataclass. `optional`: not given and null are None."""

    def __init__(self, cls: type[Any], go_name: str, optional: bool = True) -> None:
        self.cls = cls
        self.go_name = go_name
        self.go_type = f"server.{go_name}"
        self.optional = optional

    def read(self, value: Any, where: Place, old: Any, strict: bool) -> Any:
        if value is None:
            return None if self.optional else old
        if not isinstance(value, dict):
            raise UnfitError(value, self.go_type, where)
        target = self.cls() if old is None else old
        fields = _fields(self.cls)
        for key, entry in value.items():
            field = fields.get(key) or fields.get(key.casefold())
            if field is None:
                if strict:
                    raise DecodeError(f"json: unknown field {quoted(key)}")
                continue
            owner = getattr(target, field.embedded) if field.embedded else target
            place = where.field(self.go_name, field.place)
            setattr(owner, field.name, field.kind.read(entry, place, getattr(owner, field.name), strict))
        return target

    def write(self, value: Any) -> Any:
        return to_json(value)

    def zero(self) -> Any:
        return None if self.optional else self.cls()


@dataclasses.dataclass(frozen=True)
class _Field:
    name: str
    kind: Kind
    place: str  # the name in Go's texts, with the embedded struct in front
    embedded: str = ""  # attribute that holds the embedded dataclass


def json_field(kind: Kind, *, always: bool = False, key: str = "") -> Any:
    """A dataclass field of this kind. `always`: written even when zero. `key`: its name in JSON, if another."""
    return dataclasses.field(default_factory=kind.zero, metadata={"kind": kind, "always": always, "key": key})


def embedded_field(cls: type[Any], go_name: str) -> Any:
    """A dataclass whose fields stand among those of the one that holds it."""
    return dataclasses.field(default_factory=cls, metadata={"embedded": go_name, "class": cls})


_FIELDS: dict[type[Any], dict[str, _Field]] = {}


def _fields(cls: type[Any]) -> dict[str, _Field]:
    """The fields of a dataclass by their JSON key, exact and case-folded."""
    found = _FIELDS.get(cls)
    if found is not None:
        return found
    found = _FIELDS[cls] = {}
    for field in dataclasses.fields(cls):
        if "embedded" in field.metadata:
            for key, inner in _fields(field.metadata["class"]).items():
                place = f"{field.metadata['embedded']}.{inner.place}"
                found[key] = dataclasses.replace(inner, place=place, embedded=field.name)
        elif "kind" in field.metadata:
            key = field.metadata["key"] or field.name
            found[key] = found[key.casefold()] = _Field(field.name, field.metadata["kind"], key)
    return found


def to_json(value: Any) -> dict[str, Any]:
    """A dataclass as nats-server writes it: fields in order, zero values left out unless they are always written."""
    out: dict[str, Any] = {}
    for field in dataclasses.fields(value):
        entry = getattr(value, field.name)
        if "embedded" in field.metadata:
            out.update(to_json(entry))
        elif "kind" in field.metadata:
            kind: Kind = field.metadata["kind"]
            if field.metadata["always"] or entry != kind.zero():
                out[field.metadata["key"] or field.name] = kind.write(entry)
    return out


def decode(cls: type[T], go_name: str, body: bytes, *, strict: bool = True) -> T:
    """`body` as a `cls`; an empty body gives an empty one, several values are read one over the other.

    Raises DecodeError.
    """
    kind = StructKind(cls, go_name, optional=False)
    if not body:
        return cls()
    refusal: DecodeError
    try:
        fast: T = kind.read(gojson.fast_value(body), Place(), cls(), strict)
        return fast
    except DecodeError as error:
        refusal = error
    except ValueError as error:  # orjson: no JSON, or JSON that only Go takes
        refusal = DecodeError(str(error))
    target = cls()
    try:
        for value in gojson.values(body):
            target = kind.read(value, Place(), target, strict)
    except TooLong:
        raise refusal from None
    except JsonError as error:
        raise DecodeError(str(error)) from None
    return target


def from_stored(cls: type[T], go_name: str, stored: Any) -> T:
    """What was stored as JSON, as a `cls`; fields of other releases are ignored. Raises DecodeError.

    The bounds of a request do not hold here: a stored form has more in it than the request that was taken.
    """
    found: T = StructKind(cls, go_name, optional=False).read(stored, Place(), cls(), False)
    return found


def _json_text(value: Any) -> str:
    """The JSON text of a value, as near to what the client wrote as is known."""
    if isinstance(value, Number):
        return str(value)
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:  # nested deeper than it will write
        return "..."


def _can_not_unmarshal(text: str) -> str:
    return f"can not unmarshal {quoted(text)}"


def enum(*names: str, refusal: Callable[[str], str] = _can_not_unmarshal, **aliases: str) -> EnumKind:
    """An enum of these names, the first one its zero; `aliases` are further names that are read as another one."""
    return EnumKind({name: name for name in names} | aliases, names[0], refusal)


TEXT = TextKind()
BOOL = BoolKind()
INT = NumberKind("int", -(2**63), 2**63 - 1)
INT32 = NumberKind("int32", -(2**31), 2**31 - 1)
INT64 = NumberKind("int64", -(2**63), 2**63 - 1)
UINT32 = NumberKind("uint32", 0, 2**32 - 1)
UINT64 = NumberKind("uint64", 0, 2**64 - 1)
DURATION = NumberKind("time.Duration", -(2**63), 2**63 - 1)
TIME = TimeKind()
PLAIN_TIME = PlainTimeKind()
TEXTS = ListKind(TEXT)
METADATA = MapKind(TEXT)

__all__ = ["DecodeError", "StructKind", "Timestamp", "decode", "embedded_field", "enum", "json_field", "to_json"]
