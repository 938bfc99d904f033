"""`dataclass` for the options, made without compiling anything.

The one of the standard library writes the source of three methods for each class and compiles it: for all options
together that costs a twentieth of a start. Here they are the same functions for all classes. To type checkers it is
the standard one (see :mod:`jetbroker.config.options`), and `dataclasses.fields`, `replace` and `asdict` work.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def dataclass(*, slots: bool) -> Callable[[type[T]], type[T]]:
    """A class decorator: `__init__`, `__eq__` and `__repr__` from the fields."""

    def decorate(cls: type[T]) -> type[T]:
        made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(cls)
        made.__init__ = _initializer(made)
        made.__eq__ = _equal
        made.__hash__ = None  # what can change has no hash
        made.__repr__ = _shown
        return made  # type: ignore[no-any-return]

    return decorate


def _initializer(cls: Any) -> Callable[..., None]:
    names = tuple(cls.__dataclass_fields__)
    plain: dict[str, Any] = {}
    factories: list[tuple[str, Callable[[], Any]]] = []
    for found in dataclasses.fields(cls):
        if found.default is not dataclasses.MISSING:
            plain[found.name] = found.default
        elif found.default_factory is not dataclasses.MISSING:
            factories.append((found.name, found.default_factory))
    count, known = len(names), frozenset(names)

    def initialize(self: object, *args: Any, **given: Any) -> None:
        if len(args) > count:
            raise TypeError(f"{cls.__name__} takes {count} values, {len(args)} were given")
        values = {**plain, **dict(zip(names, args, strict=False)), **given}
        for name, make in factories:
            if name not in values:
                values[name] = make()
        if values.keys() != known:
            wrong = values.keys() ^ known
            raise TypeError(f"{cls.__name__}: missing or unknown: {', '.join(sorted(wrong))}")
        for name in names:
            setattr(self, name, values[name])

    return initialize


def _equal(self: Any, other: Any) -> bool:
    same_fields = type(other) is type(self)
    return same_fields and all(getattr(self, name) == getattr(other, name) for name in self.__dataclass_fields__)


def _shown(self: Any) -> str:
    shown = [name for name, found in self.__dataclass_fields__.items() if found.repr]
    said = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{type(self).__qualname__}({said})"
