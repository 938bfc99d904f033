"""Pages under docs/walkthroughs as tests: their commands are run, and what they show has to come.

A page shows outputs shortened. `...` stands for anything within a line. Lines come in the page's order, others may
stand between them. Of a table the page shows the columns and rows that count, in any order.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.support.process import JETBROKER_COMMAND, ROOT, ServerProcess, find_nats_server, free_port

PAGES = ROOT / "docs" / "walkthroughs"
FILES = ROOT / "configs" / "walkthroughs"
WAIT_SECONDS = 30.0
SETTLE_SECONDS = (
    60.0  # what only reads is asked again so long: nats-server takes half a minute to reach an origin again
)
POLL_SECONDS = 0.05

BLOCK = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"`([\w.-]+\.\w+)`")
READS = re.compile(r"^nats .* (report|info|ls|get)\b")
START = re.compile(r"^jetbroker -c ((hub|leaf)[\w-]*\.conf)$")
PORTS = re.compile(r"\b(4222|7422|4111)\b")
COMMANDS = {"jetbroker": JETBROKER_COMMAND, "nats-server": (find_nats_server() or "",)}


@dataclass(frozen=True)
class Command:
    """`runs_on`: it does not end by itself, but is interrupted when everything has come."""

    text: str
    expected: tuple[str, ...]
    runs_on: bool


def blocks(page: str) -> Iterator[tuple[str, str, str]]:
    """What is in fences: the paragraph before, the kind, the text."""
    for found in BLOCK.finditer(page):
        yield page[: found.start()].rstrip().rpartition("\n")[2], found["kind"], found["text"]


def commands(page: str) -> list[Command]:
    """Everything that is typed into terminals, in order."""
    found = []
    for _, kind, text in blocks(page):
        if kind.split()[:1] == ["console"]:
            for typed in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, *expected = re.sub(r"\\\n> +", "", typed).splitlines()
                shown = tuple(line.strip() for line in expected if line.strip())
                found.append(Command(command, shown, "interrupted" in kind))
    return found


def files(page: str) -> dict[str, str]:
    """The files that a page shows: each one's name comes first in backquotes in the paragraph before it."""
    found = {}
    for before, kind, text in blocks(page):
        names = FILE_NAME.findall(before)
        if names and not kind.startswith("console"):
            found[names[0]] = text
    return found


# --- comparing ---


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("│").split("│")]


def pattern(shown: str) -> re.Pattern[str]:
    parts = (r"\s+".join(map(re.escape, part.split())) for part in re.split(r"\s*\.\.\.\s*", shown.strip()))
    return re.compile(r"\s*.*\s*".join(parts))


def missing_lines(expected: Iterable[str], output: Sequence[str]) -> list[str]:
    """Those that do not come, each behind the one before."""
    rest = iter(output)
    return [shown for shown in expected if not any(pattern(shown).fullmatch(line.strip()) for line in rest)]


def missing_rows(expected: Sequence[str], output: Sequence[str]) -> list[str]:
    """Those rows of one table that no table of the output with such titles has. The first one is the titles."""
    titles = cells(expected[0])
    wanted = [cells(row) for row in expected[1:]]
    missing = list(expected[1:])
    places: list[int] = []
    for line in output:
        row = cells(line) if line.startswith("│") else []
        if set(titles) <= set(row):
            places = [row.index(title) for title in titles]
        elif row and places and len(row) > max(places):
            for shown, want in zip(expected[1:], wanted, strict=True):
                if shown in missing and all(
                    pattern(cell).fullmatch(row[at]) for cell, at in zip(want, places, strict=True)
                ):
                    missing.remove(shown)
        elif line.startswith("╭"):
            places = []
    return missing


def missing(expected: Sequence[str], output: Sequence[str]) -> list[str]:
    """What a page shows and an output has not."""
    lines = [shown for shown in expected if not shown.startswith("│")]
    found = missing_lines(lines, output)
    table: list[str] = []
    for shown in [*expected, ""]:
        titles = shown.startswith("│") and not table
        if shown.startswith("│") and (titles or not is_title(shown, table[0])):
            table.append(shown)
        elif table:
            found += missing_rows(table, output)
            table = [shown] if shown.startswith("│") else []
    return found


