"""A table of plain Parquet files: `_jetbroker/manifest.json` says which they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from jetbroker.errors import StoreReadError
from spark_jobs.open_table import files
from spark_jobs.open_table.files import DataFile, Partition
from spark_jobs.open_table.identity import OWN_FOLDER
from spark_jobs.open_table.layout import Layout

EPOCH = date(1970, 1, 1)
NO_TOKEN = "__HIVE_DEFAULT_PARTITION__"
NAME_BYTES = 255
VERSION = 1


class ParquetTable:
    """Folders `day=2026-01-31/token_1=orders`, as Hive, Spark, DuckDB and Arrow read them."""

    def __init__(self, dest: Path, layout: Layout) -> None:
        self._dest = dest
        self._layout = layout
        self._manifest = dest / OWN_FOLDER / "manifest.json"
        self._position = 0
        self._files: dict[Path, DataFile] = {}
        if self._manifest.exists():
            self._load()

    @property
    def file_schema(self) -> pa.Schema:
        return self._layout.rows  # the folder's name has the rest

    def position(self) -> int:
        return self._position

    def files(self) -> list[DataFile]:
        return list(self._files.values())

    def folder(self, partition: Partition) -> Path:
        values = {"day": (EPOCH + timedelta(partition.day)).isoformat()}
        values |= dict(zip(self._layout.token_names, (token or NO_TOKEN for token in partition.tokens), strict=True))
        names = [f"{name}={quote(value, safe='')}" for name, value in values.items()]
        for name in names:
            if len(name) > NAME_BYTES:
                raise StoreReadError(
                    f"a subject's token is too long for the name of a folder ({name[:40]}…): take fewer tokens, or "
                    "the format iceberg"
                )
        return self._dest.joinpath(*names)

    def commit(
        self, added: Sequence[DataFile], removed: Sequence[DataFile], position: int, same_rows: bool = False
    ) -> None:
        left = {path: file for path, file in self._files.items() if file not in removed}
        left |= {file.path: file for file in added}
        document = {"version": VERSION, "position": position, "files": [self._entry(file) for file in left.values()]}
        files.replace_text(self._manifest, json.dumps(document, indent=1) + "\n")
        self._files, self._position = left, position
        for file in removed:
            file.path.unlink(missing_ok=True)

    def sweep(self) -> None:
        files.sweep(self._dest, set(self._files))

    def forget(self, before: datetime) -> None:
        """There is only the present state."""

    def _entry(self, file: DataFile) -> dict[str, Any]:
        return {
            "path": file.path.relative_to(self._dest).as_posix(),
            "rows": file.rows,
            "bytes": file.bytes,
            "first_seq": file.first_seq,
            "last_seq": file.last_seq,
            "day": file.partition.day,
            "tokens": file.partition.tokens,
        }

    def _load(self) -> None:
        try:
            document = json.loads(self._manifest.read_text())
            self._position = int(document["position"])
            for entry in document["files"]:
                path = self._dest / entry["path"]
                numbers = (int(entry[name]) for name in ("rows", "bytes", "first_seq", "last_seq"))
                self._files[path] = DataFile(path, Partition(int(entry["day"]), tuple(entry["tokens"])), *numbers)
        except (ValueError, TypeError, KeyError):
            raise StoreReadError(f"{str(self._manifest)!r} is damaged: name another folder") from None
