"""Reads what `go test -json`, pytest and the scenarios report."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

OK = "ok - "
NOT_OK = "not ok - "
# UUIDs, which some projects put into the names of their tests.
GENERATED = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class Outcome:
    """The names of the tests that passed and of those that failed; skipped ones are in neither."""

    passed: frozenset[str]
    failed: frozenset[str]


def _numbered(names: Iterable[str]) -> frozenset[str]:
    """Names that two runs share: generated parts are left out, and names that are the same then get a number."""
    seen: Counter[str] = Counter()
    numbered = set()
    for name in names:
        plain = GENERATED.sub("*", name)
        seen[plain] += 1
        numbered.add(plain if seen[plain] == 1 else f"{plain} ({seen[plain]})")
    return frozenset(numbered)


def _outcome(results: Iterable[tuple[str, bool]]) -> Outcome:
    """A name that failed once has failed."""
    good: dict[str, bool] = {}
    for name, passed in results:
        good[name] = passed and good.get(name, True)
    return Outcome(_numbered(name for name in good if good[name]), _numbered(name for name in good if not good[name]))


def _go_events(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        # what a test writes on stderr comes between the events
        if line.startswith("{"):
            yield json.loads(line)


def from_go(text: str) -> Outcome:
    """The outcome in the events of `go test -json`.

    A test that began and did not end (a panic, a timeout) has failed, and so has a package that failed without a
    failed test, such as one that does not compile. Raises json.JSONDecodeError for a line that is cut.
    """
    results: dict[str, bool | None] = {}
    for event in _go_events(text.splitlines()):
        package, test, action = event.get("Package", ""), event.get("Test"), event["Action"]
        folder = package.rsplit("/", 1)[-1]
        if test is None:
            inside = [good for name, good in results.items() if name.startswith(f"{folder}: ")]
            if action == "fail" and all(inside):
                results[f"{folder}: the package"] = False
            continue
        name = f"{folder}: {test}"
        if action in ("run", "pass", "fail"):
            results[name] = {"run": None, "pass": True, "fail": False}[action]
        elif action == "skip":
            results.pop(name, None)
    return _outcome((name, good is True) for name, good in results.items())


def from_junit(text: str) -> Outcome:
    """The outcome in a file that `pytest --junitxml` wrote. Raises ElementTree.ParseError for a file that is none."""
    results = []
    for case in ElementTree.fromstring(text).iter("testcase"):
        if case.find("skipped") is None:
            good = case.find("failure") is None and case.find("error") is None
            results.append((f"{case.get('classname')}: {case.get('name')}", good))
    return _outcome(results)


def from_scenario(text: str) -> Outcome:
    """The outcome in the lines `ok - NAME` and `not ok - NAME: why` of a scenario."""
    results = []
    for line in text.splitlines():
        if line.startswith(OK):
            results.append((line.removeprefix(OK), True))
        elif line.startswith(NOT_OK):
            results.append((line.removeprefix(NOT_OK).split(": ")[0], False))
    return _outcome(results)
