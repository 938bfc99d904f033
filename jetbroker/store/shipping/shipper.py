"""Copies what is sealed of a store to a place, beside a running broker or not; it takes no lock and asks nobody.

An object is named by its content and never changes. It counts once the stream's manifest names it, and that is
written last. So a shipper that is killed leaves nothing half, and the next one goes on: what the manifest names is not
looked at again, what was uploaded without it is compared with the file before it is sent anew.
"""

from __future__ import annotations

import hashlib
import io
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from jetbroker.errors import PlaceError, StorageError, StoreReadError
from jetbroker.store.format.documents import store_domain
from jetbroker.store.format.records import FORMAT_VERSION, seed_of
from jetbroker.store.log.statelog import STATE_MAGIC, read_frames
from jetbroker.store.offline import manifest as form
from jetbroker.store.offline import reader
from jetbroker.store.offline.manifest import Manifest, ShippedFile, ShippedSegment, Source
from jetbroker.store.offline.places import CHUNK_BYTES, Place
from jetbroker.store.offline.reader import SegmentPart, StreamSnapshot
from jetbroker.store.offline.shipped import read_manifest
from jetbroker.store.shipping.pace import Pace

ATTEMPTS = 20  # at a stream whose segments change while they are copied
PUBLISH_BYTES = 256 * 1024 * 1024  # what a kill may make the next shipper compare again
FRESH_NS = 2_000_000_000  # a file may change twice within one tick of its time stamp
KEEP_DROPPED_SECONDS = 3600


@dataclass
class Shipped:
    """What one pass did to a stream: objects and bytes that were uploaded, and what the place has of it now."""

    account: str
    stream: str
    objects: int = 0
    bytes: int = 0
    segments: int = 0
    last_seq: int = 0


class _ChangedError(Exception):
    """A file is not what it was when the stream was looked at: look again."""


class Shipper:
    """One store and one place. `unsealed` ships the segment that is being written, too, as far as it is on disk."""

    def __init__(
        self,
        store: str | os.PathLike[str],
        place: Place,
        pace: Pace | None = None,
        *,
        unsealed: bool = False,
        keep_dropped: float = KEEP_DROPPED_SECONDS,
    ) -> None:
        self.store = store
        self.place = place
        self.pace = pace or Pace()
        self.unsealed = unsealed
        self.keep_dropped_ns = int(keep_dropped * 1e9)
        self._streams: dict[tuple[str, str], _StreamShipper] = {}

    def ship(self) -> Iterator[Shipped]:
        """One pass over all streams. Raises StorageError; what came before stands."""
        self._mark()
        for account, stream in reader.list_streams(self.store):
            shipper = self._streams.setdefault((account, stream), _StreamShipper(self, account, stream))
            try:
                yield shipper.ship()
            except StoreReadError:
                if (account, stream) in reader.list_streams(self.store):
                    raise  # else it was deleted meanwhile

    def _mark(self) -> None:
        """The place is this store's from now on. Raises PlaceError when it is another's."""
        document = reader.store_document(self.store)[1]
        epoch, version = document.get("epoch", ""), document.get("format", FORMAT_VERSION)
        if not isinstance(epoch, str) or type(version) is not int:
            raise StoreReadError(f"{os.fspath(self.store)!r}: jetbroker.json is damaged")
        mark = form.encode_marker(epoch, version, store_domain(document))
        there = self.place.read(form.MARKER, form.MARKER_BYTES)
        if there == mark:
            return
        if there is not None and form.decode_marker(there, self.place.address(form.MARKER))[0] != epoch:
            raise PlaceError(f"{self.place.text}: another store was shipped there; give this one a place of its own")
        self.place.write(form.MARKER, [mark])


