"""The pages under docs/ agree with the repository: links lead somewhere, and named tests exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jetbroker.config import loader

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])

LINK = re.compile(r"\]\((?!\w+://)([^)#\s]*)(?:#([^)\s]+))?\)")
CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CONFIGURATION = re.compile(r"^```\n(?![+$|])([^`]*\{[^`]*)^```$", re.MULTILINE)
NAMED_TEST = re.compile(r"`(?:tests/)?((?:\w+/)*test_\w+\.py)`")


def anchors(text: str) -> set[str]:
    """The names that headings get: lower case, blanks as dashes, other punctuation left out."""
    headings = re.findall(r"^#+ (.+)$", CODE_BLOCK.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    wrong = []
    for path, anchor in LINK.findall(CODE_BLOCK.sub("", page.read_text())):
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            wrong.append(f"{path}#{anchor}" if anchor else path)
    return wrong


def missing_tests(text: str) -> list[str]:
    return sorted({name for name in NAMED_TEST.findall(text) if not (ROOT / "tests" / name).is_file()})


def table_rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_tests_exist(page: Path) -> None:
    assert missing_tests(page.read_text()) == []


def test_the_appendix_of_differences_names_rows_of_the_page() -> None:
    page, _, appendix = (ROOT / "docs" / "differences.md").read_text().partition("\n## Appendix")
    known = {row[0] for row in table_rows(page)}
    named = [row[1] for row in table_rows(appendix)[1:]]
    assert named and [row for row in named if row not in known] == []


@pytest.mark.parametrize("page", ["ACCOUNTS", "CONFIG", "PERMISSIONS"])
def test_examples_of_configurations_are_taken(page: str) -> None:
    examples = CONFIGURATION.findall((ROOT / "docs" / f"{page}.md").read_text())
    assert examples
    for example in examples:
        loader.load_text(example, page, {"SHOP_PASSWORD": "secret", "APP_PASSWORD": "secret"})


def test_these_checks_can_fail(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page's name\n[a](none.md) [b](#nowhere) [c](#a-pages-name) [d](page.md)\n")
    assert broken_links(page) == ["none.md", "#nowhere"]
    assert missing_tests("`store/test_nothing.py`, `tests/test_house.py`") == ["store/test_nothing.py"]