def is_title(row: str, titles: str) -> bool:
    """Does another table begin? It begins with the same first word as the one before, or is as wide as no row of it."""
    return row != titles and (cells(row)[0] == cells(titles)[0] or len(cells(row)) != len(cells(titles)))


# --- running ---


class Place:
    """A folder that holds a page's files, with ports that are free, and the servers that run there.

    `kinds`: which server is the hub and which one the leaf, "jetbroker" or "nats-server".
    """

    def __init__(self, folder: Path, page: str, kinds: tuple[str, str]) -> None:
        self.folder = folder
        self.servers: dict[str, ServerProcess] = {}
        self._kinds = dict(zip(("hub", "leaf"), kinds, strict=True))
        self.ports = {port: str(free_port()) for port in ("4222", "7422", "4111")}
        for path in (FILES / page).iterdir():
            (folder / path.name).write_text(self.own_ports(path.read_text()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers.values():
            server.stop()

    def own_ports(self, text: str) -> str:
        """The ports of the page become those of this place."""
        return PORTS.sub(lambda port: self.ports[port[0]], text)

    def start(self, role: str, config: str, *expected: str) -> ServerProcess:
        """Start the "hub" or the "leaf", again if it runs, and wait for these lines of its log."""
        if role in self.servers:
            self.servers.pop(role).stop()
        port = int(self.ports["4222" if role == "hub" else "4111"])
        server = ServerProcess(COMMANDS[self._kinds[role]], ("-c", config), port=port, cwd=self.folder)
        self.servers[role] = server.start()
        deadline = time.monotonic() + WAIT_SECONDS
        while any(missing_lines([shown], list(server.log)) for shown in expected):
            assert time.monotonic() < deadline, "\n".join([f"{role} does not say {expected}:", *server.log])
            time.sleep(POLL_SECONDS)
        return server


class Terminal:
    """Runs the commands of a page in its place."""

    def __init__(self, place: Place, page: str) -> None:
        self._place = place
        text = (PAGES / f"{page}.md").read_text()
        for name, program in files(text).items():
            if name.endswith(".py"):
                (place.folder / name).write_text(program)
        self._session = place.folder / ".session"
        self._session.touch()
        self.commands = commands(text)

    def run(self, command: Command) -> None:
        """Run it, and fail when something that the page shows does not come."""
        starts = START.match(command.text)
        if starts:
            self._place.start(starts[2], starts[1], *command.expected)
            return
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            output = self._output(command)
            lacks = missing(command.expected, output)
            if not lacks:
                return
            if not READS.match(command.text) or time.monotonic() > deadline:
                raise AssertionError("\n".join([f"$ {command.text}", *output, "", "does not show:", *lacks]))
            time.sleep(POLL_SECONDS)

    def _output(self, command: Command) -> list[str]:
        text = self._place.own_ports(command.text)
        script = f"set -a\n. {self._session}\n{text}\ncode=$?\nexport -p > {self._session}\nexit $code"
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}:{Path.home() / 'go' / 'bin'}"
        environment = {"PATH": path, "HOME": str(self._place.folder), "NO_COLOR": "1", "LANG": "C.UTF-8"}
        process = subprocess.Popen(
            ["bash", "-c", script], cwd=self._place.folder, env=environment, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        lines: list[str] = []
        assert process.stdout is not None
        reader = threading.Thread(target=lambda: lines.extend(line.rstrip() for line in process.stdout or ()))
        reader.start()
        try:
            self._wait(process, command, lines)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            reader.join()
        return lines

    def _wait(self, process: subprocess.Popen[str], command: Command, lines: list[str]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            if command.runs_on and not missing(command.expected, list(lines)):
                os.killpg(process.pid, signal.SIGINT)
                process.wait(WAIT_SECONDS)
            time.sleep(POLL_SECONDS)


def lacking(*tools: str) -> list[str]:
    """Those of the tools that are not on this machine."""
    path = f"{os.environ['PATH']}:{Path.home() / 'go' / 'bin'}"
    return [tool for tool in tools if shutil.which(tool, path=path) is None]
