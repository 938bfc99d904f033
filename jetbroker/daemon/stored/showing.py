"""How values look: tables for people, and text that cannot do anything to a terminal."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from jetbroker.forms.printable import safe as safe
from jetbroker.forms.sizes import friendly_bytes
from jetbroker.tables.asked import as_text

WIDE = 10_000  # columns of an output that is no terminal: no line is folded
NUMBERS = ("Messages", "Size", "First", "Last", "Pending", "Acked to", "Delivered to", "Damaged")


def show_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table without lines; numbers to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title) if title else None, title_justify="left", box=None, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in NUMBERS else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    terminal = sys.stdout.isatty()
    # written by print(): rich itself would end the process when nobody reads
    text = io.StringIO()
    Console(file=text, width=None if terminal else WIDE, force_terminal=terminal).print(table)
    print("\n".join(line.rstrip() for line in text.getvalue().splitlines()))


def show_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def size(count: int) -> str:
    return friendly_bytes(count)


def moment(time_ns: int) -> str:
    return as_text(time_ns)


def ranges(pairs: Iterable[tuple[int, int]]) -> str:
    """Sequences: 5, 7-9."""
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in pairs)
