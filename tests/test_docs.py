"""The pages under docs/ agree with the repository: links lead somewhere, and named tests exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from tests.test_house import cython_imports, module_of, python_imports, sources
from tools.links import CODE_BLOCK, broken_links, faults_of_site, pages

ROOT = Path(__file__).resolve().parent.parent
ARCHITECTURE = ROOT / "docs" / "ARCHITECTURE.md"
PAGES = pages()
KINDS = ["Tutorial", "How-to", "Reference", "Explanation"]

SOURCE_PATH = re.compile(r"`((?:\w+/)*\w+\.(?:py|pyx|pxd))`")
ROOM = re.compile(r"\b(\w+)/(?=\s)")
NAMED_TEST = re.compile(r"`(?:tests/)?((?:\w+/)*test_\w+\.py)`")
INVERTED = re.compile(r"(?:^|[.!?;:|] |\*\* )(?:- )?((?:What|Who|Whoever|Whatever)\s[^.?!|:]*\.)", re.MULTILINE)
WRITTEN_FROM_CODE = ROOT / "docs" / "reference"


def missing_tests(text: str) -> list[str]:
    return sorted({name for name in NAMED_TEST.findall(text) if not (ROOT / "tests" / name).is_file()})


def inverted_sentences(text: str) -> list[str]:
    """Those whose subject is a clause, such as "What is old goes.": readers stumble over them."""
    return [" ".join(sentence.split()) for sentence in INVERTED.findall(CODE_BLOCK.sub("", text))]


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


def site_configuration() -> Any:
    """docs/conf.py, as Sphinx reads it."""
    spec = importlib.util.spec_from_file_location("docs_conf", ROOT / "docs" / "conf.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table_rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_tests_exist(page: Path) -> None:
    assert missing_tests(page.read_text()) == []


@pytest.mark.parametrize("page", [p for p in PAGES if WRITTEN_FROM_CODE not in p.parents], ids=lambda p: p.name)
def test_sentences_begin_with_their_subject(page: Path) -> None:
    assert inverted_sentences(page.read_text()) == []


def test_the_appendix_of_differences_names_rows_of_the_page() -> None:
    page, _, appendix = (ROOT / "docs" / "differences.md").read_text().partition("\n## Appendix")
    known = {row[0] for row in table_rows(page)}
    named = [row[1] for row in table_rows(appendix)[1:]]
    assert named and [row for row in named if row not in known] == []


def test_the_navigation_has_every_page_once() -> None:
    conf = site_configuration()
    listed = [page for _, text in conf.SECTION.findall(conf.INDEX.read_text()) for page in conf.LISTED.findall(text)]
    there = {str(path.relative_to(ROOT / "docs").with_suffix("")) for path in (ROOT / "docs").rglob("*.md")} - {"index"}
    assert sorted(page for page in listed if not page.startswith("../")) == sorted(there)
    assert [title for title, _ in conf.SECTION.findall(conf.INDEX.read_text())] == KINDS


def test_the_navigation_is_in_the_site() -> None:
    tree = site_configuration().navigation()
    assert [f":caption: {kind}\n" in tree for kind in KINDS] == [True] * len(KINDS)
    assert "\ndocs/reference/FLAGS\n" in tree and "\nexamples/README\n" in tree


def test_links_to_folders_are_names_in_the_site() -> None:
    text = "[docker](../docker) [a](CONFIG.md) [b](../docker/jetbroker.conf) ![c](images) [d](https://nats.io)"
    shown = site_configuration().without_folder_links(text, ROOT / "docs")
    assert shown == text.replace("[docker](../docker)", "`docker`")


def test_a_site_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "fine.html").write_text('<a href="https://nats.io" id="x">out</a> <img src="a.png"> <a href="#x">y</a>')
    (tmp_path / "a.css").write_text("a { background: url(a.png) }")
    assert faults_of_site(tmp_path) == []
    (tmp_path / "a.css").write_text("@import 'https://fonts.example/a.css'; a { background: url(//cdn.example/a.png) }")
    (tmp_path / "bad.html").write_text(
        '<script src="https://cdn.example/a.js"></script> <link rel="stylesheet" href="//cdn.example/a.css">'
        '<link rel="canonical" href="https://docs.example/"> <img srcset="a.png 1x, https://cdn.example/b.png 2x">'
        '<a href="none.html">a</a> <a href="fine.html#nowhere">b</a> <a href="fine.html#x">c</a>'
    )
    assert faults_of_site(tmp_path) == [
        "bad.html: loads https://cdn.example/a.js",
        "bad.html: loads //cdn.example/a.css",
        "bad.html: loads https://cdn.example/b.png",
        "bad.html: leads nowhere: none.html",
        "bad.html: leads nowhere: fine.html#nowhere",
        "a.css: loads https://fonts.example/a.css",
        "a.css: loads //cdn.example/a.png",
    ]


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
    page.write_text(
        "# A page's name\n## Twice\n## Twice\n"
        "[a](none.md) [b](#nowhere) [c](#a-pages-name) [d](page.md) [e](#twice-1)\n"
        "`[f](code.md)` ![g](none.png)\n\n[h]: gone.md\n\n```text\n[i](block.md)\n# Block\n```\n[j](#block)\n"
        '<img src="gone.svg"> [k](https://nats.io)\n'
    )
    assert broken_links(page) == ["none.md", "#nowhere", "none.png", "#block", "gone.md", "gone.svg"]
    assert missing_tests("`store/test_nothing.py`, `tests/test_house.py`") == ["store/test_nothing.py"]
    assert missing_sources("`store/nothing.pyx`, `limits.py`, `spark_jobs/source.py`, `parser.pyx`") == [
        "store/nothing.pyx"
    ]


def test_the_check_of_sentences_can_fail() -> None:
    text = (
        "- **Disk.** What is\n  old goes. Who asks?\n| What it does | Whoever asks hears. |\n```\nWho goes goes.\n```\n"
    )
    assert inverted_sentences(text) == ["What is old goes.", "Whoever asks hears."]


def test_the_check_of_the_picture_can_fail() -> None:
    text = "## The rooms in a picture\n\n```\n| connections/ sockets |\n|  store/  accounts/ |\n| wire/ |\n```\n"
    lines = rooms_by_line(text)
    assert lines == {"connections": 1, "store": 2, "accounts": 2, "wire": 3}
    assert upward_imports("jetbroker.store.store", {"jetbroker.wire.subjects", "jetbroker.errors"}, lines) == []
    for module, name in [("wire.parser", "connections.client"), ("store.store", "accounts.account")]:
        assert upward_imports(f"jetbroker.{module}", {f"jetbroker.{name}"}, lines)
