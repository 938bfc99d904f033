"""Files of shipped stores on this machine: what a reader needs of a store that is elsewhere is downloaded once.

A file is kept under its SHA-256, so that what is there is always right, whichever store named it. The folder is
JETBROKER_CACHE (default: ~/.cache/jetbroker). Beyond JETBROKER_CACHE_SIZE (default: 10GB) the files that were used
longest ago go. A process that still reads one has it open.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from pathlib import Path

from jetbroker.errors import PlaceError, StoreReadError
from jetbroker.forms.sizes import parse_bytes
from jetbroker.store.offline.place_errors import HALF_COPIED
from jetbroker.store.offline.places import is_elsewhere, place_of

FOLDER, SIZE = "JETBROKER_CACHE", "JETBROKER_CACHE_SIZE"
DEFAULT_FOLDER, DEFAULT_SIZE = "~/.cache/jetbroker", "10GB"
PART = ".part"
ABANDONED_SECONDS = 24 * 3600  # a download that a kill has left behind


def file_of(address: str, sha256: str, size: int) -> str:
    """The path of a file with this content. Raises PlaceError when it cannot be had, or is not what it should be."""
    if not is_elsewhere(address):
        try:
            there = os.stat(address).st_size
        except OSError as error:
            raise PlaceError(f"{address}: {error.strerror}: {HALF_COPIED}") from None
        if there != size:
            raise PlaceError(f"{address}: {there} bytes instead of {size}: {HALF_COPIED}")
        return address
    path = cache_folder() / sha256[:2] / sha256
    try:
        if path.stat().st_size == size:
            os.utime(path)
            return str(path)
    except FileNotFoundError:
        pass
    _download(address, sha256, path)
    return str(path)


def cache_folder() -> Path:
    """Where files are kept."""
    return Path(os.environ.get(FOLDER) or DEFAULT_FOLDER).expanduser().absolute()


def _download(address: str, sha256: str, path: Path) -> None:
    folder, _, name = address.rpartition("/")
    place = place_of(folder)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, part = tempfile.mkstemp(suffix=PART, dir=path.parent)
        try:
            digest = hashlib.sha256()
            with open(descriptor, "wb") as file:
                for chunk in place.chunks(name, lambda size: None):
                    digest.update(chunk)
                    file.write(chunk)
            if digest.hexdigest() != sha256:
                raise PlaceError(
                    f"{address} is damaged: its checksum is not that of its manifest; ship it again with --check"
                )
            _make_room(os.path.getsize(part))
            os.replace(part, path)
        finally:
            Path(part).unlink(missing_ok=True)
    except OSError as error:
        raise StoreReadError(
            f"{path.parent}: {error.strerror}: files of shipped stores are kept there; {FOLDER} names another folder"
        ) from None


def _make_room(size: int) -> None:
    """Remove what was used longest ago until `size` more bytes fit."""
    try:
        most = parse_bytes(os.environ.get(SIZE) or DEFAULT_SIZE)
    except ValueError as error:
        raise StoreReadError(f"{SIZE}: {error}") from None
    kept = []
    for path in cache_folder().glob("??/*"):
        try:
            found = path.stat()
        except FileNotFoundError:
            continue
        if path.suffix != PART:
            kept.append((found.st_mtime_ns, found.st_size, path))
        elif time.time() - found.st_mtime > ABANDONED_SECONDS:
            path.unlink(missing_ok=True)
    total = sum(entry[1] for entry in kept)
    for _, bytes_, path in sorted(kept):
        if total + size <= most:
            return
        path.unlink(missing_ok=True)
        total -= bytes_
