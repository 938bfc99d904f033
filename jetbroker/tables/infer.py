"""What columns payloads have, by a sample of them: as a pydantic model to paste, and as the text of `json=`."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from jetbroker.limits import TYPED_COLUMNS, TYPED_DEPTH
from jetbroker.tables import ddl
from jetbroker.tables.column_types import ColumnType, Field

INT64 = 2**63
MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?")
DAY = re.compile(r"\d{4}-\d\d-\d\d")
WORD = re.compile(r"[A-Za-z0-9]+")
NO_LETTER = re.compile(r"[^A-Za-z0-9_]")
PYTHON_TYPES = {"boolean": "bool", "long": "int", "double": "float", "string": "str", "timestamp": "datetime",
                "date": "date", "binary": "bytes"}  # fmt: skip
WIDER = {frozenset({"long", "double"}): "double", frozenset({"string", "timestamp"}): "string",
         frozenset({"string", "date"}): "string", frozenset({"date", "timestamp"}): "string"}  # fmt: skip


@dataclass
class Shape:
    """What was seen in one place. `kind`: "" for nothing but nulls, "mixed" for what no column can hold."""

    kind: str = ""
    seen: int = 0
    nulls: int = 0
    members: dict[str, Shape] = field(default_factory=dict)
    item: Shape | None = None

    def add(self, value: Any, depth: int = 0) -> None:
        """One more value."""
        self.seen += 1
        if value is None:
            self.nulls += 1
            return
        kind = _kind(value)
        if kind == "struct" and (depth >= TYPED_DEPTH or len(self.members.keys() | value.keys()) > TYPED_COLUMNS):
            kind = "mixed"
        if kind == "array" and depth >= TYPED_DEPTH:
            kind = "mixed"
        self.kind = kind if self.kind in ("", kind) else WIDER.get(frozenset({self.kind, kind}), "mixed")
        if self.kind == "struct":
            for name, each in value.items():
                self.members.setdefault(name, Shape()).add(each, depth + 1)
        elif self.kind == "array":
            self.item = self.item or Shape()
            for each in value:
                self.item.add(each, depth + 1)

    def fits(self) -> bool:
        """Can a column hold it?"""
        if self.kind == "struct":
            return any(member.fits() for member in self.members.values())
        return self.kind != "mixed" and (self.item is None or self.item.fits())


@dataclass
class Sample:
    """`shape` of the payloads that are objects; `others` are not."""

    shape: Shape
    others: int


def sample(payloads: Iterable[bytes], load: Callable[[bytes], Any]) -> Sample:
    """Look at payloads. `load` makes an object of one, or raises ValueError."""
    found = Sample(Shape(), 0)
    for payload in payloads:
        try:
            value = load(payload)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            found.shape.add(value)
        else:
            found.others += 1
    return found


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "long" if -INT64 <= value < INT64 else "double"
    if isinstance(value, str):
        if MOMENT.fullmatch(value) and _reads(datetime.fromisoformat, value):
            return "timestamp"
        return "date" if DAY.fullmatch(value) and _reads(date.fromisoformat, value) else "string"
    names: dict[type, str] = {float: "double", bytes: "binary", datetime: "timestamp", dict: "struct", list: "array"}
    return names.get(type(value), "mixed")


def _reads(reader: Callable[[str], Any], text: str) -> bool:
    try:
        reader(text)
    except ValueError:
        return False
    return True


def text_of(shape: Shape) -> str:
    """The text for `json=`: what it cannot name (arrays of objects, maps) is left out."""
    named: dict[str, Field] = {}
    for found in _leaves(shape, ()):
        if len(named) < TYPED_COLUMNS:
            named.setdefault(found.column, found)
    return ddl.text_of(tuple(named.values()))


def _leaves(shape: Shape, path: tuple[str, ...]) -> Iterator[Field]:
    for name, member in shape.members.items():
        if not name or "`" in name:
            continue
        place = (*path, name)
        if member.kind == "struct":
            yield from _leaves(member, place)
        elif (found := _column(member)) is not None:
            yield Field(place, found, "_".join(place))


def _column(shape: Shape) -> ColumnType | None:
    if shape.kind == "array":
        item = _column(shape.item or Shape())
        return None if item is None else ColumnType("array", item=item)
    return None if shape.kind in ("mixed", "struct") else ColumnType(shape.kind or "string")


def model_of(shape: Shape, name: str) -> str:
    """The source of a pydantic model, those of nested objects before it."""
    classes: dict[str, list[str]] = {}
    _class(shape, _camel(name), classes, {*_TAKEN, *_keys(shape)})
    body = "\n\n\n".join("\n".join(lines) for lines in classes.values())
    annotations = (line.partition(": ")[2].partition("=")[0] for line in body.splitlines())
    used = {word for annotation in annotations for word in WORD.findall(annotation)}
    names = [name for name in ("date", "datetime") if name in used]
    head = [f"from datetime import {', '.join(names)}"] if names else []
    needed = "BaseModel, Field" if "Field(" in body else "BaseModel"
    return "\n".join([*head, *([""] if head else []), f"from pydantic import {needed}", "", "", body])


def _keys(shape: Shape) -> Iterator[str]:
    """What fields are called: a class of the same name would be hidden by them."""
    for key, member in shape.members.items():
        yield key
        yield from _keys(member)
    if shape.item is not None:
        yield from _keys(shape.item)


def _class(shape: Shape, wanted: str, classes: dict[str, list[str]], taken: set[str]) -> str:
    """Puts a class, and those that it needs before it, into `classes`; returns its name."""
    lines: list[str] = []
    names: set[str] = set()
    for key, member in shape.members.items():
        if not member.fits():
            lines.append(f"    # {key!a}: values of several types, which no column can hold")
            continue
        annotation = _annotation(member, _camel(key), classes, taken)
        absent = member.nulls > 0 or member.seen < shape.seen - shape.nulls
        name = _unique(_field_name(key), names)
        alias = "" if name == key else f"alias={key!a}"
        if absent:
            annotation += " | None"
            default = f" = Field(default=None, {alias})" if alias else " = None"
        else:
            default = f" = Field({alias})" if alias else ""
        lines.append(f"    {name}: {annotation}{default}")
    if not names:
        lines.append("    pass")
    name = _unique(wanted, taken)
    classes[name] = [f"class {name}(BaseModel):", *lines]
    return name


def _annotation(shape: Shape, name: str, classes: dict[str, list[str]], taken: set[str]) -> str:
    if shape.kind == "struct":
        return _class(shape, name, classes, taken)
    if shape.kind == "array":
        item = shape.item or Shape()
        return f"list[{_annotation(item, name, classes, taken)}{' | None' if item.nulls else ''}]"
    return PYTHON_TYPES[shape.kind or "string"]


def _camel(name: str) -> str:
    words = WORD.findall(name)
    joined = "".join(word.capitalize() if word.isupper() else word[0].upper() + word[1:] for word in words)
    return joined if joined and not joined[0].isdigit() else f"Model{joined}"


_TAKEN = frozenset({"BaseModel", "Field", "None", "True", "False"})
# a field of this name would hide what its neighbours' types are called
_HIDDEN = frozenset({"date", "datetime", "list", *PYTHON_TYPES.values(), *_TAKEN})


def _field_name(key: str) -> str:
    from pydantic import BaseModel

    taken = keyword.iskeyword(key) or hasattr(BaseModel, key) or key.startswith("model_") or key in _HIDDEN
    if key.isascii() and key.isidentifier() and not key.startswith("_") and not taken:
        return key
    return "field_" + (NO_LETTER.sub("_", key).strip("_") or "value")


def _unique(name: str, taken: set[str]) -> str:
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}{number}"
    taken.add(found)
    return found
