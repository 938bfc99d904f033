"""A pydantic model as the columns of payloads: its fields are the columns, it says which payloads validate."""

from __future__ import annotations

import importlib.util
import types
import typing
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from jetbroker.errors import StoreReadError
from jetbroker.limits import TYPED_COLUMNS, TYPED_DEPTH
from jetbroker.tables.column_types import MAX_PRECISION, ColumnType, Field

if typing.TYPE_CHECKING:
    from pydantic import BaseModel

# bool is an int, and datetime a date: what is narrower comes first
SIMPLE: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),
    (int, "long"),
    (float, "double"),
    (str, "string"),
    (UUID, "string"),
    (bytes, "binary"),
    (datetime, "timestamp"),
    (date, "date"),
)
DEFAULT_SCALE = 18  # places of a Decimal whose field does not limit them, as in Spark
ARRAYS = (list, set, frozenset, tuple)


def load_model(name: str) -> type[BaseModel]:
    """The model that `package.module:Name` stands for. Raises StoreReadError when there is none."""
    need_pydantic()
    module_name, colon, path = name.partition(":")
    if not colon or not module_name or not path:
        raise StoreReadError(f"model: {name!r} names no class: write package.module:Class")
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:  # a module may raise anything while it is imported
        raise StoreReadError(
            f"model: module {module_name!r} cannot be imported ({type(error).__name__}: {error}); it has to be on "
            "Python's path (PYTHONPATH)"
        ) from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise StoreReadError(f"model: module {module_name!r} has no {path!r}")
        found = getattr(found, part)
    return checked(found, name)


def checked(found: Any, name: str = "") -> type[BaseModel]:
    """What was given as a model, if it is one. Raises StoreReadError."""
    need_pydantic()
    from pydantic import BaseModel, RootModel

    if not isinstance(found, type) or not issubclass(found, BaseModel):
        raise StoreReadError(f"model: {name or found!r} is no pydantic model (a class made of pydantic.BaseModel)")
    if issubclass(found, RootModel):
        raise StoreReadError(f"model: {name or found!r} is a RootModel, which has no fields to make columns of")
    return found


def need_pydantic() -> None:
    """Raises StoreReadError when it is not there."""
    if importlib.util.find_spec("pydantic") is None:
        raise StoreReadError("model: this needs pydantic: pip install pydantic")


def fields_of(model: type[BaseModel]) -> tuple[Field, ...]:
    """The columns of a model. Raises StoreReadError for a field that has no type of a column."""
    return _fields(model, model.__name__, 0)


def _fields(model: type[BaseModel], place: str, depth: int) -> tuple[Field, ...]:
    if len(model.model_fields) > TYPED_COLUMNS or not model.model_fields:
        raise StoreReadError(f"model: {place} has {len(model.model_fields)} fields, 1 to {TYPED_COLUMNS} will do")
    fields = []
    for name, info in model.model_fields.items():
        found = _type(info.annotation, f"{place}.{name}", depth, info.metadata)
        fields.append(Field((name,), found, name))
    return tuple(fields)


def _type(annotation: Any, place: str, depth: int, metadata: typing.Sequence[Any] = ()) -> ColumnType:
    """The column type of an annotation; what may be None is what it is otherwise, since every column may be null."""
    if depth > TYPED_DEPTH:
        raise StoreReadError(f"model: {place} is nested more than {TYPED_DEPTH} deep, or within itself")
    if hasattr(annotation, "__supertype__"):  # NewType
        return _type(annotation.__supertype__, place, depth, metadata)
    if hasattr(annotation, "__value__"):  # type X = ...
        return _type(annotation.__value__, place, depth, metadata)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type(arguments[0], place, depth, [*metadata, *arguments[1:]])
    if origin in (typing.Union, types.UnionType):
        arguments = tuple(argument for argument in arguments if argument is not type(None))
        return _common([_type(argument, place, depth, metadata) for argument in arguments], annotation, place)
    if origin is typing.Literal:
        return _common(
            [_type(type(value), place, depth) for value in arguments if value is not None], annotation, place
        )
    if origin in ARRAYS and arguments:
        arguments = tuple(argument for argument in arguments if argument is not Ellipsis)
        items = [_type(argument, place, depth + 1) for argument in arguments]
        return ColumnType("array", item=_common(items, annotation, place))
    if origin is dict and arguments[0] is str:
        return ColumnType("map", item=_type(arguments[1], place, depth + 1))
    if isinstance(annotation, type) and origin is None:
        return _class(annotation, place, depth, metadata)
    raise _no_column(annotation, place)


def _class(annotation: type, place: str, depth: int, metadata: typing.Sequence[Any]) -> ColumnType:
    from pydantic import BaseModel, RootModel

    if issubclass(annotation, Enum):
        return _common([_type(type(member.value), place, depth) for member in annotation], annotation, place)
    if issubclass(annotation, BaseModel) and not issubclass(annotation, RootModel):
        return ColumnType("struct", fields=_fields(annotation, place, depth + 1))
    if issubclass(annotation, Decimal):
        return _decimal(metadata, place)
    for kind, name in SIMPLE:
        if issubclass(annotation, kind):
            return ColumnType(name)
    raise _no_column(annotation, place)


def _decimal(metadata: typing.Sequence[Any], place: str) -> ColumnType:
    digits = next(
        (item.max_digits for item in metadata if getattr(item, "max_digits", None) is not None), MAX_PRECISION
    )
    found = next((item.decimal_places for item in metadata if getattr(item, "decimal_places", None) is not None), None)
    places = min(DEFAULT_SCALE, digits) if found is None else found
    if not 1 <= digits <= MAX_PRECISION or not 0 <= places <= digits:
        raise StoreReadError(f"model: {place}: a decimal column has 1 to {MAX_PRECISION} digits")
    return ColumnType("decimal", digits, places)


def _common(found: list[ColumnType], annotation: Any, place: str) -> ColumnType:
    if not found or any(other != found[0] for other in found):
        raise _no_column(annotation, place)
    return found[0]


def _no_column(annotation: Any, place: str) -> StoreReadError:
    return StoreReadError(
        f"model: {place} is {annotation}, which no column can hold; there are str, bool, int, float, Decimal, "
        "datetime, date, bytes, UUID, enums, lists of these, dicts with keys of str, and models"
    )
