"""Tables that follow a stream, as the tests and their children run and read them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa

import jetbroker
from tests.support.process import ROOT

COMPARED = ["seq", "time", "subject", "headers", "data"]
# where a run touches the disk, by the names of the functions: Python's, sqlite's, and those of the table libraries
STEPS = frozenset(
    {"mkdir", "open", "fsync", "replace", "unlink", "commit", "execute", "ftruncate", "write_table", "write_file",
     "create_write_transaction", "update_incremental", "new_output", "create", "close", "commit_table", "sweep"}
)  # fmt: skip


def rows(table: pa.Table, columns: list[str] = COMPARED) -> list[dict[str, Any]]:
    return list(table.select(columns).sort_by("seq").to_pylist())


def of_stream(store: Path, stream: str = "ORDERS", **asked: Any) -> list[dict[str, Any]]:
    return rows(jetbroker.scan(store, stream, **asked).read_all())


def read(form: str, dest: Path) -> pa.Table:
    """What a reader that knows only the format finds."""
    if form == "iceberg":
        from pyiceberg.table import StaticTable

        return StaticTable.from_metadata(str(dest)).scan().to_arrow()
    if form == "delta":
        import deltalake

        return deltalake.DeltaTable(str(dest)).to_pyarrow_table()
    from pyarrow import parquet

    tables = [parquet.ParquetFile(path).read() for path in dest.rglob("*.parquet") if path.name in named(dest)]
    return pa.concat_tables(tables) if tables else pa.table({name: [] for name in COMPARED})


def named(dest: Path) -> set[str]:
    """The files of a table of plain Parquet, by its manifest."""
    manifest = json.loads((dest / "_jetbroker" / "manifest.json").read_text())
    return {Path(file["path"]).name for file in manifest["files"]}


class Children:
    """Runs export_table in forks of a process that has imported everything; each may die by kill -9 at a step."""

    def __init__(self) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "tests.support.open_tables"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        )

    def run(self, *words: object, die_at: int = 0) -> int:
        """The exit code, or minus the number of the signal that ended it."""
        assert self._parent.stdin and self._parent.stdout
        self._parent.stdin.write(json.dumps([die_at, *map(str, words)]).encode() + b"\n")
        self._parent.stdin.flush()
        return int(self._parent.stdout.readline())

    def __enter__(self) -> Children:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._parent.stdin and self._parent.stdout
        self._parent.stdin.close()
        self._parent.wait()
        self._parent.stdout.close()


def killer(at: int) -> Callable[[FrameType, str, Any], None]:
    """A profiler that ends this process by kill -9 at the at-th beginning or end of one of STEPS."""
    left = at

    def look(frame: FrameType, event: str, called: Any) -> None:
        nonlocal left
        name = frame.f_code.co_name if event in ("call", "return") else getattr(called, "__name__", "")
        if name in STEPS:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return look


def serve() -> None:
    """Lines of JSON in, exit codes out."""
    import deltalake  # noqa: F401

    from spark_jobs import export_table
    from spark_jobs.open_table import iceberg_table, keeper  # noqa: F401

    keeper.CHUNK_ROWS, keeper.COMMIT_FILES = 8, 2  # many commits
    for line in sys.stdin.buffer:
        die_at, *words = json.loads(line)
        child = os.fork()
        if not child:
            os.dup2(2, 1)
            if die_at:
                sys.setprofile(killer(die_at))
            os._exit(export_table.main(words))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
