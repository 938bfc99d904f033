"""Pages of long lists, made in turns and bounded in bytes."""

import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from jetbroker import limits
from jetbroker.turns import Turn
from jetbroker.wire.subjects import subset, wildcard

if TYPE_CHECKING:
    from jetbroker.jetstream.stream import Stream

T = TypeVar("T")
_PIECE = 1024  # entries looked at between two looks at the clock
_SORTED_AT_ONCE = 4096  # a millisecond


async def page_of(rows: Iterable[dict[str, Any]]) -> list[orjson.Fragment]:
    """Rows as JSON; a page ends early where its bytes would become too many, and has one row at least."""
    page: list[orjson.Fragment] = []
    room = limits.JS_PAGE_BYTES
    turn = Turn()
    for row in rows:
        text = orjson.dumps(row)
        room -= len(text)
        if room < 0 and page:
            break
        page.append(orjson.Fragment(text))
        await turn.rest()
    return page


async def subjects_page(stream: "Stream", pattern: str, offset: int, limit: int) -> tuple[dict[str, int], int]:
    """Live subjects that match, sorted, from `offset` on: message counts by subject, and how many match in all."""
    turn = Turn()
    wanted = pattern.encode()
    narrow = wildcard(wanted) and wanted != b">"
    states = stream.log.matching_subjects(b">" if narrow else wanted)
    counts: dict[bytes, int] = {}
    for piece in _pieces(states):
        counts.update((state.subject, state.count) for state in piece if not narrow or subset(state.subject, wanted))
        await turn.rest()
    subjects: dict[str, int] = {}
    for piece in _pieces(await _sorted_page(list(counts), offset, limit, turn)):
        subjects.update((subject.decode("utf-8", "replace"), counts[subject]) for subject in piece)
        await turn.rest()
    return subjects, len(counts)


def _pieces(rows: list[T]) -> Iterator[list[T]]:
    rest = iter(rows)
    while piece := list(islice(rest, _PIECE)):
        yield piece


async def _sorted_page(names: list[bytes], offset: int, limit: int, turn: Turn) -> list[bytes]:
    """`sorted(names)[offset : offset + limit]`; many are divided by a sample of them, and only what is shown sorted."""
    if len(names) <= _SORTED_AT_ONCE:
        return sorted(names)[offset : offset + limit]
    bounds = sorted(random.sample(names, len(names) // _PIECE))
    parts: list[list[bytes]] = [[] for _ in range(len(bounds) + 1)]
    for piece in _pieces(names):
        for name in piece:
            parts[bisect_right(bounds, name)].append(name)
        await turn.rest()
    page: list[bytes] = []
    for part in parts:
        if offset >= len(part):
            offset -= len(part)
            continue
        page += sorted(part)[offset:]
        offset = 0
        await turn.rest()
        if len(page) >= limit:
            break
    return page[:limit]


def existing(names: Iterable[str], make: Callable[[str], dict[str, Any] | None]) -> Iterator[dict[str, Any]]:
    """What is made of each name; None, for one that is gone by then, is left out."""
    return (row for row in map(make, names) if row is not None)
