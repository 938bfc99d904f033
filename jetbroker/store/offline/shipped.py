"""A shipped store as a store: its streams are planned by their manifests, and only what a read needs is fetched."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from jetbroker.errors import StoreReadError
from jetbroker.store.format.names import decode_name, encode_name
from jetbroker.store.offline import manifest as form
from jetbroker.store.offline.manifest import Manifest
from jetbroker.store.offline.places import Place, is_elsewhere, local_folder, place_of
from jetbroker.store.offline.reader import StreamSnapshot, check_domain, no_such_stream
from jetbroker.store.offline.segment_cache import file_of


def is_shipped(store: str | os.PathLike[str]) -> bool:
    """Is this where a store was shipped to, and not the store of a broker?"""
    return is_elsewhere(store) or (local_folder(store) / form.MARKER).is_file()


def read_marker(place: Place) -> tuple[str, int, str | None]:
    """Epoch, format and domain of the store that was shipped here. Raises PlaceError, StoreVersionError."""
    data = place.read(form.MARKER, form.MARKER_BYTES)
    if data is None:
        place.names(form.MANIFESTS)  # which tells when there is no such bucket
        raise StoreReadError(f"{place.text!r}: no shipped store ({form.MARKER} is missing)")
    return form.decode_marker(data, place.address(form.MARKER))


def list_streams(store: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """(account, stream) of every stream with a manifest, sorted."""
    place = place_of(store)
    read_marker(place)
    return sorted(streams_at(place))


def streams_at(place: Place) -> list[tuple[str, str]]:
    """The same, in no order; a place where nothing was shipped to has none."""
    found = []
    for name in place.names(form.MANIFESTS):
        parts = name.removeprefix(f"{form.MANIFESTS}/").removesuffix(".json").split("/")
        if len(parts) != 2 or not name.endswith(".json"):
            continue
        account, stream = map(decode_name, parts)
        if [encode_name(account), encode_name(stream)] != parts:
            # a long name is cut: the true one stands inside
            read = _read(place, name)
            if read is None:
                continue
            account, stream = read.meta["account"], read.meta["name"]
        found.append((account, stream))
    return found


def read_manifest(place: Place, stream: str, account: str) -> Manifest | None:
    """What was shipped of a stream; None when nothing was. Raises PlaceError, StoreVersionError."""
    name = form.manifest_name(account, stream)
    found = _read(place, name)
    if found is not None and (found.meta["account"], found.meta["name"]) != (account, stream):
        raise StoreReadError(f"{place.address(name)} is of another stream: ship the store again")
    return found


def open_stream(
    store: str | os.PathLike[str], stream: str, account: str = "$G", domain: str = "", from_seq: int = 1
) -> StreamSnapshot:
    """A stream as it was shipped last; nothing of it is fetched yet. Raises StoreReadError, StoreVersionError."""
    place = place_of(store)
    check_domain(place.text, domain, read_marker(place)[2])
    found = _manifest(place, stream, account)
    folder = place.address(form.objects_folder(found.meta))
    parts = [
        replace(segment.part, path=f"{folder}/{segment.file.name}")
        for segment in found.segments
        if segment.part.last_seq >= from_seq
    ]
    live = [part for part in parts if part.messages]
    return StreamSnapshot(
        stream,
        account,
        found.domain,
        found.meta["config"],
        live,
        sum(part.messages for part in live),
        sum(part.size for part in live),
        live[0].first_seq if live else 0,
        found.last_seq,
        list(found.damaged),
        found.meta["stream_id"],
        [part for part in parts if not part.messages],
    )


def consumer_logs(store: str | os.PathLike[str], stream: str, account: str = "$G") -> list[Path]:
    """The state logs of a stream's consumers, fetched. Raises StoreReadError."""
    place = place_of(store)
    found = _manifest(place, stream, account)
    folder = place.address(form.objects_folder(found.meta))
    return [Path(file_of(f"{folder}/{log.name}", log.sha256, log.size)) for log in found.consumers]


def hash_chain(store: str | os.PathLike[str], stream: str, account: str = "$G") -> tuple[bytes, str]:
    """A stream's hash chain and where it is; nothing when it has none. Raises StoreReadError."""
    place = place_of(store)
    found = _manifest(place, stream, account)
    folder = place.address(form.objects_folder(found.meta))
    pieces = (file_of(f"{folder}/{piece.name}", piece.sha256, piece.size) for piece in found.chain)
    try:
        return b"".join(Path(piece).read_bytes() for piece in pieces), f"the hash chain in {folder}"
    except OSError as error:
        raise StoreReadError(f"{error.filename}: {error.strerror}") from None


def _manifest(place: Place, stream: str, account: str) -> Manifest:
    found = read_manifest(place, stream, account)
    if found is None:
        raise StoreReadError(no_such_stream(place.text, stream, account, streams_at(place)))
    return found


def _read(place: Place, name: str) -> Manifest | None:
    data = place.read(name, form.MANIFEST_BYTES)
    return None if data is None else form.decode_manifest(data, place.address(name))
