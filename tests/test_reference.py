"""docs/reference and the man page say what the code says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from jetbroker.config import keys
from jetbroker.daemon import cli, flags
from tools import reference
from tools.keys import OF_THE_TOP, PLACES, blocks

ROOT = Path(__file__).resolve().parent.parent
MAN = ROOT / "man" / "jetbroker.1"


@pytest.fixture(scope="module")
def pages() -> dict[Path, str]:
    return reference.pages()


@pytest.mark.parametrize("name", ["CONFIG-KEYS", "FROM-NATS-SERVER", "FLAGS", "METRICS", "ERRORS", "COMMANDS", "API"])
def test_the_pages_are_what_the_code_says(pages: dict[Path, str], name: str) -> None:
    path = ROOT / "docs" / "reference" / f"{name}.md"
    assert path.read_text() == pages[path], "run python -m tools.reference"


def test_the_man_page_is_what_the_code_says(pages: dict[Path, str]) -> None:
    assert MAN.read_text() == pages[MAN], "run python -m tools.reference"


def test_the_badges_are_what_the_code_says(pages: dict[Path, str]) -> None:
    names = sorted((ROOT / "docs" / "images").glob("badge-*.svg"))
    assert names and [path.name for path in names if path.read_text() != pages[path]] == []
    assert [path.name for path in pages if path.suffix == ".svg" and not path.is_file()] == []


def test_every_table_of_keys_is_on_the_page() -> None:
    known = {name for name, table in vars(keys).items() if name.isupper() and isinstance(table, dict)}
    assert known <= {*PLACES, *OF_THE_TOP}
    refused = {key for block in blocks() for key in block.refused}
    sets = [found for name, found in vars(keys).items() if name.endswith("UNSUPPORTED")]
    assert sets and refused == frozenset().union(*sets)


def test_what_has_no_effect_is_looked_at_by_nobody() -> None:
    """Only by the readers, by a reload that compares, and by monitoring, which shows it."""
    lookers = [
        f"{path.relative_to(ROOT)} {name}"
        for path in (ROOT / "jetbroker").rglob("*.py*")
        if path.suffix in (".py", ".pyx") and path.parent.name not in ("config", "monitor")
        for name in keys.WITHOUT_EFFECT
        if re.search(rf"\b{name}\b", path.read_text())
    ]
    assert lookers == []


def test_every_flag_is_in_the_usage_and_in_the_man_page() -> None:
    flags_there = [reference.dashed(name) for name, flag in flags.FLAGS.items() if flag.supported]
    for text in (cli.USAGE, re.sub(r"\\f[BIR]", "", MAN.read_text()).replace("\\-", "-")):
        assert [flag for flag in flags_there if not re.search(rf"(?<![\w-]){flag}(?![\w-])", text)] == []


def test_the_man_page_is_well_formed() -> None:
    lines = MAN.read_text().splitlines()
    macros = {line.split()[0] for line in lines if line.startswith(".")}
    assert macros == {".TH", ".SH", ".TP", ".PD", ".PP", ".B", ".br", ".nf", ".fi"}
    assert lines[0].startswith(".TH JETBROKER 1 ")
    assert ".SH NAME" in lines and ".SH EXAMPLES" in lines


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="no mandoc on the PATH (apt-get install mandoc)")
def test_mandoc_finds_nothing_wrong() -> None:
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "error", MAN], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
