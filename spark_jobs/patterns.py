"""What two subject patterns have in common, and which streams a pattern of names means."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import zip_longest


def intersection(left: str, right: str) -> str | None:
    """The pattern of the subjects that match both, "" for all; None when there are none.

    Two patterns have a pattern in common, or nothing: each token is a word, any word (`*`), or the rest (`>`).
    """
    if not left or not right:
        return left or right
    tokens: list[str] = []
    mine, theirs = left.split("."), right.split(".")
    for at, (one, other) in enumerate(zip_longest(mine, theirs)):
        if one is None or other is None:
            return None
        if one == ">":
            return ".".join([*tokens, *theirs[at:]])
        if other == ">":
            return ".".join([*tokens, *mine[at:]])
        if one != other and "*" not in (one, other):
            return None
        tokens.append(other if one == "*" else one)
    return ".".join(tokens)


def named_by(wanted: str, there: Iterable[str]) -> list[str]:
    """The names among `there` that `wanted` means: one, several with commas, `*` for any characters.

    A name that is not there stays as it is, a pattern that means none is left out.
    """
    there = list(there)
    if wanted in there:
        return [wanted]
    found: dict[str, None] = {}
    for word in filter(None, (word.strip() for word in wanted.split(","))):
        if "*" in word and word not in there:
            pattern = re.compile(".*".join(map(re.escape, word.split("*"))), re.DOTALL)
            found.update(dict.fromkeys(name for name in there if pattern.fullmatch(name)))
        else:
            found[word] = None
    return list(found)
