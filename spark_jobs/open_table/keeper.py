"""Brings a table up to a stream: what the stream no longer holds goes, what is new comes, small files are merged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from jetbroker.errors import StoreReadError
from jetbroker.limits import READER_BATCH_ROWS
from jetbroker.store.offline.reader import Query, StreamSnapshot
from jetbroker.tables.scanning import Rows
from jetbroker.tables.typed import TypedPayloads
from spark_jobs.open_table.files import DataFile, read_file, write_file
from spark_jobs.open_table.gone import Gone
from spark_jobs.open_table.layout import Layout
from spark_jobs.open_table.tables import OpenTable

CHUNK_ROWS = 500_000  # rows and bytes of one commit: what is held in memory
CHUNK_BYTES = 64 * 1024 * 1024
COMMIT_FILES = 200  # that are rewritten in one step: what an interrupted run did in vain
FILE_BYTES = 128 * 1024 * 1024  # what small files are merged to
SMALL_BYTES = FILE_BYTES // 2


@dataclass
class Done:
    """What a run did: rows that came, rows that went, files that were merged; and what could not be read."""

    added: int = 0
    removed: int = 0
    merged: int = 0
    damaged: tuple[tuple[int, int], ...] = ()


class Keeper:
    """Each step commits by itself, so that a run may end anywhere and the next one goes on."""

    def __init__(self, table: OpenTable, layout: Layout, done: Done) -> None:
        self.table = table
        self.layout = layout
        self.done = done

    def follow_deletes(self, snapshot: StreamSnapshot) -> None:
        """Rows go whose messages the stream no longer holds. Raises StoreReadError when the table is ahead of it."""
        position = self.table.position()
        if position > snapshot.last_seq:
            raise StoreReadError(
                f"the table holds stream {snapshot.stream!r} up to sequence {position}, and the stream ends at "
                f"{snapshot.last_seq}: it was restored or lost its end; name another folder"
            )
        gone = Gone(snapshot)
        before: list[DataFile] = []
        after: list[DataFile] = []
        for file in self.table.files():
            if not gone.touches(file.first_seq, file.last_seq):
                continue
            whole = gone.all_of(file.first_seq, file.last_seq)
            if not whole and not _any(gone, file):
                continue
            left = None if whole else self._write(file, _without(gone, file))
            before.append(file)
            after += [left] if left else []
            self.done.removed += file.rows - (left.rows if left else 0)
            if len(before) >= COMMIT_FILES:
                self.table.commit(after, before, position)
                before, after = [], []
        if before:
            self.table.commit(after, before, position)

    def append(self, snapshot: StreamSnapshot, query: Query, typed: TypedPayloads | None, strict: bool) -> None:
        """Rows come that are behind the position, some at a time."""
        start = self.table.position() + 1
        rows = Rows(
            snapshot,
            replace(query, start_seq=start),
            self.layout.rows,
            typed,
            strict,
            min(CHUNK_ROWS, READER_BATCH_ROWS),
        )
        try:
            for chunk in _chunks(rows.batches()):
                self._append(chunk, chunk.column("seq")[-1].as_py())
        finally:
            self.done.damaged = tuple(sorted({*self.done.damaged, *rows.damaged}))
        if self.table.position() < snapshot.last_seq:
            self.table.commit([], [], snapshot.last_seq)

    def _append(self, chunk: pa.Table, position: int) -> None:
        added = []
        for partition, rows in self.layout.split(chunk):
            folder = self.table.folder(partition)
            first_seq = rows.column("seq")[0].as_py()
            added.append(write_file(folder, partition, self.table.file_schema, [rows], first_seq))
        self.table.commit([file for file in added if file], [], position)
        self.done.added += chunk.num_rows

    def merge(self) -> None:
        """Small files of a partition become one."""
        ordered = sorted(self.table.files(), key=lambda file: (repr(file.partition), file.first_seq))
        for _, files in groupby(ordered, key=lambda file: file.partition):
            for group in _groups([file for file in files if file.bytes < SMALL_BYTES]):
                merged = self._write(group[0], (table for file in group for table in read_file(file.path)))
                self.table.commit([merged] if merged else [], group, self.table.position(), same_rows=True)
                self.done.merged += len(group)

    def _write(self, like: DataFile, tables: Iterable[pa.Table]) -> DataFile | None:
        """A file of the same partition."""
        folder = self.table.folder(like.partition)
        return write_file(folder, like.partition, self.table.file_schema, tables, like.first_seq)


def _any(gone: Gone, file: DataFile) -> bool:
    """Does it hold rows that are gone? Reads sequences alone."""
    return any(pc.any(gone.among(_seqs(table))).as_py() for table in read_file(file.path, ["seq"]))


def _without(gone: Gone, file: DataFile) -> Iterator[pa.Table]:
    """Its rows that are not gone."""
    for table in read_file(file.path):
        yield table.filter(pc.invert(gone.among(_seqs(table))))


def _seqs(table: pa.Table) -> pa.Int64Array:
    return table.column("seq").combine_chunks()


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    gathered: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        gathered.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= CHUNK_ROWS or size >= CHUNK_BYTES:
            yield pa.Table.from_batches(gathered).combine_chunks()
            gathered, rows, size = [], 0, 0
    if gathered:
        yield pa.Table.from_batches(gathered).combine_chunks()


def _groups(files: list[DataFile]) -> Iterator[list[DataFile]]:
    """Neighbours that together make a file, at least two."""
    group: list[DataFile] = []
    for file in files:
        if sum(each.bytes for each in group) + file.bytes > FILE_BYTES and group:
            if len(group) > 1:
                yield group
            group = []
        group.append(file)
    if len(group) > 1:
        yield group
