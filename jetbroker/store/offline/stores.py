"""Any store: that of a broker, or one that was shipped. What opens streams for readers comes through here."""

from __future__ import annotations

import os
from collections.abc import Hashable
from pathlib import Path

from jetbroker.errors import StoreReadError
from jetbroker.store.format.hash_chain import FILE_NAME
from jetbroker.store.offline import reader, shipped
from jetbroker.store.offline.places import local_folder
from jetbroker.store.offline.reader import NewestSegment, StreamSnapshot


def list_streams(store: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """(account, stream) of every stream of the store, sorted."""
    if shipped.is_shipped(store):
        return shipped.list_streams(store)
    return reader.list_streams(local_folder(store))


def open_stream(
    store: str | os.PathLike[str],
    stream: str,
    account: str = "$G",
    domain: str = "",
    from_seq: int = 1,
    newest: NewestSegment | None = None,
) -> StreamSnapshot:
    """A stream's present state, see reader.open_stream. `store`: a `store_dir`, or where one was shipped to."""
    if shipped.is_shipped(store):
        return shipped.open_stream(store, stream, account, domain, from_seq)
    return reader.open_stream(local_folder(store), stream, account, domain, from_seq, newest)


def files_of(store: str | os.PathLike[str], stream: str, account: str = "$G") -> Hashable:
    """What is another value whenever a message was stored or removed since; None where only opening can tell.

    Segments only grow, or are replaced, so the names, the inodes and the end of the newest say it all.
    Raises StoreReadError when there is no such stream.
    """
    if shipped.is_shipped(store):
        return None
    folder = reader.stream_folder(local_folder(store), stream, account)
    try:
        with os.scandir(folder) as entries:
            segments = sorted((entry.name, entry.inode()) for entry in entries if entry.name.endswith(".seg"))
        if not segments:
            return None
        newest = os.stat(folder / segments[-1][0])
    except FileNotFoundError:
        return None
    return tuple(segments), newest.st_size, newest.st_mtime_ns


def consumer_logs(store: str | os.PathLike[str], stream: str, account: str = "$G") -> list[Path]:
    """The state logs of a stream's consumers. Raises StoreReadError when there is no such stream."""
    if shipped.is_shipped(store):
        return shipped.consumer_logs(store, stream, account)
    folder = reader.stream_folder(local_folder(store), stream, account)
    return sorted((folder / "consumers").glob("*.log"))


def hash_chain(store: str | os.PathLike[str], stream: str, account: str = "$G") -> tuple[bytes, str]:
    """The bytes of a stream's hash chain, and where they stand; no bytes when it has none. Raises StoreReadError."""
    if shipped.is_shipped(store):
        return shipped.hash_chain(store, stream, account)
    path = reader.stream_folder(local_folder(store), stream, account) / FILE_NAME
    try:
        return path.read_bytes(), str(path)
    except FileNotFoundError:
        return b"", str(path)
    except OSError as error:
        raise StoreReadError(f"{path}: {error.strerror}") from None
