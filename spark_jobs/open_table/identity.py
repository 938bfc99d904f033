"""Which stream a folder follows, and who writes there now."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from jetbroker.errors import StoreReadError
from spark_jobs.open_table.files import replace_text

OWN_FOLDER = "_jetbroker"  # readers of Parquet folders pass over names with an underscore
VERSION = 1


@dataclass(frozen=True)
class Identity:
    """What must stay the same from run to run. `options` are those that decide which rows and columns there are."""

    format: str
    account: str
    stream: str
    stream_id: int
    options: dict[str, Any]

    def claim(self, dest: Path) -> None:
        """Makes the folder this table's. Raises StoreReadError when it is another's."""
        path = dest / OWN_FOLDER / "table.json"
        if not path.exists():
            replace_text(path, json.dumps({"version": VERSION, **asdict(self)}, indent=1) + "\n")
            return
        try:
            there = json.loads(path.read_text())
            before = Identity(**{name: there[name] for name in ("format", "account", "stream", "stream_id", "options")})
            version = there["version"]
        except (ValueError, TypeError, KeyError):
            raise StoreReadError(f"{str(path)!r} is damaged: it does not say which stream the table follows") from None
        if version != VERSION:
            raise StoreReadError(f"{str(dest)!r} was written by a newer release: update jetbroker")
        self._compare(before, str(dest))

    def _compare(self, before: Identity, dest: str) -> None:
        if (before.account, before.stream) != (self.account, self.stream):
            raise StoreReadError(
                f"{dest!r} is the table of stream {before.stream!r} of account {before.account!r}: name another folder"
            )
        if before.stream_id != self.stream_id:
            raise StoreReadError(
                f"stream {self.stream!r} was made anew since {dest!r} was begun, and its sequences mean other messages "
                "now: name another folder"
            )
        if before.format != self.format:
            raise StoreReadError(f"{dest!r} is a table of the format {before.format}: name another folder")
        for name, value in self.options.items():
            if before.options.get(name) != value:
                raise StoreReadError(
                    f"{dest!r} was begun with --{name.replace('_', '-')} {before.options.get(name)!r}, not {value!r}: "
                    "say the same, or name another folder"
                )


@contextmanager
def only_writer(dest: Path) -> Iterator[bool]:
    """Nobody else writes into the folder meanwhile. True: the writer before did not come to its end.

    Raises StoreReadError when somebody else does, or the folder cannot be written to.
    """
    try:
        if not (dest / OWN_FOLDER).exists() and dest.exists() and any(dest.iterdir()):
            raise StoreReadError(f"{str(dest)!r} is not empty and no table of export_table: name another folder")
        (dest / OWN_FOLDER).mkdir(parents=True, exist_ok=True)
        handle = os.open(dest / OWN_FOLDER / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise StoreReadError(f"{str(dest)!r} cannot be written to: {error.strerror}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreReadError(f"another export_table is writing into {str(dest)!r}") from None
        unfinished = os.fstat(handle).st_size > 0
        os.pwrite(handle, b"at work\n", 0)
        yield unfinished
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)
