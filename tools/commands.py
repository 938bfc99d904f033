"""The commands of `jetbroker`, from the parsers that read their arguments."""

import argparse
from collections.abc import Iterator
from importlib import import_module

from jetbroker.daemon import cli
from jetbroker.daemon.completion import COMMANDS
from tools.markdown import WRITTEN, code, table

PROGRAM = "jetbroker"


def parsers() -> Iterator[argparse.ArgumentParser]:
    """One for each command, and for each command of a command."""
    for word in COMMANDS:
        module = import_module(f"jetbroker.daemon.{cli._MODULES.get(word, word)}")
        yield from _with_inner(module._parser(PROGRAM))


def _with_inner(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in _inner(parser):
        for inner in action.choices.values():
            yield from _with_inner(inner)


def _inner(parser: argparse.ArgumentParser) -> "Iterator[argparse._SubParsersAction[argparse.ArgumentParser]]":
    return (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))


def arguments(parser: argparse.ArgumentParser) -> list[tuple[str, str]]:
    """What it takes: how it is written, and what it means."""
    rows = []
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
            continue
        meaning = (action.help or "") % {**vars(action), "prog": parser.prog}
        if action.option_strings:
            rows.append((code(f"{name}{_value(action)}" for name in action.option_strings), meaning))
        else:
            rows.append((code([_name(action)]), meaning))
    return rows


def _value(action: argparse.Action) -> str:
    return "" if action.nargs == 0 else f" {_name(action)}"


def _name(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar
    return "|".join(map(str, action.choices)) if action.choices else action.dest.upper()


def commands_page() -> str:
    """docs/reference/COMMANDS.md"""
    parts = [
        f"""# Commands

This page lists the commands of `{PROGRAM}` and what each one takes. `{PROGRAM} COMMAND --help` says the same. {WRITTEN} Without a command `{PROGRAM}` starts a broker, with the flags of [FLAGS.md](FLAGS.md).

```sh
{PROGRAM} check config broker.conf
{PROGRAM} store ls /var/lib/jetbroker
```
"""
    ]
    for parser in parsers():
        level = "###" if parser.prog.count(" ") > 1 else "##"
        parts.append(f"{level} `{parser.prog}`\n\n{_paragraphs(parser.description or '')}\n")
        if taken := arguments(parser):
            parts.append(table(("Argument", "Meaning"), taken) + "\n")
    return "\n".join(parts)


def _paragraphs(text: str) -> str:
    """Paragraphs on one line each; what is indented is shown as it stands."""
    found = []
    for paragraph in text.strip().split("\n\n"):
        if paragraph.startswith("    "):
            found.append(f"```text\n{paragraph}\n```")
        else:
            found.append(" ".join(paragraph.split()))
    return "\n\n".join(found)
