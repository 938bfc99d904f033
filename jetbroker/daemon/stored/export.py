"""`jetbroker store export`: messages to a file, which is there as a whole or not at all."""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from jetbroker.daemon.stored import showing
from jetbroker.daemon.stored.rows import add_rows, limited, rows_of, text_writer
from jetbroker.errors import StoreReadError
from jetbroker.store.offline.places import sync_folder
from jetbroker.tables.scanning import Rows

if TYPE_CHECKING:
    import pyarrow as pa

FORMS = ("parquet", "ndjson", "csv")
UNFINISHED = ".jetbroker.part"
MAKING_SECONDS = 60  # an empty file may be one that its writer has not locked yet
GROUP_ROWS = 128 * 1024  # rows and bytes of a row group: what is held in memory at once
GROUP_BYTES = 64 * 1024 * 1024

_DESCRIPTION = """\
Writes messages to a file: Parquet (zstd), lines of JSON, or CSV. The file appears under its name when it is complete
and on disk. Parquet has all columns; name those wanted with --columns.

    jetbroker store export /var/lib/jetbroker ORDERS orders.parquet --decode 'amount double, item.name string'
"""


def add(words: Any) -> None:
    """The command's own arguments."""
    parser = words.add_parser(
        "export",
        help="write messages to a Parquet, ndjson or CSV file",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_rows(parser)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("-o", "--output", choices=FORMS, default="", help="default: by the ending of FILE")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    parser.add_argument("--json", action="store_true", help="print an object when it is done")
    parser.set_defaults(run=run)


def run(asked: argparse.Namespace, program: str) -> int:
    """Run it. Returns the exit code."""
    target = Path(asked.file)
    form = asked.output or target.suffix.lstrip(".")
    if form not in FORMS:
        raise StoreReadError(f"{asked.file!r} does not end in .parquet, .ndjson or .csv: say which with -o")
    if not target.parent.is_dir():
        raise StoreReadError(f"there is no folder {str(target.parent)!r}")
    if target.exists() and not asked.force:
        raise StoreReadError(f"{asked.file!r} is there already: --force replaces it")
    rows = rows_of(asked)
    messages = 0
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with _whole(target) as file, _progress(rows, asked) as advance, _writer(form, file, rows.schema) as write:
            for batch in limited(rows, asked.limit):
                write(batch)
                messages += batch.num_rows
                advance(batch.num_rows)
    except StoreReadError as error:
        print(f"{program}: {error}; {asked.file!r} was not written", file=sys.stderr)
        return 1
    finally:
        signal.signal(signal.SIGTERM, before)
    if asked.json:
        done = {"stream": asked.stream, "file": asked.file, "messages": messages, "bytes": target.stat().st_size}
        print(json.dumps({**done, "damaged": sorted(rows.damaged)}))
    else:
        print(f"{messages} messages, {showing.size(target.stat().st_size)}: {showing.safe(asked.file)}")
    if rows.damaged:
        print(f"{program}: these messages cannot be read: {showing.ranges(sorted(rows.damaged))}", file=sys.stderr)
    return int(bool(rows.damaged or rows.misses_end))


def _interrupt(*_: object) -> None:
    """SIGTERM like Ctrl-C: the unfinished file goes."""
    raise KeyboardInterrupt


@contextmanager
def _whole(target: Path) -> Iterator[IO[bytes]]:
    """A file that gets its name when all went well. What killed exports left in this folder goes."""
    _remove_abandoned(target.parent)
    hidden = target.parent / f".{target.name}.{os.getpid()}{UNFINISHED}"
    try:
        with hidden.open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed: nobody takes it for abandoned
            yield file
            file.flush()
            os.fsync(file.fileno())
            hidden.replace(target)
        sync_folder(target.parent)
    finally:
        hidden.unlink(missing_ok=True)


def _remove_abandoned(folder: Path) -> None:
    """Unfinished files that no export writes any more."""
    for path in folder.glob(f".*{UNFINISHED}"):
        with suppress(OSError), path.open("rb") as file:  # gone, locked by its writer, or not ours to remove
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            about = os.fstat(file.fileno())
            if about.st_size or time.time() - about.st_mtime > MAKING_SECONDS:
                path.unlink()


@contextmanager
def _writer(form: str, file: IO[bytes], schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], None]]:
    if form != "parquet":
        yield text_writer(form, file, schema)
        return
    import pyarrow as pa
    from pyarrow import parquet

    gathered: list[pa.RecordBatch] = []

    with parquet.ParquetWriter(file, schema, compression="zstd") as out:

        def put(batch: pa.RecordBatch) -> None:
            gathered.append(batch)
            if sum(map(len, gathered)) >= GROUP_ROWS or sum(each.nbytes for each in gathered) >= GROUP_BYTES:
                rest()

        def rest() -> None:
            if gathered:
                out.write_table(pa.Table.from_batches(gathered))
                gathered.clear()

        yield put
        rest()


@contextmanager
def _progress(rows: Rows, asked: argparse.Namespace) -> Iterator[Callable[[int], None]]:
    """A bar on stderr where that is a terminal; it counts messages."""
    if not sys.stderr.isatty() or asked.json:
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    with Progress(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        total = sum(part.messages for part in rows.snapshot.plan(rows.query))
        task = bar.add_task("", total=min(total, asked.limit) if asked.limit is not None else total)
        yield lambda count: bar.update(task, advance=count)
