"""Keeps a table of Parquet files, an Iceberg table or a Delta table up to a stream. Needs no Spark.

python -m spark_jobs.export_table STORE STREAM DEST --format iceberg
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from jetbroker.errors import SegmentGoneError, StoreReadError
from jetbroker.store.offline.reader import Query, StreamSnapshot
from jetbroker.tables.asked import add_typed
from jetbroker.tables.scanning import schema_of
from jetbroker.tables.typed import TypedPayloads
from spark_jobs import jobs
from spark_jobs.open_table.identity import Identity, only_writer
from spark_jobs.open_table.keeper import Done, Keeper
from spark_jobs.open_table.layout import MOST_TOKENS, Layout
from spark_jobs.open_table.tables import OpenTable

FORMATS = ("parquet", "iceberg", "delta")
LOGIN = re.compile(r"//[^/@]*@")  # of a URI
ATTEMPTS = 5  # a stream whose retention overtakes a run is opened anew


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = jobs.parser_of(
        "export_table",
        "Brings a table up to a stream: plain Parquet files, an Iceberg table or a Delta table in the folder DEST, "
        "parted by day. Each run appends what is new, and removes what the stream no longer holds. It may be killed at "
        "any point: each message is in the table once. Needs no Spark.",
        "/var/lib/jetbroker ORDERS /srv/lake/orders --format iceberg --decode 'amount double' --every 1m",
    )
    parser.add_argument(
        "dest", metavar="DEST", help="the table's folder on this machine; a new one, or one of a run before"
    )
    parser.add_argument("--format", choices=FORMATS, default="parquet", help="default: %(default)s")
    parser.add_argument("--subject", default="", metavar="PATTERN", help="only subjects that match, as orders.*.new")
    parser.add_argument(
        "--partition-tokens", type=_tokens, default=0, metavar="N",
        help="part the table by the first N tokens of subjects, too (columns token_1, token_2, …)",
    )  # fmt: skip
    columns = parser.add_argument_group("columns")
    columns.add_argument("--columns", default="", metavar="NAMES", help="subject,amount,…; seq and time always come")
    add_typed(columns)
    care = parser.add_argument_group("care")
    care.add_argument(
        "--compact", action="store_true", help="merge small files, and let go of what --keep does not keep"
    )
    care.add_argument(
        "--keep", type=jobs.seconds, default=86_400, metavar="TIME",
        help="--compact: how long earlier states of an Iceberg or Delta table can be read (default: 1d)",
    )  # fmt: skip
    care.add_argument("--every", type=jobs.seconds, metavar="TIME", help="run again and again: 30s, 5m, 1h")
    care.add_argument("--fail-on-data-loss", action="store_true", help="stop at a message that cannot be read")
    iceberg = parser.add_argument_group("iceberg")
    iceberg.add_argument(
        "--catalog", default="", metavar="CATALOG",
        help="a URI, or a catalog of pyiceberg's configuration (default: catalog.db in DEST)",
    )  # fmt: skip
    iceberg.add_argument("--table", default="", metavar="NAME", help="default: jetbroker.STREAM")
    return parser.parse_args(argv)


def _tokens(text: str) -> int:
    if not text.isdecimal() or int(text) > MOST_TOKENS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to {MOST_TOKENS}")
    return int(text)


class Export:
    """One table and its stream. Raises StoreReadError for what makes no sense."""

    def __init__(self, args: argparse.Namespace) -> None:
        if "://" in args.dest:
            raise StoreReadError(f"{args.dest!r}: DEST is a folder of this machine; mount what is elsewhere")
        if args.decode and args.model:
            raise StoreReadError("give --decode or --model, not both")
        self.args = args
        self.dest = Path(os.path.abspath(args.dest))
        self.query = Query(subject=args.subject)
        self.typed = self._typed()
        self.layout = Layout(schema_of(self._columns(), self.typed), args.partition_tokens)

    def _typed(self) -> TypedPayloads | None:
        args = self.args
        if not args.decode and not args.model:
            return None
        sys.path.insert(0, os.getcwd())  # where people keep the module that --model names
        words = {args.form: args.decode} if args.decode else {}
        return TypedPayloads(**words, model=args.model, mode=args.mode, form=args.form)

    def _columns(self) -> list[str]:
        named = [name.strip() for name in self.args.columns.split(",") if name.strip()]
        if not named:
            return named
        needed = ["seq", "time", *(["subject"] if self.args.partition_tokens else [])]
        return [*(name for name in needed if name not in named), *named]

    def identity(self, snapshot: StreamSnapshot) -> Identity:
        args = self.args
        names = ("subject", "partition_tokens", "columns", "decode", "model", "form", "mode")
        options = {name: getattr(args, name) for name in names}
        if args.format == "iceberg":  # another catalog would know nothing of the files that are there
            options |= {"catalog": LOGIN.sub("//", args.catalog), "table": args.table}
        return Identity(args.format, args.account, snapshot.stream, snapshot.stream_id, options)

    def table(self) -> OpenTable:
        if self.args.format == "parquet":
            from spark_jobs.open_table.parquet_table import ParquetTable

            return ParquetTable(self.dest, self.layout)
        if self.args.format == "delta":
            from spark_jobs.open_table.delta_table import DeltaTable

            return DeltaTable(self.dest, self.layout)
        from spark_jobs.open_table.iceberg_table import NAMESPACE, IcebergTable, catalog_of

        name = self.args.table or f"{NAMESPACE}.{self.args.stream}"
        return IcebergTable(self.dest, self.layout, catalog_of(self.dest, self.args.catalog), name)

    def run(self) -> tuple[Done, OpenTable]:
        """Brings the table up to the stream's present state."""
        done = Done()
        snapshot = self._opened()
        with only_writer(self.dest) as unfinished:
            self.identity(snapshot).claim(self.dest)
            table = self.table()
            if unfinished:
                table.sweep()
            keeper = Keeper(table, self.layout, done)
            for attempt in range(ATTEMPTS):
                try:
                    keeper.follow_deletes(snapshot)
                    keeper.append(snapshot, self.query, self.typed, self.args.fail_on_data_loss)
                    break
                except SegmentGoneError:
                    if attempt == ATTEMPTS - 1:
                        raise
                    snapshot = self._opened()
            if self.args.compact:
                keeper.merge()
                table.forget(datetime.now(UTC) - timedelta(seconds=self.args.keep))
        return done, table

    def _opened(self) -> StreamSnapshot:
        return jobs.streams_of(self.args).open()


