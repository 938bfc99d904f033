"""Copies what is sealed of a store to a place, beside a running broker or not; it takes no lock and asks nobody.

An object is named by its content and never changes. It counts once the stream's manifest names it, and that is
written last. So a shipper that is killed leaves nothing half, and the next one goes on: what the manifest names is not
looked at again, what was uploaded without it is compared with the file before it is sent anew.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from jetbroker.errors import ManifestError, PlaceError, StorageError, StoreReadError
from jetbroker.limits import READER_BATCH_ROWS
from jetbroker.store.format import hash_chain
from jetbroker.store.format.documents import store_domain
from jetbroker.store.format.records import FORMAT_VERSION, decode_header, seed_of
from jetbroker.store.log.statelog import STATE_MAGIC, read_frames
from jetbroker.store.offline import manifest as form
from jetbroker.store.offline import reader
from jetbroker.store.offline.columns import SegmentColumns, clip_ranges, ranges_cover
from jetbroker.store.offline.manifest import Manifest, ShippedFile, ShippedSegment, Source
from jetbroker.store.offline.places import CHUNK_BYTES, Place
from jetbroker.store.offline.reader import SegmentPart, StreamSnapshot
from jetbroker.store.offline.shipped import read_manifest
from jetbroker.store.shipping.pace import Pace

ATTEMPTS = 5  # at a stream that changes thoroughly meanwhile
CHAIN_PIECE_BYTES = 4 * 1024 * 1024  # of a hash chain: whole pieces do not change any more
PUBLISH_BYTES = 256 * 1024 * 1024  # what a kill may make the next shipper compare again
FRESH_NS = 2_000_000_000  # a file may change twice within one tick of its time stamp
KEEP_DROPPED_SECONDS = 3600
SETTLING_LOOKS, SETTLING_SECONDS = 21, 0.05


@dataclass
class Shipped:
    """What one pass did to a stream: objects and bytes that were uploaded, and what the place has of it now.

    `damaged` are (first, last) sequences that cannot be read, as far as this pass has looked.
    """

    account: str
    stream: str
    objects: int = 0
    bytes: int = 0
    segments: int = 0
    last_seq: int = 0
    damaged: list[tuple[int, int]] = field(default_factory=list)


class _AgainError(Exception):
    """The stream is not the one that was begun with: begin again."""


class Shipper:
    """One store and one place. `unsealed` ships the segment that is being written, too, as far as it is on disk.

    The first pass of one that is to `check` reads back everything that is there, and sends anew what is not whole.
    """

    def __init__(
        self,
        store: str | os.PathLike[str],
        place: Place,
        pace: Pace | None = None,
        *,
        unsealed: bool = False,
        check: bool = False,
        keep_dropped: float = KEEP_DROPPED_SECONDS,
    ) -> None:
        self.store = store
        self.place = place
        self.pace = pace or Pace()
        self.unsealed = unsealed
        self.check = check
        self.keep_dropped_ns = int(keep_dropped * 1e9)
        self._streams: dict[tuple[str, str], _StreamShipper] = {}

    def ship(self) -> Iterator[Shipped]:
        """One pass over all streams. Raises StorageError; what was shipped stands, and one stream stops no other."""
        self._mark()
        failed: StorageError | None = None
        for account, stream in reader.list_streams(self.store):
            shipper = self._streams.setdefault((account, stream), _StreamShipper(self, account, stream))
            try:
                yield shipper.ship()
            except PlaceError:
                raise
            except StorageError as error:
                if (account, stream) in reader.list_streams(self.store):  # else it was deleted meanwhile
                    failed = failed or error
        if failed is not None:
            raise failed

    def _mark(self) -> None:
        """The place is this store's from now on. Raises PlaceError when it is another's."""
        root, document = reader.store_document(self.store)
        if f"{self.place.text}/".startswith(f"{root.absolute()}/"):
            raise PlaceError(f"{self.place.text} is within the store: ship it elsewhere")
        epoch, version = document.get("epoch", ""), document.get("format", FORMAT_VERSION)
        if not isinstance(epoch, str) or type(version) is not int:
            raise StoreReadError(f"{os.fspath(self.store)!r}: jetbroker.json is damaged")
        mark = form.encode_marker(epoch, version, store_domain(document))
        there = self.place.read(form.MARKER, form.MARKER_BYTES)
        if there == mark:
            return
        if there is not None and self._epoch_of(there) not in (None, epoch):
            raise PlaceError(f"{self.place.text}: another store was shipped there; give this one a place of its own")
        self.place.write(form.MARKER, [mark])

    def _epoch_of(self, mark: bytes) -> str | None:
        """None: it is damaged."""
        try:
            return form.decode_marker(mark, self.place.address(form.MARKER))[0]
        except ManifestError:
            return None


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
            self.known = self._manifest()
        result = Shipped(self.account, self.stream)
        for _ in range(ATTEMPTS):
            try:
                _Pass(self, result).run()
            except _AgainError:
                continue
            self.done.clear()
            self.begun = True
            return result
        raise StorageError(f"stream {self.stream!r} changes faster than it can be shipped")

    def _manifest(self) -> Manifest | None:
        """What the place has of the stream; None: nothing, or nothing that can be followed."""
        try:
            return read_manifest(self.shipper.place, self.stream, self.account)
        except ManifestError:
            return None

    def open(self) -> StreamSnapshot:
        return reader.open_stream(self.shipper.store, self.stream, self.account)


class _Pass:
    """One attempt at one stream.

    Files are copied first, and what is removed is looked up behind that: a message that a delete overwrites meanwhile
    is then known to be removed, whichever of its bytes were copied.
    """

    def __init__(self, of: _StreamShipper, result: Shipped) -> None:
        self.of = of
        self.place = of.shipper.place
        self.result = result
        self.now_ns = time.time_ns()
        self.unpublished = 0
        self.copied: list[tuple[SegmentPart, ShippedFile]] = []
        self.written: SegmentColumns | None = None
        self.damaged: dict[int, list[tuple[int, int]]] = {}

    def run(self) -> None:
        of = self.of
        directory = reader.stream_folder(of.shipper.store, of.stream, of.account)
        self.meta = reader.stream_document(directory)
        logs = sorted((directory / "consumers").glob("*.log"))
        states = [(path.stem, _state_of(path, self.meta["stream_id"])) for path in logs]
        snapshot = self._look()
        self.folder = form.objects_folder(self.meta)
        known = of.known if of.known is not None and of.known.meta["stream_id"] == snapshot.stream_id else None
        trusted = known if of.begun or not of.shipper.check else None
        self.known_files = {file.name: file for file in trusted.files()} if trusted else {}
        self.chain = trusted.chain if trusted else []
        known_segments = {segment.part.first_seq: segment.file for segment in trusted.segments} if trusted else {}
        parts = sorted([*snapshot.parts, *snapshot.dead_parts], key=lambda part: part.first_seq)
        # only the newest can be one that is being written
        if parts and parts[-1].limit is not None and not of.shipper.unsealed:
            parts.pop()
        self.consumers = [self._object(stem, "log", state) for stem, state in states if state]
        for part in parts:
            file = self._segment(part, known_segments.get(part.first_seq)) if part.messages else None
            if file is not None:
                self.copied.append((part, file))
            elif part.messages and part.limit is not None:
                if part is not parts[-1]:
                    raise _AgainError  # it was sealed and packed after the newest one had been begun
                parts.pop()  # in another form by now: the next pass ships that
                break
            if self.unpublished >= PUBLISH_BYTES and (known is None or part.last_seq >= known.last_seq):
                self._publish(self._look(), part.last_seq)
        self.result.last_seq = parts[-1].last_seq if parts else 0
        if not of.begun or trusted is None or trusted.last_seq != self.result.last_seq:
            self.chain = self._chain(directory / hash_chain.FILE_NAME)
        self._publish(self._look() if self.result.objects else snapshot, self.result.last_seq)

    def _look(self) -> StreamSnapshot:
        """The stream as it is now. A message looks damaged while a delete overwrites it, until that is recorded."""
        told = set(self.of.known.damaged) if self.of.known is not None else set()
        for left in reversed(range(SETTLING_LOOKS)):
            snapshot = self.of.open()
            if snapshot.stream_id != self.meta["stream_id"]:
                raise _AgainError
            self.result.damaged = sorted({*snapshot.damaged, *self._unreadable(snapshot)})
            if not left or told.issuperset(self.result.damaged):
                break
            time.sleep(SETTLING_SECONDS)
        return snapshot

    def _unreadable(self, snapshot: StreamSnapshot) -> list[tuple[int, int]]:
        """What was copied damaged, and is not removed."""
        now = {part.first_seq: part.deleted for part in snapshot.parts}
        return [
            pair
            for first_seq, damaged in self.damaged.items()
            for pair in damaged
            if first_seq in now and not ranges_cover(now[first_seq], *pair)
        ]

    def _segment(self, part: SegmentPart, known: ShippedFile | None) -> ShippedFile | None:
        """The object of a segment; None when retention has taken it meanwhile, or it was sealed and packed."""
        try:
            with open(part.path, "rb") as file:
                source = _source(file.fileno())
                if known is not None and known.source == source:
                    return known
                found = self.of.done.get((part.path, source))
                if found is not None:
                    return found
                # what is only in the page cache might be gone after a power failure, and its sequences given anew
                os.fdatasync(file.fileno())
                data = file.read() if part.limit is None else file.read(part.limit)
                steady = _source(file.fileno()) == source and source[1] < self.now_ns - FRESH_NS
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{part.path}: {error.strerror}") from None
        copied = SegmentColumns(data, part.stream_id, part.first_seq, part.records_start, part.limit)
        if part.limit is not None and not self._keep_written(part, data, copied):
            return None
        self.damaged[part.first_seq] = _damaged(copied, part.deleted)
        found = self._object(f"{part.first_seq:020d}", "seg", data)
        if steady and len(data) == source[0]:
            found = replace(found, source=source)
            self.of.done[part.path, source] = found
        return found

    def _chain(self, path: Path) -> list[ShippedFile]:
        """The hash chain in pieces, up to its last whole entry. The file only grows while there is the stream."""
        pieces: list[ShippedFile] = []
        try:
            with open(path, "rb") as file:
                source = _source(file.fileno())
                end = hash_chain.whole(source[0])
                for index, at in enumerate(range(0, end, CHAIN_PIECE_BYTES)):
                    size = min(end - at, CHAIN_PIECE_BYTES)
                    known = self.chain[index] if index < len(self.chain) else None
                    if self.of.begun and known and known.size == size and (known.source or source)[2] == source[2]:
                        pieces.append(known)
                        continue
                    file.seek(at)
                    found = self._object(f"hash-chain-{index:08d}", "part", file.read(size))
                    pieces.append(replace(found, source=source))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror}") from None
        return pieces

    def _keep_written(self, part: SegmentPart, data: bytes, copied: SegmentColumns) -> bool:
        """Keep what was copied of a segment that may be written still; False: it was packed meanwhile."""
        header = decode_header(data)
        if len(data) != part.limit or (header is not None and header.packed):
            return False
        self.written = copied
        return True

    def _as_copied(self, copied: SegmentPart, now: SegmentPart) -> SegmentPart:
        """What a copied segment holds of what is there now: one that was being written has grown since."""
        if copied.limit in (None, now.limit):
            return now
        if self.written is None or self.written.first_seq != copied.first_seq:
            raise _AgainError
        deleted = clip_ranges(now.deleted, copied.first_seq, copied.last_seq)
        self.written.select(deleted)
        messages, size, first_ns, last_ns = self.written.summary()
        return replace(copied, deleted=deleted, messages=messages, size=size, first_ns=first_ns, last_ns=last_ns)

    def _object(self, stem: str, suffix: str, data: bytes) -> ShippedFile:
        """The object with this content, uploaded if it is not there."""
        sha256 = hashlib.sha256(data).hexdigest()
        wanted = ShippedFile(f"{stem}.{sha256[: form.HASH_DIGITS]}.{suffix}", len(data), sha256)
        known = self.known_files.get(wanted.name)
        if known is not None and (known.sha256, known.size) == (sha256, len(data)):
            return wanted
        name = f"{self.folder}/{wanted.name}"
        if self.place.size(name) == len(data) and self._digest_there(name) == sha256:
            return wanted
        self.place.write(name, self._sent(data))
        if self._digest_there(name) != sha256:
            self.place.remove(name)
            raise PlaceError(f"{self.place.address(name)} does not hold what was sent")
        self.result.objects += 1
        self.result.bytes += len(data)
        self.unpublished += len(data)
        return wanted

    def _sent(self, data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), CHUNK_BYTES):
            chunk = data[at : at + CHUNK_BYTES]
            self.of.shipper.pace(len(chunk))
            yield chunk

    def _digest_there(self, name: str) -> str:
        digest = hashlib.sha256()
        for chunk in self.place.chunks(name, self.of.shipper.pace):
            digest.update(chunk)
        return digest.hexdigest()

    def _publish(self, snapshot: StreamSnapshot, last_seq: int) -> None:
        """Write the manifest, unless the place has this already; objects that it does not name go, later."""
        of, known = self.of, self.of.known
        now = {part.first_seq: part for part in snapshot.parts}
        segments = [
            ShippedSegment(replace(part, path=file.name, sha256=file.sha256, file_bytes=file.size), file)
            for copied, file in self.copied
            if copied.first_seq in now and (part := self._as_copied(copied, now[copied.first_seq])).messages
        ]
        damaged = [(first, min(end, last_seq)) for first, end in snapshot.damaged if first <= last_seq]
        made = Manifest(
            self.meta, snapshot.domain, self.now_ns, last_seq, damaged, segments, self.consumers, chain=self.chain
        )
        dropped = self._dropped(made)
        over = {name for name, at_ns in dropped if at_ns + of.shipper.keep_dropped_ns <= self.now_ns}
        for name in sorted(over):
            self.place.remove(name)
        made.dropped = [entry for entry in dropped if entry[0] not in over]
        if known is None or not made.same_as(known) or made.dropped != known.dropped:
            self.place.write(form.manifest_name(of.account, of.stream), [made.encode()])
            of.known = made
        self.unpublished = 0
        self.result.segments = len(segments)

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


def _damaged(copied: SegmentColumns, deleted: bytes) -> list[tuple[int, int]]:
    """Which messages fail their checksum."""
    rows, start = copied.select(deleted), 0
    while start < rows:
        start += copied.batch(start, READER_BATCH_ROWS, 0, True)[0]
    return list(copied.damaged)


def _source(descriptor: int) -> Source:
    found = os.fstat(descriptor)
    return found.st_size, found.st_mtime_ns, found.st_ino
