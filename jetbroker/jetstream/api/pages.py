"""Pages of long lists, made in turns and bounded in bytes."""

import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

import orjson

from jetbroker import limits
from jetbroker.jetstream.streams.stream import Stream
from jetbroker.store.log.stream_log import SubjectFilter, SubjectState
from jetbroker.turns import Turn
from jetbroker.wire.subjects import subset, wildcard

T = TypeVar("T")
_MISSING = 1  # READ_MISSING of the log
_PIECE = 1024  # entries looked at between two looks at the clock
_SEQUENCES_PER_PIECE = 16_384  # looked through for a subject between two looks at the clock
_SORTED_AT_ONCE = 4096  # a millisecond


async def page_of(rows: Iterable[dict[str, Any] | None]) -> list[orjson.Fragment]:
    """Rows as JSON; a page ends early where its bytes would become too many, and has one row at least.

    None among the rows is a step on the way to the next one.
    """
    page: list[orjson.Fragment] = []
    room = limits.JS_PAGE_BYTES
    turn = Turn()
    for row in rows:
        if row is None:
            await turn.rest()
            continue
        text = orjson.dumps(row)
        room -= len(text)
        if room < 0 and page:
            break
        page.append(orjson.Fragment(text))
        await turn.rest()
    return page


async def subjects_page(stream: Stream, pattern: str, offset: int, limit: int) -> tuple[dict[str, int], int]:
    """Live subjects that match, sorted, from `offset` on: message counts by subject, and how many match in all."""
    turn = Turn()
    counts: dict[bytes, int] = {}
    for piece in _matching(stream, pattern.encode()):
        counts.update((state.subject, state.count) for state in piece)
        await turn.rest()
    subjects: dict[str, int] = {}
    for names in _pieces(await _sorted_page(list(counts), offset, limit, turn)):
        subjects.update((subject.decode("utf-8", "replace"), counts[subject]) for subject in names)
        await turn.rest()
    return subjects, len(counts)


async def last_of(stream: Stream, pattern: str) -> int:
    """The sequence of the last message that matches, 0: none. It is there, whatever has become of others meanwhile."""
    turn = Turn()
    while True:
        newest: SubjectState | None = None
        for piece in _matching(stream, pattern.encode()):
            found = [state for state in (*piece, newest) if state is not None and state.count]
            newest = max(found, key=lambda state: state.last, default=None)
            await turn.rest()
        if newest is None or newest.count:
            return 0 if newest is None else newest.last


async def first_of(stream: Stream, pattern: str, start: int) -> tuple[int, int, bytes, bytes, bytes, int]:
    """The first message that matches from `start` on, as `read_next` of the log tells it."""
    turn = Turn()
    wanted = SubjectFilter(pattern.encode())
    last = stream.log.last_seq
    while start <= last:
        start = max(start, stream.log.first_seq, 1)
        end = min(start + _SEQUENCES_PER_PIECE - 1, last)
        found = stream.log.read_next(wanted, start, end)
        if found[0] != _MISSING:
            return found
        start = end + 1
        await turn.rest()
    return _MISSING, 0, b"", b"", b"", 0


def _matching(stream: Stream, wanted: bytes) -> "Iterator[list[SubjectState]]":
    """The live subjects that match, in pieces."""
    narrow = wildcard(wanted) and wanted != b">"
    for piece in _pieces(stream.log.matching_subjects(b">" if narrow else wanted)):
        yield [state for state in piece if not narrow or subset(state.subject, wanted)]


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
