"""Parquet files of a table: immutable, named by who wrote them, on disk before anything refers to them."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from jetbroker.store.offline.places import sync_folder

GROUP_ROWS = 128 * 1024  # rows and bytes of a row group: what a writer holds
GROUP_BYTES = 32 * 1024 * 1024
OWN_NAME = re.compile(r"\.?jb-[0-9]{20}-[0-9a-f]{12}\.parquet(\.part)?")  # no other program's files are ever removed


class Partition(NamedTuple):
    """Which rows a file holds: those of one day (days since 1970) whose subjects begin with these tokens."""

    day: int
    tokens: tuple[str | None, ...]


@dataclass(frozen=True)
class DataFile:
    """A file of a table. `handle` is what the table itself knows it by."""

    path: Path
    partition: Partition
    rows: int
    bytes: int
    first_seq: int
    last_seq: int
    handle: Any = field(default=None, compare=False, repr=False)


def write_file(
    folder: Path, partition: Partition, schema: pa.Schema, tables: Iterable[pa.Table], first_seq: int
) -> DataFile | None:
    """A new file with these rows, which is on disk; None: there were none.

    `first_seq` only makes its name sort well. Raises OSError.
    """
    path = folder / f"jb-{first_seq:020d}-{secrets.token_hex(6)}.parquet"
    hidden = folder / f".{path.name}.part"  # readers of a folder take what has a name
    folder.mkdir(parents=True, exist_ok=True)
    rows, ends = 0, [first_seq, 0]
    with hidden.open("xb") as file:
        with parquet.ParquetWriter(file, schema, compression="zstd") as out:
            for table in _groups(tables):
                out.write_table(table.select(schema.names).cast(schema))
                least, most = pc.min_max(table.column("seq")).as_py().values()
                ends = [min(ends[0], least) if rows else least, max(ends[1], most)]
                rows += table.num_rows
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    if not rows:
        hidden.unlink()
        return None
    hidden.replace(path)
    sync_folder(folder)
    return DataFile(path, partition, rows, size, ends[0], ends[1])


def _groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The rows in row groups' sizes."""
    gathered: list[pa.Table] = []
    for table in tables:
        for start in range(0, table.num_rows, GROUP_ROWS):
            gathered.append(table.slice(start, GROUP_ROWS))
            if sum(map(len, gathered)) >= GROUP_ROWS or sum(each.nbytes for each in gathered) >= GROUP_BYTES:
                yield pa.concat_tables(gathered)
                gathered.clear()
    if gathered:
        yield pa.concat_tables(gathered)


def read_file(path: Path, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """Its rows, some at a time, by ascending sequence within each."""
    with parquet.ParquetFile(path, memory_map=True) as file:
        for batch in file.iter_batches(batch_size=GROUP_ROWS // 4, columns=columns):
            table = pa.Table.from_batches([batch])
            seqs = batch.column("seq")
            if not pc.all(pc.less_equal(seqs[:-1], seqs[1:])).as_py() and len(seqs) > 1:
                table = table.sort_by("seq")  # another program has rewritten the file
            yield table


def replace_text(path: Path, text: str) -> None:
    """A small file anew, in one atomic step, on disk when this returns."""
    hidden = path.with_name(f".{path.name}.part")
    with hidden.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    hidden.replace(path)
    sync_folder(path.parent)


def sweep(folder: Path, kept: set[Path] | None) -> None:
    """Removes the files that export_table wrote below a folder and did not keep; None: those without a name alone."""
    for place, _, names in os.walk(folder):
        for name in filter(OWN_NAME.fullmatch, names):
            path = Path(place, name)
            if name.startswith(".") if kept is None else path not in kept:
                path.unlink()
