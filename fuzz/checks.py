"""What all targets share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random


class Wrong(AssertionError):
    """An answer is not what it has to be."""


@dataclass(frozen=True)
class Target:
    """`check` takes any bytes at all; `generate` makes such that get far.

    `burst`, where there is one, makes and plays so many inputs of a seed of 64 bits in compiled code, and returns those
    that showed something wrong.
    """

    name: str
    generate: Callable[[Random], bytes]
    check: Callable[[bytes], None]
    burst: Callable[[int, int], list[bytes]] | None = None
    may_end_the_process: bool = False


def require(condition: bool, *what: object) -> None:
    """Raises Wrong, which tells `what`."""
    if not condition:
        raise Wrong(" ".join(map(str, what)))
