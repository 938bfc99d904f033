"""A Delta table: the position is the version of an application transaction, which each commit sets with its files."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from jetbroker.errors import StoreReadError
from spark_jobs.open_table import files
from spark_jobs.open_table.files import DataFile, Partition
from spark_jobs.open_table.layout import Layout

try:
    import deltalake
    from deltalake.exceptions import DeltaError
    from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction
except ImportError:
    raise StoreReadError("--format delta needs deltalake: pip install 'jetbroker[delta]'") from None

APPLICATION = "jetbroker"
EPOCH = date(1970, 1, 1)


@contextmanager
def _told(dest: Path) -> Iterator[None]:
    """A refusal as one sentence."""
    try:
        yield
    except (DeltaError, OSError, ValueError) as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise StoreReadError(f"the Delta table {str(dest)!r} cannot be used: {line[:300]}") from None


class DeltaTable:
    """Its files are in folders of days, its log in `_delta_log`."""

    def __init__(self, dest: Path, layout: Layout) -> None:
        self._dest = dest
        self._layout = layout
        schema = layout.with_tokens.insert(len(layout.rows), pa.field("day", pa.date32()))
        self._parted_by = ["day", *layout.token_names]
        with _told(dest):
            self._table = deltalake.DeltaTable.create(
                str(dest), schema, mode="ignore", partition_by=self._parted_by, name="jetbroker"
            )

    @property
    def file_schema(self) -> pa.Schema:
        return self._layout.rows  # partition columns stand in the log

    def position(self) -> int:
        return self._table.transaction_version(APPLICATION) or 0

    def files(self) -> list[DataFile]:
        found = []
        for row in pa.table(self._table.get_add_actions()).to_pylist():
            values = row["partition"]
            day = (values["day"] - EPOCH).days
            partition = Partition(day, tuple(values[name] for name in self._layout.token_names))
            path = self._dest / row["path"]
            ends = row["min"]["seq"], row["max"]["seq"]
            found.append(DataFile(path, partition, row["num_records"], row["size_bytes"], *ends, row["path"]))
        return found

    def folder(self, partition: Partition) -> Path:
        return self._dest / f"day={(EPOCH + timedelta(partition.day)).isoformat()}"

    def commit(
        self, added: Sequence[DataFile], removed: Sequence[DataFile], position: int, same_rows: bool = False
    ) -> None:
        now = time.time_ns() // 1_000_000
        actions: list[AddAction | RemoveAction] = []
        actions += [self._add(file, now, not same_rows) for file in added]
        actions += [self._remove(file, now, not same_rows) for file in removed]
        with _told(self._dest):
            self._table.create_write_transaction(
                actions, "append", self._table.schema(), self._parted_by,
                commit_properties=CommitProperties(app_transactions=[Transaction(APPLICATION, position, now)]),
            )  # fmt: skip
            self._table.update_incremental()

    def _values(self, partition: Partition) -> dict[str, str | None]:
        day = (EPOCH + timedelta(partition.day)).isoformat()
        return {"day": day, **dict(zip(self._layout.token_names, partition.tokens, strict=True))}

    def _add(self, file: DataFile, now: int, changes: bool) -> AddAction:
        ends = {"minValues": {"seq": file.first_seq}, "maxValues": {"seq": file.last_seq}}
        stats = json.dumps({"numRecords": file.rows, **ends})
        return AddAction(self._name(file), file.bytes, self._values(file.partition), now, changes, stats)

    def _remove(self, file: DataFile, now: int, changes: bool) -> RemoveAction:
        return RemoveAction(file.handle, changes, now, file.bytes, self._values(file.partition))

    def _name(self, file: DataFile) -> str:
        return file.path.relative_to(self._dest).as_posix()

    def sweep(self) -> None:
        """Only what never got a name: the log tells no reader of the others, and `forget` removes them in time."""
        files.sweep(self._dest, None)

    def forget(self, before: datetime) -> None:
        hours = max(int((datetime.now(UTC) - before).total_seconds() // 3600), 0)
        with _told(self._dest):
            self._table.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)
