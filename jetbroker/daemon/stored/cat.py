"""`jetbroker store cat`: messages as a table, as lines of JSON, or as CSV."""

from __future__ import annotations

import argparse
import shutil
import sys
from typing import TYPE_CHECKING, Any

from jetbroker.daemon.stored import showing
from jetbroker.daemon.stored.rows import add_rows, limited, rows_of, text_writer, values_of
from jetbroker.errors import StoreReadError

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = "seq,time,subject,headers,data"
NARROWEST = 8
GAP = "  "

_DESCRIPTION = """\
Prints messages in their order. Headers and payloads are text where they are UTF-8; otherwise they stand under
data_base64. A table shows control characters escaped, and cuts lines at the width of a terminal; ndjson and csv
have everything.

    jetbroker store cat /var/lib/jetbroker ORDERS --since 2h --subject 'orders.eu.>' --limit 20
"""


def add(words: Any) -> None:
    """The command's own arguments."""
    parser = words.add_parser(
        "cat",
        help="print messages",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_rows(parser)
    parser.add_argument("-o", "--output", choices=("table", "ndjson", "csv"), default="table")
    parser.add_argument("--json", action="store_const", dest="output", const="ndjson", help="the same as -o ndjson")
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace, program: str) -> int:
    """Run it. Returns the exit code."""
    rows = rows_of(asked, COLUMNS)
    write = (
        _Table(rows.schema).write
        if asked.output == "table"
        else text_writer(asked.output, sys.stdout.buffer, rows.schema)
    )
    try:
        for batch in limited(rows, asked.limit):
            write(batch)
            sys.stdout.flush()
    except StoreReadError as error:  # on the way: what came before stands
        sys.stdout.flush()
        print(f"{program}: {error}", file=sys.stderr)
        return 1
    if rows.damaged:
        print(f"{program}: these messages cannot be read: {showing.ranges(sorted(rows.damaged))}", file=sys.stderr)
    return int(bool(rows.damaged or rows.misses_end))


class _Table:
    """Lines whose columns stand below each other, as wide as the first batch needs."""

    def __init__(self, schema: pa.Schema) -> None:
        self._names = schema.names
        self._widths: list[int] = []
        self._line = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0

    def write(self, batch: pa.RecordBatch) -> None:
        cells = [self._cells(row) for row in values_of(batch)]
        if not self._widths:
            sample = cells[:1000]
            self._widths = [
                max(NARROWEST if name != "seq" else 1, len(name), *(len(row[at]) for row in sample))
                for at, name in enumerate(self._names)
            ]
            self._put(self._names)
        for row in cells:
            self._put(row)

    def _cells(self, row: dict[str, Any]) -> list[str]:
        return [showing.safe(_text(row.get(name, row.get(f"{name}_base64")))) for name in self._names]

    def _put(self, cells: list[str]) -> None:
        line = GAP.join(cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True)).rstrip()
        if self._line and len(line) > self._line:
            line = line[: self._line - 1] + "…"
        print(line)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        shown = {name: " | ".join(map(str, each)) if isinstance(each, list) else each for name, each in value.items()}
        return ", ".join(f"{name}: {each}" for name, each in shown.items())
    return "" if value is None else str(value)
