"""A broker's store out of a shipped one: whole or not at all, up to a sequence or a time."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jetbroker.errors import PlaceError, StorageError, StoreReadError
from jetbroker.store.format import hash_chain
from jetbroker.store.format.documents import encode_document
from jetbroker.store.format.frames import unpack
from jetbroker.store.format.names import encode_name
from jetbroker.store.format.records import (
    MESSAGE,
    PREVIOUS_WAS_SEALED,
    decode_header,
    decode_record,
    encode_deletions,
    encode_header,
    find_next_record,
    seed_of,
)
from jetbroker.store.offline import manifest as form
from jetbroker.store.offline import reader, shipped
from jetbroker.store.offline.columns import SegmentColumns, merge_ranges
from jetbroker.store.offline.manifest import Manifest, ShippedFile
from jetbroker.store.offline.places import Place, sync_folder
from jetbroker.store.offline.reader import SegmentPart
from jetbroker.store.shipping.pace import Pace

STORE_FILE = "jetbroker.json"
RANGES_PER_RECORD = 4096
BATCH, BATCH_LAST = 8, 32
HASH_SUFFIX = 1 + form.HASH_DIGITS + len(".log")


@dataclass(frozen=True)
class Until:
    """Messages up to this sequence, and before this time (ns)."""

    seq: int = reader.MAX_SEQ
    ns: int = reader.MAX_TIME_NS

    def takes(self, seq: int, time_ns: int) -> bool:
        return seq <= self.seq and time_ns < self.ns


@dataclass(frozen=True)
class Restored:
    account: str
    stream: str
    messages: int
    last_seq: int


def restore(
    place: Place, target: Path, until: Until, pace: Pace, only: tuple[str, str] | None = None
) -> list[Restored]:
    """Make `target`, which must be absent or empty, a broker's store_dir. `only`: one (account, stream).

    Raises StorageError; there is nothing then.
    """
    _, version, domain = shipped.read_marker(place)
    streams = sorted(shipped.streams_at(place))
    if only is not None:
        if only not in streams:
            raise StoreReadError(reader.no_such_stream(place.text, only[1], only[0], streams))
        streams = [only]
    try:
        with _whole(target.absolute()) as folder:
            root = folder / "jetstream"
            root.mkdir()
            marker = {"format": version, "epoch": os.urandom(16).hex()} | ({"domain": domain} if domain else {})
            _write(root / STORE_FILE, [encode_document(marker)])
            found = [_Stream(place, root, account, stream, until, pace).restore() for account, stream in streams]
            sync_folder(root)
            return found
    except OSError as error:
        raise StorageError(f"{error.filename or target}: {error.strerror or error}") from None


@contextmanager
def _whole(target: Path) -> Iterator[Path]:
    """A folder that gets its name when all went well."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StoreReadError(f"{str(target)!r} is there already: restore into a folder that is absent or empty")
    if not target.parent.is_dir():
        raise StoreReadError(f"there is no folder {str(target.parent)!r}")
    hidden = target.with_name(f".{target.name}.restoring")
    hidden.mkdir(exist_ok=True)
    held = os.open(hidden, os.O_RDONLY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreReadError(f"{str(target)!r} is being restored by another process") from None
        try:
            for left in hidden.iterdir():  # by one that was killed
                shutil.rmtree(left)
            yield hidden
            sync_folder(hidden)
            hidden.replace(target)
            sync_folder(target.parent)
        except BaseException:
            shutil.rmtree(hidden, ignore_errors=True)
            raise
    finally:
        os.close(held)


class _Stream:
    """One stream on its way into a store."""

    def __init__(self, place: Place, root: Path, account: str, stream: str, until: Until, pace: Pace) -> None:
        self.place = place
        self.root = root
        self.account, self.stream = account, stream
        self.until = until
        self.pace = pace

    def restore(self) -> Restored:
        made = shipped.read_manifest(self.place, self.stream, self.account)
        if made is None:
            raise PlaceError(f"{self.place.text}: the manifest of stream {self.stream!r} went away")
        self.objects = form.objects_folder(made.meta)
        account = self.root / encode_name(self.account)
        folder = account / encode_name(self.stream)
        (folder / "consumers").mkdir(parents=True)
        _write(account / "account.json", [encode_document({"name": self.account})])
        _write(folder / "stream.json", [encode_document(made.meta)])
        self._segments(made, folder)
        self._chain(made, folder)
        for consumer in made.consumers:
            self._fetch(consumer, folder / "consumers" / f"{consumer.name[:-HASH_SUFFIX]}.log")
        for each in (folder / "consumers", folder, account):
            sync_folder(each)
        found = reader.open_stream(self.root, self.stream, self.account)
        if self.until == Until() and found.messages != sum(segment.part.messages for segment in made.segments):
            raise PlaceError(
                f"stream {self.stream!r} of {self.place.text}: {found.messages} messages came out of it, not what its "
                "manifest says: ship it again with --check"
            )
        return Restored(self.account, self.stream, found.messages, found.last_seq)

    def _segments(self, made: Manifest, folder: Path) -> None:
        """The segments as they are, the last one cut, and one to go on in: it records everything that is not there."""
        kept: list[SegmentPart] = []
        valid = PREVIOUS_WAS_SEALED
        last_seq = made.last_seq
        for segment in made.segments:
            part = segment.part
            path = folder / f"{part.first_seq:020d}.seg"
            self._fetch(segment.file, path)
            if self.until.takes(part.last_seq, part.last_ns):
                kept.append(part)
                valid = PREVIOUS_WAS_SEALED if part.limit is None else part.limit
                continue
            cut = _Cut(path.read_bytes(), part, self.until)
            path.unlink()
            if cut.part.last_seq:
                _write(path, [cut.content])
                kept.append(cut.part)
                valid = len(cut.content)
            last_seq = self.until.seq if self.until.ns == reader.MAX_TIME_NS else kept[-1].last_seq if kept else 0
            break
        stream_id, last_ns = made.meta["stream_id"], max((part.last_ns for part in kept), default=0)
        header = encode_header(
            stream_id, last_seq + 1, made.at_ns, kept[-1].first_seq if kept else 0, valid, _header_meta(made.meta)
        )
        ranges = _removed(kept, last_seq, made.damaged)
        records = (
            encode_deletions(stream_id, last_seq, last_ns, ranges[at : at + RANGES_PER_RECORD])
            for at in range(0, len(ranges), RANGES_PER_RECORD)
        )
        _write(folder / f"{last_seq + 1:020d}.seg", [header, *records])

    def _chain(self, made: Manifest, folder: Path) -> None:
        """The hash chain, up to the last message that is there: the broker goes on behind it."""
        if not made.chain:
            return
        path = folder / hash_chain.FILE_NAME
        pieces = []
        for piece in made.chain:
            self._fetch(piece, path)
            pieces.append(path.read_bytes())
        last_seq = reader.open_stream(self.root, self.stream, self.account).last_seq
        _write(path, [hash_chain.cut(b"".join(pieces), last_seq)])

    def _fetch(self, file: ShippedFile, path: Path) -> None:
        digest = hashlib.sha256()

        def chunks() -> Iterator[bytes]:
            for chunk in self.place.chunks(f"{self.objects}/{file.name}", self.pace):
                digest.update(chunk)
                yield chunk

        _write(path, chunks())
        if digest.hexdigest() != file.sha256:
            address = self.place.address(f"{self.objects}/{file.name}")
            raise PlaceError(
                f"{address} is damaged: its checksum is not that of its manifest; ship it again with --check"
            )


class _Cut:
    """The plain records of a segment up to where it is cut; a batch that would not be whole is left out."""

    def __init__(self, data: bytes, part: SegmentPart, until: Until) -> None:
        header = decode_header(data)
        if header is None:
            raise PlaceError(f"{part.path} of stream {part.stream!r} is damaged: its header cannot be read")
        end = SegmentColumns(data, part.stream_id, part.first_seq, part.records_start, part.limit).valid_end
        unpacked = unpack(data, seed_of(part.stream_id))
        plain = data if unpacked is None else unpacked[0]
        self.part = replace(part, last_seq=0, last_ns=0)
        kept = self._walk(plain, part.records_start, end, until)
        self.content = encode_header(
            header.stream_id, header.first_seq, header.created_ns, header.previous_first_seq, header.valid_before,
            header.meta,
        ) + plain[part.records_start : kept]  # fmt: skip

    def _walk(self, plain: bytes, at: int, end: int, until: Until) -> int:
        """Where the last record that is kept ends."""
        kept, last = at, (0, 0)
        while 0 <= at < end:
            record = decode_record(plain, at, self.part.stream_id)
            if record is None:
                at = find_next_record(plain, at + 1, self.part.stream_id)
                continue
            at += record.length
            if record.kind != MESSAGE:
                continue
            if not until.takes(record.seq, record.time_ns):
                break
            if not record.flags & BATCH or record.flags & BATCH_LAST:
                kept = at
                last = record.seq, record.time_ns
        self.part = replace(self.part, last_seq=last[0], last_ns=last[1])
        return kept


def _removed(kept: list[SegmentPart], last_seq: int, damaged: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Every sequence up to the last that has no message, and is not missing by damage."""
    ranges, behind = b"", 1
    for part in kept:
        ranges += part.deleted + _range(behind, part.first_seq - 1)
        behind = part.last_seq + 1
    ranges = merge_ranges(ranges + _range(behind, last_seq))
    return [
        pair
        for first, last in reader.unpacked_ranges(ranges)
        for pair in _outside(first, min(last, last_seq), damaged)
        if pair[0] <= pair[1]
    ]


def _outside(first: int, last: int, damaged: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for bad_first, bad_last in sorted(damaged):
        if bad_last < first or bad_first > last:
            continue
        yield first, bad_first - 1
        first = bad_last + 1
    yield first, last


def _range(first: int, last: int) -> bytes:
    return first.to_bytes(8, "little") + last.to_bytes(8, "little") if first <= last else b""


def _header_meta(meta: dict[str, Any]) -> dict[str, Any]:
    return {"account": meta["account"], "stream": meta["name"], "created": meta["created"], "config": meta["config"]}


def _write(path: Path, chunks: Iterable[bytes]) -> None:
    """A file that is on disk when this returns."""
    with path.open("wb") as file:
        file.writelines(chunks)
        file.flush()
        os.fsync(file.fileno())
