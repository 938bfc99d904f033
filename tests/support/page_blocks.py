"""The fenced blocks of the pages, and what can be said about a command without running it."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import re
import shlex
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import pairwise

from jetbroker.daemon import cli, flags
from jetbroker.daemon.completion import COMMANDS
from tools.links import ROOT, pages

BLOCK = re.compile(r"^(?P<indent> *)```(?P<kind>[^\n`]*)\n(?P<text>.*?)^(?P=indent)``` *$", re.MULTILINE | re.DOTALL)
SUBSTITUTED = re.compile(r"\$\(([^()]*(?:\([^()]*\)[^()]*)*)\)")
ASSIGNED = re.compile(r"^\w+=")
OPERATORS = frozenset("|&;()") | {"&&", "||"}
# Programs of others. What they are told is theirs to judge.
FOREIGN = frozenset(
    "cat cd command curl echo exec git ln ls mkdir nats nats-server openssl printf pytest spark-submit sudo systemctl "
    "timeout".split()
)


@dataclass(frozen=True)
class Block:
    """`page` from the repository's folder; `line` is that of the fence."""

    page: str
    line: int
    kind: str
    text: str

    @property
    def begin(self) -> str:
        """Its first line."""
        return self.text.strip().partition("\n")[0].strip()

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: str, text: str) -> Iterator[Block]:
    for found in BLOCK.finditer(text):
        yield Block(page, text.count("\n", 0, found.start()) + 1, found["kind"].partition(" ")[0], found["text"])


@cache
def all_blocks() -> tuple[Block, ...]:
    """Of every page, in order."""
    return tuple(block for page in pages() for block in blocks_of(page.relative_to(ROOT).as_posix(), page.read_text()))


def needs_spark(block: Block) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "spark" for node in ast.walk(ast.parse(block.text)))


# --- commands ---


def typed(block: Block) -> list[str]:
    """What somebody types: of `console` the lines behind `$`, of `sh` all of them."""
    text = block.text.replace("\\\n", " ")
    if block.kind == "console":
        return re.findall(r"^\$ (.*)$", text, re.MULTILINE)
    return [line for line in text.splitlines() if line.strip()]


def simple_commands(line: str) -> list[list[str]]:
    """The words of each program that a line runs, without comments, assignments and redirections."""
    found = [words for inner in SUBSTITUTED.findall(line) for words in simple_commands(inner)]
    lexer = shlex.shlex(SUBSTITUTED.sub("SUBSTITUTED", line), posix=True, punctuation_chars="|&;()<>")
    lexer.whitespace_split = True
    words: list[str] = []
    into_file = False
    for token in [*lexer, ";"]:
        if token in OPERATORS:
            found += [words] if words else []
            words = []
        elif set(token) <= set("<>&"):
            into_file = True
        elif into_file:
            into_file = False
        elif words or not ASSIGNED.match(token):
            words.append(token)
    return found


def fault_of(words: list[str]) -> str:
    """Why a command would be refused; "": nothing speaks against it."""
    program = words[0].rpartition("/")[2] if words[0].startswith(".venv/bin/") else words[0]
    if program in FOREIGN:
        return ""
    check = CHECKS.get(program)
    return check(words[1:]) if check else f"{program} is no known program"


def _jetbroker(words: list[str]) -> str:
    said = io.StringIO()
    try:
        if words and words[0] in COMMANDS:
            module = import_module(f"jetbroker.daemon.{cli._MODULES.get(words[0], words[0])}")
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                module._parser("jetbroker").parse_args(words[1:])
            return ""
        line = flags.parse(words)
    except SystemExit as end:
        return said.getvalue() if end.code else ""
    except flags.FlagError as error:
        return str(error)
    return " ".join([*line.refused, *(word for word in line.words if word not in ("help", "version"))])


def _make(words: list[str]) -> str:
    makefile = (ROOT / "Makefile").read_text()
    for word in words:
        name, assigns, _ = word.partition("=")
        known = f"$({name})" in makefile if assigns else re.search(rf"^{re.escape(word)}:", makefile, re.MULTILINE)
        if not known:
            return f"the Makefile has no {word}"
    return ""


def _python(words: list[str]) -> str:
    if words[:1] == ["-c"]:
        compile(words[1], "-c", "exec")
        return ""
    if words[:1] != ["-m"]:
        return ""
    if importlib.util.find_spec(words[1]) is None:
        return f"no module {words[1]}"
    if words[1].startswith("spark_jobs."):
        return _job(words[1], words[2:])
    if words[1] == "pytest":
        return "".join(f"no file {word}" for word in words[2:] if word.endswith(".py") and not (ROOT / word).is_file())
    return ""


def _job(module: str, words: list[str]) -> str:
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            import_module(module).arguments(words)
    except SystemExit as end:
        return said.getvalue() if end.code else ""
    return ""


def _pip(words: list[str]) -> str:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = re.findall(r"(?:jetbroker|\.)\[([\w,]+)\]", " ".join(words))
    return " ".join(extra for extras in asked for extra in extras.split(",") if extra not in known)


def _docker(words: list[str]) -> str:
    files = [after for word, after in pairwise(words) if word == "-f"]
    return " ".join(f"no file {file}" for file in files if not (ROOT / file).is_file())


CHECKS: dict[str, Callable[[list[str]], str]] = {
    "docker": _docker,
    "jetbroker": _jetbroker,
    "make": _make,
    "pip": _pip,
    "python": _python,
    "python3": _python,
}
