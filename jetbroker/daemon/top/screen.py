"""What is seen: the server in a few lines, and one table of streams, consumers or connections."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from jetbroker.daemon.top.figures import Figures, ServerRow
from jetbroker.forms.printable import safe
from jetbroker.forms.sizes import friendly_bytes

_HEAD_LINES = 9  # above the rows of the table, with the line of keys
_KEYS = "s streams  c consumers  n connections  o order  ↑↓ scroll  space pause  q quit"


class _Column(NamedTuple):
    """A column. `order`: rows can be sorted by it, the largest first unless `of` gives text."""

    title: str
    of: Callable[[Any], str]
    order: Callable[[Any], Any] | None = None
    is_number: bool = True


def rate(value: float | None) -> str:
    """Per second."""
    return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"


def size_rate(value: float | None) -> str:
    """Bytes per second."""
    return "–" if value is None else f"{friendly_bytes(int(value))}/s"


def _words(title: str, name: str, *, sorts: bool = False) -> _Column:
    return _Column(
        title, lambda row: safe(getattr(row, name)), (lambda row: getattr(row, name)) if sorts else None, False
    )


def _count(title: str, name: str) -> _Column:
    return _Column(title, lambda row: f"{getattr(row, name):,}", lambda row: -getattr(row, name))


_RATE = _Column("Msgs/s", lambda row: rate(row.rate), lambda row: -(row.rate or 0))
_TABLES: dict[str, tuple[_Column, ...]] = {
    "streams": (
        _words("Stream", "name", sorts=True),
        _words("Account", "account"),
        _RATE,
        _count("Messages", "messages"),
        _Column("Size", lambda row: friendly_bytes(row.bytes), lambda row: -row.bytes),
        _count("Last", "last_seq"),
        _count("Consumers", "consumers"),
    ),
    "consumers": (
        _words("Consumer", "name", sorts=True),
        _words("Stream", "stream"),
        _words("Account", "account"),
        _count("Lag", "lag"),
        _count("Pending", "pending"),
        _count("Unacked", "ack_pending"),
        _count("Redelivered", "redelivered"),
        _count("Waiting", "waiting"),
    ),
    "connections": (
        _count("ID", "cid"),
        _words("Name", "name", sorts=True),
        _words("Account", "account"),
        _words("Address", "address"),
        _RATE,
        _count("In", "in_msgs"),
        _count("Out", "out_msgs"),
        _count("Subs", "subscriptions"),
        _Column("Unsent", lambda row: friendly_bytes(row.pending_bytes), lambda row: -row.pending_bytes),
    ),
}
TABLES = tuple(_TABLES)
_FIRST_ORDER = {"streams": "Msgs/s", "consumers": "Lag", "connections": "Msgs/s"}


@dataclass
class View:
    """What somebody looks at: which table, by which order, from which row on."""

    table: str = "streams"
    order: str = _FIRST_ORDER["streams"]
    offset: int = 0
    paused: bool = False
    trouble: str = ""  # why the last look failed

    def show(self, table: str) -> None:
        """Another table."""
        self.table, self.order, self.offset = table, _FIRST_ORDER[table], 0

    def sort(self, order: str) -> None:
        """By a column's title, in any case. Raises ValueError, which names those there are."""
        for title in orders(self.table):
            if title.lower() == order.lower():
                self.order = title
                return
        raise ValueError(f"{self.table} are sorted by {', '.join(title.lower() for title in orders(self.table))}")

    def next_order(self) -> None:
        """By the next column that sorts."""
        titles = orders(self.table)
        self.order, self.offset = titles[(titles.index(self.order) + 1) % len(titles)], 0

    def scroll(self, rows: int) -> None:
        """Up or down."""
        self.offset = max(self.offset + rows, 0)


def orders(table: str) -> list[str]:
    """The columns that a table is sorted by."""
    return [column.title for column in _TABLES[table] if column.order is not None]


def rows_that_fit(lines: int) -> int:
    """Of a table, in a terminal of so many lines."""
    return max(lines - _HEAD_LINES, 1)


def whole(figures: Figures | None, view: View, lines: int) -> RenderableType:
    """A screen of so many lines."""
    parts: list[RenderableType] = []
    if view.trouble:
        parts.append(_line(Text(safe(view.trouble), style="bold red")))
    if figures is not None:
        parts += server_lines(figures.server)
        parts += [Text(), table_of(figures, view, rows_that_fit(lines))]
    elif not view.trouble:
        parts.append(Text("Waiting for the server…"))
    paused = "PAUSED  " if view.paused else ""
    parts.append(_line(Text(f"{paused}{_KEYS}", style="reverse")))
    return Group(*parts)


def server_lines(server: ServerRow) -> list[RenderableType]:
    """The server, in five lines."""
    title = Text(safe(server.name), style="bold")
    title.append(f"  {safe(server.version)}  up {safe(server.uptime)}  health {safe(server.health)}", style="not bold")
    process = (
        f"CPU {server.cpu:.0f}%  memory {friendly_bytes(server.memory)}  connections {server.connections:,}  "
        f"subscriptions {server.subscriptions:,}  leafnodes {server.leafnodes:,}  "
        f"slow consumers {server.slow_consumers:,}"
    )
    moved = (
        f"In {rate(server.in_msgs_rate)} msgs/s, {size_rate(server.in_bytes_rate)}  "
        f"Out {rate(server.out_msgs_rate)} msgs/s, {size_rate(server.out_bytes_rate)}"
    )
    stored = (
        f"JetStream: {server.streams:,} streams, {server.consumers:,} consumers, {server.messages:,} messages, "
        f"{friendly_bytes(server.stored)}"
    )
    problems = "; ".join(map(safe, server.problems))
    told = Text(f"Problems: {problems}" if problems else "No problems", style="bold red" if problems else "")
    return [_line(line) for line in (title, Text(process), Text(moved), Text(stored), told)]


def _line(text: Text) -> Text:
    """One line, cut where the terminal ends."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def sorted_rows(figures: Figures, view: View) -> list[Any]:
    """All rows of the table, in its order."""
    order = next(column.order for column in _TABLES[view.table] if column.title == view.order)
    rows: list[Any] = getattr(figures, view.table)
    return sorted(rows, key=order) if order is not None else rows


def table_of(figures: Figures, view: View, most: int | None) -> Table:
    """A table with at most so many rows, all of them for None."""
    rows = sorted_rows(figures, view)
    if most is not None:
        view.offset = max(min(view.offset, len(rows) - most), 0)
    end = len(rows) if most is None else min(view.offset + most, len(rows))
    where = f", {view.offset + 1} to {end}" if end - view.offset < len(rows) else ""
    table = Table(box=None, pad_edge=False, title_justify="left", title_style="bold", expand=False)
    table.title = f"{len(rows):,} {view.table}{where}, by {view.order.lower()}"
    for column in _TABLES[view.table]:
        mark = " ▾" if column.title == view.order else ""
        table.add_column(
            f"{column.title}{mark}", justify="right" if column.is_number else "left", no_wrap=most is not None
        )
    for row in rows[view.offset : end]:
        table.add_row(*(Text(column.of(row)) for column in _TABLES[view.table]))
    return table