@dataclass
class _StreamShipper:
    """One stream of them. `known` is what the place has of it, `done` what this process has uploaded, by file."""

    shipper: Shipper
    account: str
    stream: str
    known: Manifest | None = None
    begun: bool = False
    done: dict[tuple[str, Source], ShippedFile] = field(default_factory=dict)

    def ship(self) -> Shipped:
        if not self.begun:
            self.known = read_manifest(self.shipper.place, self.stream, self.account)
        result = Shipped(self.account, self.stream)
        for _ in range(ATTEMPTS):
            try:
                _Pass(self, result).run()
            except _ChangedError:
                continue
            self.done.clear()
            self.begun = True
            return result
        raise StorageError(f"stream {self.stream!r}: its segments change faster than they can be shipped")


class _Pass:
    """One attempt at one stream."""

    def __init__(self, of: _StreamShipper, result: Shipped) -> None:
        self.of = of
        self.place = of.shipper.place
        self.result = result
        self.now_ns = time.time_ns()
        self.unpublished = 0

    def run(self) -> None:
        store, of = self.of.shipper.store, self.of
        directory = reader.stream_folder(store, of.stream, of.account)
        meta = reader.stream_document(directory)
        logs = sorted((directory / "consumers").glob("*.log"))
        states = [(path.stem, _state_of(path, meta["stream_id"])) for path in logs]
        self.sources = _sources(directory)
        snapshot = reader.open_stream(store, of.stream, of.account)
        if snapshot.stream_id != meta["stream_id"]:
            raise _ChangedError
        self.folder = form.objects_folder(meta)
        known = of.known if of.known is not None and of.known.meta["stream_id"] == snapshot.stream_id else None
        self.known_files = {file.name: file for file in known.files()} if known else {}
        self.known_segments = {segment.part.first_seq: segment for segment in known.segments} if known else {}
        parts, last_seq = self._parts(snapshot)
        consumers = [self._consumer(stem, data) for stem, data in states if data]
        made = Manifest(meta, snapshot.domain, self.now_ns, last_seq, [], [], consumers)
        for part in parts:
            made.segments.append(self._segment(part))
            if self.unpublished >= PUBLISH_BYTES and (known is None or part.last_seq >= known.last_seq):
                self._publish(replace(made, last_seq=part.last_seq, segments=list(made.segments)), snapshot.damaged)
        self._publish(made, snapshot.damaged)
        self.result.segments, self.result.last_seq = len(parts), last_seq

    def _parts(self, snapshot: StreamSnapshot) -> tuple[list[SegmentPart], int]:
        """What to ship, and where it ends. Only the newest segment can be one that is being written."""
        parts = sorted([*snapshot.parts, *snapshot.dead_parts], key=lambda part: part.first_seq)
        if parts and parts[-1].limit is not None and not self.of.shipper.unsealed:
            parts.pop()
        return [part for part in parts if part.messages], parts[-1].last_seq if parts else 0

    def _segment(self, part: SegmentPart) -> ShippedSegment:
        source = self.sources.get(part.path)
        if source is None:
            raise _ChangedError
        before = self.known_segments.get(part.first_seq)
        file = before.file if before is not None else None
        if file is None or file.source != source:
            file = self.of.done.get((part.path, source)) or self._upload(part, source, file)
            self.of.done[part.path, source] = file
        return ShippedSegment(replace(part, path=file.name, sha256=file.sha256, file_bytes=file.size), file)

    def _upload(self, part: SegmentPart, source: Source, before: ShippedFile | None) -> ShippedFile:
        try:
            with open(part.path, "rb") as file:
                # what is only in the page cache might be gone after a power failure, and its sequences given anew
                os.fdatasync(file.fileno())
                size = source[0] if part.limit is None else part.limit
                sha256 = _digest(file, size)
                found = self._file(f"{part.first_seq:020d}", "seg", size, sha256, before, file)
                now = os.fstat(file.fileno())
        except FileNotFoundError:
            raise _ChangedError from None
        except OSError as error:
            raise StorageError(f"{part.path}: {error.strerror}") from None
        if size == source[0] and _source(now) != source:
            raise _ChangedError
        sure = size == source[0] and source[1] < self.now_ns - FRESH_NS
        return replace(found, source=source if sure else None)

    def _consumer(self, stem: str, state: bytes) -> ShippedFile:
        sha256 = hashlib.sha256(state).hexdigest()
        return self._file(stem, "log", len(state), sha256, None, io.BytesIO(state))

    def _file(
        self, stem: str, suffix: str, size: int, sha256: str, before: ShippedFile | None, content: IO[bytes]
    ) -> ShippedFile:
        """The object with this content, uploaded if it is not there."""
        wanted = ShippedFile(f"{stem}.{sha256[: form.HASH_DIGITS]}.{suffix}", size, sha256)
        known = before or self.known_files.get(wanted.name)
        if known is not None and (known.sha256, known.size) == (sha256, size):
            return replace(known, source=None)
        name = f"{self.folder}/{wanted.name}"
        if self.place.size(name) == size and self._digest_there(name) == sha256:
            return wanted
        sent = hashlib.sha256()
        content.seek(0)
        self.place.write(name, self._sent(content, size, sent.update))
        if sent.hexdigest() != sha256:
            self.place.remove(name)
            raise _ChangedError
        if self._digest_there(name) != sha256:
            self.place.remove(name)
            raise PlaceError(f"{self.place.address(name)} does not hold what was sent")
        self.result.objects += 1
        self.result.bytes += size
        self.unpublished += size
        return wanted

    def _sent(self, content: IO[bytes], size: int, update: Callable[[bytes], None]) -> Iterator[bytes]:
        for chunk in _read(content, size):
            self.of.shipper.pace(len(chunk))
            update(chunk)
            yield chunk

    def _digest_there(self, name: str) -> str:
        digest = hashlib.sha256()
        for chunk in self.place.chunks(name, self.of.shipper.pace):
            digest.update(chunk)
        return digest.hexdigest()

    def _publish(self, made: Manifest, damaged: list[tuple[int, int]]) -> None:
        """Write the manifest, unless the place has this already; objects that it does not name go, later."""
        of, last = self.of, made.last_seq
        made.damaged = [(first, min(end, last)) for first, end in damaged if first <= last]
        dropped = self._dropped(made)
        over = {name for name, at_ns in dropped if at_ns + of.shipper.keep_dropped_ns <= self.now_ns}
        for name in sorted(over):
            self.place.remove(name)
        made.dropped = [entry for entry in dropped if entry[0] not in over]
        known = of.known
        if known is None or not made.same_as(known) or made.dropped != known.dropped:
            self.place.write(form.manifest_name(of.account, of.stream), [made.encode()])
            of.known = made
        self.unpublished = 0
        self.known_files = {file.name: file for file in made.files()}

    def _dropped(self, made: Manifest) -> list[tuple[str, int]]:
        """What is no part of the stream any more; in a process's first pass also what a kill has left behind."""
        named = {f"{self.folder}/{file.name}" for file in made.files()}
        known = self.of.known
        dropped = dict(known.dropped) if known is not None else {}
        if known is not None:
            folder = form.objects_folder(known.meta)
            for file in known.files():
                dropped.setdefault(f"{folder}/{file.name}", self.now_ns)
        if not self.of.begun:
            for name in self.place.names(self.folder):
                dropped.setdefault(name, self.now_ns)
        return [(name, at_ns) for name, at_ns in dropped.items() if name not in named]


def _state_of(path: Path, stream_id: int) -> bytes:
    """A consumer's state log, up to its last whole record; empty when it was deleted, or is no log."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return b""
    return data[: read_frames(data, seed_of(stream_id))[2]] if data.startswith(STATE_MAGIC) else b""


def _sources(directory: Path) -> dict[str, Source]:
    found = {}
    for entry in os.scandir(directory):
        try:
            found[entry.path] = _source(entry.stat())
        except FileNotFoundError:
            continue
    return found


def _source(found: os.stat_result) -> Source:
    return found.st_size, found.st_mtime_ns, found.st_ino


def _digest(file: IO[bytes], size: int) -> str:
    digest = hashlib.sha256()
    for chunk in _read(file, size):
        digest.update(chunk)
    return digest.hexdigest()


def _read(file: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0 and (chunk := file.read(min(CHUNK_BYTES, size))):
        size -= len(chunk)
        yield chunk
