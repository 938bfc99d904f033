"""Any store: that of a broker, or one that was shipped. What opens streams for readers comes through here."""

from __future__ import annotations

import os
from pathlib import Path

from jetbroker.errors import StoreReadError
from jetbroker.store.offline import reader, shipped
from jetbroker.store.offline.places import local_folder
from jetbroker.store.offline.reader import StreamSnapshot


def list_streams(store: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """(account, stream) of every stream of the store, sorted."""
    if shipped.is_shipped(store):
        return shipped.list_streams(store)
    return reader.list_streams(local_folder(store))


def open_stream(
    store: str | os.PathLike[str], stream: str, account: str = "$G", domain: str = "", from_seq: int = 1
) -> StreamSnapshot:
    """A stream's present state, see reader.open_stream. `store`: a `store_dir`, or where one was shipped to."""
    if shipped.is_shipped(store):
        return shipped.open_stream(store, stream, account, domain, from_seq)
    return reader.open_stream(local_folder(store), stream, account, domain, from_seq)


def consumer_logs(store: str | os.PathLike[str], stream: str, account: str = "$G") -> list[Path]:
    """The state logs of a stream's consumers. Raises StoreReadError when there is no such stream."""
    if shipped.is_shipped(store):
        return shipped.consumer_logs(store, stream, account)
    return sorted((stream_folder(store, stream, account) / "consumers").glob("*.log"))


def stream_folder(store: str | os.PathLike[str], stream: str, account: str = "$G") -> Path:
    """The folder with a stream's files. Raises StoreReadError when there is none, as in a shipped store."""
    if shipped.is_shipped(store):
        raise StoreReadError(
            f"{os.fspath(store)!r} is a shipped store, which has no hash chains: check the store itself"
        )
    return reader.stream_folder(local_folder(store), stream, account)