def report(args: argparse.Namespace, export: Export) -> int:
    started = time.perf_counter()
    try:
        done, table = export.run()
    except OSError as error:
        raise StoreReadError(f"{error.filename or args.dest}: {error.strerror or error}") from None
    files = table.files()
    row = {
        "stream": args.stream,
        "position": table.position(),
        "added": done.added,
        "removed": done.removed,
        "merged": done.merged,
        "rows": sum(file.rows for file in files),
        "files": len(files),
        "bytes": sum(file.bytes for file in files),
    }
    if args.json:
        print(json.dumps({**row, "damaged": done.damaged}), flush=True)
    else:
        jobs.show(args, f"{args.stream} as {args.format}: {args.dest}", [row], list(row)[1:])
    jobs.say(f"took {time.perf_counter() - started:.1f} s; this needs no Spark")
    if done.damaged:
        told = ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in done.damaged[:10])
        jobs.say(f"export_table: these messages cannot be read, and are not in the table: {told}")
    return jobs.FOUND if done.damaged else jobs.OK


def again_and_again(args: argparse.Namespace) -> int:
    """Once, or until a signal says that it is enough; a run that is under way is finished first."""
    export = Export(args)
    if args.every is None:
        try:
            return report(args, export)
        except KeyboardInterrupt:
            jobs.say("export_table: stopped; the next run goes on from here")
            return jobs.FAILED
    enough = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: enough.set())
    code = jobs.OK
    while not enough.is_set():
        code = max(code, report(args, export))
        enough.wait(args.every)
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0, 1 when messages could not be read, or 2 after saying on stderr what is wrong."""
    args = arguments(argv)
    return jobs.run("export_table", lambda: again_and_again(args))


if __name__ == "__main__":
    sys.exit(main())
