"""What a table of any format can do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from spark_jobs.open_table.files import DataFile, Partition


class OpenTable(Protocol):
    """A table that is there, whichever program reads it. Methods raise StoreReadError with what is wrong."""

    @property
    def file_schema(self) -> pa.Schema:
        """The columns of its files."""

    def position(self) -> int:
        """Up to which sequence it holds the stream."""

    def files(self) -> list[DataFile]:
        """Those of its present state."""

    def folder(self, partition: Partition) -> Path:
        """Where files of a partition go."""

    def commit(
        self, added: Sequence[DataFile], removed: Sequence[DataFile], position: int, same_rows: bool = False
    ) -> None:
        """One atomic step: it has the added files, not the removed ones, and holds the stream up to `position`.

        `same_rows`: the added files hold the rows of the removed ones.
        """

    def sweep(self) -> None:
        """Files of an interrupted run go."""

    def forget(self, before: datetime) -> None:
        """States that are older are no longer kept, where the format keeps any, nor their files."""
