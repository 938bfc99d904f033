"""The walk-throughs of docs/walkthroughs, typed into a terminal: with jetbroker and nats-server at each end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.walkthroughs import FILES, PAGES, Command, Place, Terminal, commands, files, lacking, missing

TOOLS = {"leafnodes": ["nats"], "sharing": ["nats", "nsc"]}


@pytest.mark.slow
@pytest.mark.parametrize("page", TOOLS)
def test_a_page_shows_what_happens(tmp_path: Path, page: str, pair: tuple[str, str]) -> None:
    tools = lacking(*TOOLS[page])
    if tools:
        pytest.skip(f"not on the PATH: {', '.join(tools)}")
    with Place(tmp_path, page, pair) as place:
        terminal = Terminal(place, page)
        for command in terminal.commands:
            terminal.run(command)


@pytest.mark.parametrize("page", TOOLS)
def test_a_page_shows_the_files_of_its_folder(page: str) -> None:
    shown = {name: text for name, text in files((PAGES / f"{page}.md").read_text()).items() if not name.endswith(".py")}
    assert shown == {path.name: path.read_text() for path in (FILES / page).iterdir()}


def test_commands_of_a_page() -> None:
    page = (
        "Do:\n\n```console\n$ one\na ... b\n\n$ two \\\n> three\n```\n\n`x.conf`:\n\n```\nport: 1\n```\n\n"
        "```console interrupted\n$ four\n```\n"
    )
    assert commands(page) == [
        Command("one", ("a ... b",), False),
        Command("two three", (), False),
        Command("four", (), True),
    ]
    assert files(page) == {"x.conf": "port: 1\n"}


TABLE = """\
╭────────────────────╮
│       Report       │
├──────┬─────┬───────┤
│ Name │ New │ Count │
├──────┼─────┼───────┤
│ a    │     │ 1     │
│ b    │ yes │ 22    │
╰──────┴─────┴───────╯
done at 12:00
""".splitlines()


def test_what_a_page_shows_and_an_output_has_not() -> None:
    titles = "│ Name │ Count │"
    assert missing([titles, "│ b │ ... │", "│ a    │ 1 │", "done  at ..."], TABLE) == []
    assert missing([titles, "│ a │ 2 │"], TABLE) == ["│ a │ 2 │"]
    assert missing(["│ Name │ Size │", "│ a │ 1 │"], TABLE) == ["│ a │ 1 │"]
    assert missing([titles, "│ a │ 1 │", "│ Name │ New │ Count │", "│ b │ no │ 22 │"], TABLE) == ["│ b │ no │ 22 │"]
    assert missing(["done"], TABLE) == ["done"]
    assert missing(["done at ...", "done at ..."], TABLE) == ["done at ..."]
