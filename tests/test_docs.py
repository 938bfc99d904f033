"""The pages under docs/ agree with the repository: links lead somewhere, and named tests exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jetbroker.config import loader
from tests.test_house import cython_imports, module_of, python_imports, sources

ROOT = Path(__file__).resolve().parent.parent
ARCHITECTURE = ROOT / "docs" / "ARCHITECTURE.md"
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])

LINK = re.compile(r"\]\((?!\w+://)([^)#\s]*)(?:#([^)\s]+))?\)")
CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CONFIGURATION = re.compile(r"^```\n(?![+$|])([^`]*\{[^`]*)^```$", re.MULTILINE)
SOURCE_PATH = re.compile(r"`((?:\w+/)*\w+\.(?:py|pyx|pxd))`")
ROOM = re.compile(r"\b(\w+)/(?=\s)")
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


def missing_sources(text: str) -> list[str]:
    """Modules that a page names, by a path from the repository or jetbroker/, or by name, and that are not there."""
    known = {path.name for path in (ROOT / "jetbroker").rglob("*.p*")}
    return sorted(
        name
        for name in set(SOURCE_PATH.findall(text))
        if name not in known and not (ROOT / name).is_file() and not (ROOT / "jetbroker" / name).is_file()
    )


def rooms_by_line(text: str) -> dict[str, int]:
    """The rooms in ARCHITECTURE.md's picture, and the line each one stands in."""
    picture = CODE_BLOCK.search(text.split("## The rooms in a picture")[1])
    assert picture is not None
    return {room: number for number, line in enumerate(picture[0].splitlines()) for room in ROOM.findall(line)}


def folders_of(name: str) -> list[str]:
    """'jetbroker.config.tokens.accounts' -> ['config', 'tokens']: the rooms around a module."""
    folder, rooms = ROOT / "jetbroker", []
    for part in name.split(".")[1:]:
        folder /= part
        if not (folder / "__init__.py").is_file():
            break
        rooms.append(part)
    return rooms if name.startswith("jetbroker.") else []


def upward_imports(module: str, imports: set[str], lines: dict[str, int]) -> list[str]:
    """Those imports of rooms by a module that the picture does not show below the module's own room."""
    own, wrong = folders_of(module), []
    for name in imports:
        rooms = folders_of(name)
        nested = rooms == own[: len(rooms)] or own == rooms[: len(own)]
        if not nested and lines[rooms[-1]] <= lines[own[-1]]:
            wrong.append(f"{module} imports {name}")
    return wrong


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


def test_the_picture_shows_every_room() -> None:
    folders = {path.parent.name for path in (ROOT / "jetbroker").rglob("*/__init__.py")}
    assert set(rooms_by_line(ARCHITECTURE.read_text())) == folders


def test_rooms_of_the_picture_import_downwards() -> None:
    lines = rooms_by_line(ARCHITECTURE.read_text())
    wrong = []
    for path in sources(".py", ".pyx", ".pxd"):
        if path.is_relative_to(ROOT / "jetbroker"):
            module, text = module_of(path), path.read_text()
            found = python_imports(text, module, path.stem == "__init__") if path.suffix == ".py" else None
            wrong += upward_imports(module, cython_imports(text) if found is None else found, lines)
    assert wrong == []


def test_modules_that_the_architecture_names_exist() -> None:
    assert missing_sources(ARCHITECTURE.read_text()) == []


def test_these_checks_can_fail(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A page's name\n[a](none.md) [b](#nowhere) [c](#a-pages-name) [d](page.md)\n")
    assert broken_links(page) == ["none.md", "#nowhere"]
    assert missing_tests("`store/test_nothing.py`, `tests/test_house.py`") == ["store/test_nothing.py"]
    assert missing_sources("`store/nothing.pyx`, `limits.py`, `spark_jobs/source.py`, `parser.pyx`") == [
        "store/nothing.pyx"
    ]


def test_the_check_of_the_picture_can_fail() -> None:
    text = "## The rooms in a picture\n\n```\n| connections/ sockets |\n|  store/  accounts/ |\n| wire/ |\n```\n"
    lines = rooms_by_line(text)
    assert lines == {"connections": 1, "store": 2, "accounts": 2, "wire": 3}
    assert upward_imports("jetbroker.store.store", {"jetbroker.wire.subjects", "jetbroker.errors"}, lines) == []
    for module, name in [("wire.parser", "connections.client"), ("store.store", "accounts.account")]:
        assert upward_imports(f"jetbroker.{module}", {f"jetbroker.{name}"}, lines)
