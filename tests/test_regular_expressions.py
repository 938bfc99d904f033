"""No regular expression costs more than linear time, whatever text it sees."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jetbroker.forms import gotext
from jetbroker.routing import placeholders
from tests.support.ambiguity import fault

ROOT = Path(__file__).resolve().parent.parent
CALL = re.compile(r"\bre\.(?:compile|match|fullmatch|search|sub|subn|split|findall|finditer)\(")
NAMED = re.compile(r"^(\w+)(?:: Final)? = re\.compile\(", re.MULTILINE)

# calls elsewhere: how many, and what they compile from texts of the broker's own
UNNAMED: dict[str, tuple[int, Callable[[], list[re.Pattern[Any]]]]] = {
    "jetbroker.forms.gotext": (1, lambda: [pattern for _, pattern in gotext._PARTS]),
    "jetbroker.routing.placeholders": (3, lambda: list(placeholders._marks())),
    "jetbroker.config.origins": (1, lambda: [re.compile("[/?]")]),
}


def patterns() -> Iterator[Any]:
    """Those of all modules, as parameters of a test: the pattern, and how its module uses it."""
    for path in sorted((ROOT / "jetbroker").rglob("*.py*")):
        if path.suffix not in (".py", ".pyx"):
            continue
        text = path.read_text()
        calls, names = len(CALL.findall(text)), NAMED.findall(text)
        if not calls:
            continue
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        assert calls == len(names) + UNNAMED.get(module, (0,))[0], f"{module}: a call of re that this test does not see"
        for name in names:
            uses = set(re.findall(rf"\b{name}\.(\w+)\(", text))
            pattern = getattr(importlib.import_module(module), name)
            yield pytest.param(
                pattern, not uses <= {"match", "fullmatch"}, uses == {"fullmatch"}, id=f"{module}.{name}"
            )
        if module in UNNAMED:
            for number, pattern in enumerate(UNNAMED[module][1]()):
                yield pytest.param(pattern, module != gotext.__name__, False, id=f"{module}-{number}")


@pytest.mark.parametrize(("pattern", "searched", "whole"), list(patterns()))
def test_a_pattern_is_linear(pattern: re.Pattern[Any], searched: bool, whole: bool) -> None:
    assert not fault(pattern, searched=searched, whole=whole)


@pytest.mark.parametrize(
    ("pattern", "searched", "expected"),
    [
        ("(a+)+b", False, "a repeat in a repeat"),
        ("(?:[0-9]{1,9}){1,9}b", False, "two ways around"),
        ("(?:ab|[ab]b)*d", False, "two ways around"),
        ("(?:ab|a|b)*c", False, "two ways around"),
        (r"\s*x?\s*y", False, "two repeats of the same"),
        (r"\w+-?\d+;", False, "two repeats of the same"),
        (r"a{2,50}a{2,50}b", False, "two repeats of the same"),
        (r"\{\{[^}]+\}\}", True, "a search that begins many times"),
        (r"\s+$", True, "a search that begins many times"),
        (r"\{\{[^{}]+\}\}", True, ""),
        (r"\{\{[^}]+\}\}", False, ""),
        (r"[0-9]+", True, ""),
        (r"[ \t]*", True, ""),
        (r"[0-9]+(?:\.[0-9]+)?", False, ""),
    ],
)
def test_the_check_tells_linear_patterns_from_others(pattern: str, searched: bool, expected: str) -> None:
    assert fault(re.compile(pattern), searched=searched) == expected
