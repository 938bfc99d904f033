"""Pieces of Markdown that the written pages share."""

from collections.abc import Iterable, Sequence

WRITTEN = "This page is written by `python -m tools.reference`; a test compares it with the code."


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def code(names: Iterable[str]) -> str:
    """`a`, `b`"""
    return ", ".join(f"`{name}`" for name in names)
