"""Does a regular expression cost time linear in the text? Python's matcher tries every way before it gives up.

A pattern becomes its position automaton: each character class in it is a state, and edges lead to those that may come
next. Text that leads from a state back to it in two ways costs exponential time. Text that leads from one state back to
it, from there to another one, and from that back to itself costs quadratic time; a search begins with such a state,
as it may begin anywhere.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from re import _compiler as compiler  # type: ignore[attr-defined]
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

_SYMBOLS = [chr(code) for code in (*range(256), 0x100, 0xE000, 0xDC80)]
_MANY = 20  # a repeat of more, or of repeats, is seen as one without end
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)


class _Part(NamedTuple):
    """What a piece of a pattern may begin and end with; it cannot fail behind `sure`."""

    nullable: bool
    first: list[int]
    last: list[int]
    sure: list[int]
    may_fail: bool = False  # by an anchor or a look ahead, where it is empty


_EMPTY = _Part(True, [], [], [])


class _Automaton:
    def __init__(self, pattern: re.Pattern[Any]) -> None:
        self.flags = pattern.flags
        self.classes: list[frozenset[str]] = []
        self.edges: list[set[int]] = []
        self.doubled: set[int] = set()  # states that one step leads to in two ways
        self.whole = self._sequence(parser.parse(pattern.pattern, pattern.flags))

    def add_search(self) -> int:
        """The state before a match; paths through those behind which nothing can fail are left out."""
        self.classes.append(frozenset(_SYMBOLS))
        start = len(self.edges)
        sure = set(self.whole.sure)
        self.edges = [edges - sure for edges in self.edges]
        self.edges.append({start, *self.whole.first} - sure)
        return start

    def _state(self, code: Any, value: Any) -> _Part:
        item = parser.SubPattern(parser.State(), [(code, value)])
        matches = compiler.compile(item, self.flags & (re.IGNORECASE | re.DOTALL | re.UNICODE)).match
        self.classes.append(frozenset(symbol for symbol in _SYMBOLS if matches(symbol)))
        self.edges.append(set())
        state = len(self.edges) - 1
        return _Part(False, [state], [state], [state])

    def _follow(self, before: _Part, after: _Part) -> None:
        for left, right in itertools.product(before.last, after.first):
            if right in self.edges[left]:
                self.doubled.add(right)
            self.edges[left].add(right)

    def _sequence(self, items: Iterable[tuple[Any, Any]]) -> _Part:
        whole = _EMPTY
        for code, value in items:
            whole = self._then(whole, self._item(code, value))
        return whole

    def _then(self, whole: _Part, part: _Part) -> _Part:
        self._follow(whole, part)
        return _Part(
            whole.nullable and part.nullable,
            whole.first + part.first if whole.nullable else whole.first,
            whole.last + part.last if part.nullable else part.last,
            whole.sure + part.sure if part.nullable and not part.may_fail else part.sure,
            whole.may_fail or part.may_fail,
        )

    def _item(self, code: Any, value: Any) -> _Part:
        if code in _REPEATS:
            return self._repeat(*value)
        if code is codes.SUBPATTERN:
            return self._sequence(value[-1])
        if code is codes.ATOMIC_GROUP:
            return self._sequence(value)
        if code is codes.BRANCH:
            parts = [self._sequence(branch) for branch in value[1]]
            return _Part(
                any(part.nullable for part in parts),
                [state for part in parts for state in part.first],
                [state for part in parts for state in part.last],
                [state for part in parts for state in part.sure],
                any(part.may_fail for part in parts),
            )
        if code in (codes.AT, codes.ASSERT, codes.ASSERT_NOT):
            return _Part(True, [], [], [], may_fail=True)
        return self._state(code, value)

    def _repeat(self, least: int, most: int, items: list[Any]) -> _Part:
        if most > (1 if "_REPEAT" in str(items) else _MANY):
            once = self._sequence(items)
            self._follow(once, once)
            return once._replace(nullable=once.nullable or least == 0)
        whole = _EMPTY
        for number in range(most):
            once = self._sequence(items)
            whole = self._then(whole, once._replace(nullable=once.nullable or number >= least))
        return whole


def fault(pattern: re.Pattern[Any], *, searched: bool, whole: bool = False) -> str:
    """Why this pattern is not linear; empty when it is. `whole`: it is used by fullmatch alone."""
    automaton = _Automaton(pattern)
    if whole:
        automaton.whole = automaton.whole._replace(sure=[], may_fail=True)
    on_cycles = [state for state in range(len(automaton.edges)) if _reach(automaton, (state,), (state,))]
    if automaton.doubled.intersection(on_cycles):
        return "a repeat in a repeat"
    for state in on_cycles:
        if _reach(automaton, (state, state), (state, state), apart=True):
            return "two ways around"
    if searched and not (automaton.whole.nullable and not automaton.whole.may_fail):
        start = automaton.add_search()
        if any(_reach(automaton, (start, start, state), (start, state, state)) for state in on_cycles):
            return "a search that begins many times"
    for left, right in itertools.permutations(on_cycles, 2):
        if right not in automaton.whole.sure and _reach(automaton, (left, left, right), (left, right, right)):
            return "two repeats of the same"
    return ""


def _reach(automaton: _Automaton, begin: tuple[int, ...], end: tuple[int, ...], apart: bool = False) -> bool:
    """Does one text lead from each of these states to the one at the same place? `apart`: by different ways."""
    edges, classes = automaton.edges, automaton.classes
    waiting, seen = [(begin, not apart)], {(begin, not apart)}
    while waiting:
        states, differed = waiting.pop()
        for following in itertools.product(*(edges[state] for state in states)):
            if not frozenset.intersection(*(classes[state] for state in following)):
                continue
            found = (following, differed or len(set(following)) > 1)
            if found == (end, True):
                return True
            if found not in seen:
                seen.add(found)
                waiting.append(found)
    return False
