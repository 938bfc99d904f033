"""What all targets share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


class Wrong(AssertionError):
    """An answer is not what it has to be."""


@dataclass(frozen=True)
class Target:
    """`check` takes any bytes at all; `generate` makes such that get far."""

    name: str
    generate: Callable[[Random], bytes]
    check: Callable[[bytes], None]


def require(condition: bool, *what: object) -> None:
    """Raises Wrong, which tells `what`."""
    if not condition:
        raise Wrong(" ".join(map(str, what)))
