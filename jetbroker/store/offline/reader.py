"""The offline reader: streams read from their files, while a broker runs on them or not.

`open_stream` fixes one consistent point: the log up to some byte of its newest segment, together with every deletion
recorded up to there.  It takes no lock and writes nothing.  Segments are then read by their columns, in this process
(`StreamSnapshot.batches`) or, part by part, in others (`read_part`: parts and queries can be pickled).

A message can be in the files a moment before its publish ack goes out; it may then be read here a little earlier than
a consumer gets it.
"""

from __future__ import annotations

import logging
import mmap
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jetbroker.errors import SegmentGoneError, StoreReadError, StoreVersionError
from jetbroker.limits import READER_BATCH_ROWS
from jetbroker.store.format.documents import decode_document, header_meta, segment_sequence, store_domain, stream_meta
from jetbroker.store.format.names import decode_name, encode_name
from jetbroker.store.format.records import FORMAT_VERSION, PREVIOUS_WAS_SEALED, SegmentHeader, decode_header
from jetbroker.store.offline.columns import SegmentColumns, clip_ranges, merge_ranges, ranges_cover
from jetbroker.store.offline.segment_cache import file_of
from jetbroker.wire.subjects import valid_literal, valid_subject

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

COLUMNS = ("stream", "seq", "time", "subject", "headers", "data", "size", "domain")
MAX_SEQ = 2**64 - 1
MIN_TIME_NS = -(2**63)
MAX_TIME_NS = 2**63 - 1
LISTING_ATTEMPTS = 20  # retention may remove a segment between listing and opening; then the listing is made anew
HIDDEN_PREFIX = "."  # folders in the making or on their way out
HEADER_PREFIX_BYTES = 64


@dataclass(frozen=True)
class Query:
    """What to read. Sequences and times are inclusive; times in ns since 1970; `subject` a NATS pattern, "" for all.

    `verify` checks each record's CRC even where the footer of a sealed segment alone answers the query. `domains` are
    those whose stores are read (None among them: stores that name none), None: all. With `include_deleted` messages
    that were removed come too, as long as their records are in the files and were not overwritten.
    """

    start_seq: int = 0
    end_seq: int = MAX_SEQ
    start_ns: int = MIN_TIME_NS
    end_ns: int = MAX_TIME_NS
    subject: str = ""
    verify: bool = False
    domains: frozenset[str | None] | None = None
    include_deleted: bool = False

    def __post_init__(self) -> None:
        if self.subject and not valid_subject(self.subject.encode()):
            raise StoreReadError(f"{self.subject!r} is not a valid subject pattern")


@dataclass(frozen=True)
class SegmentPart:
    """One segment within a snapshot: `messages` live messages of `size` bytes (headers and payload).

    `limit` is where its records end; None: its footer says so. `deleted` are the merged ranges that touch it, `torn`
    those of batches that never were whole. A segment of a shipped store is a file of `file_bytes` with this `sha256`,
    which `path` may name by URL. `mark` is that of the sequence from which the stream was opened, see SegmentColumns.
    """

    path: str
    stream: str
    domain: str | None
    stream_id: int
    first_seq: int
    last_seq: int
    records_start: int
    limit: int | None
    messages: int
    size: int
    first_ns: int
    last_ns: int
    deleted: bytes
    account: str = ""
    torn: bytes = b""
    sha256: str = ""
    file_bytes: int = 0
    mark: tuple[int, int, int] | None = None


@dataclass
class StreamSnapshot:
    """A stream at one point: `messages` live messages of `size` bytes (headers and payload), in `parts`.

    `dead_parts` are segments without any live message. `domain` is what its store names, None for none. `damaged` lists
    the (first, last) sequences that cannot be read, as far as known: reading adds to it. `missing_end` is a
    sentence when the newest segment is missing, as in a copy that is not whole, else "".
    """

    stream: str
    account: str
    domain: str | None
    config: dict[str, Any]
    parts: list[SegmentPart]
    messages: int
    size: int
    first_seq: int
    last_seq: int
    damaged: list[tuple[int, int]] = field(default_factory=list)
    stream_id: int = 0
    dead_parts: list[SegmentPart] = field(default_factory=list)
    missing_end: str = ""

    def plan(self, query: Query) -> list[SegmentPart]:
        """The parts that may hold what is asked."""
        if query.domains is not None and self.domain not in query.domains:
            return []
        parts = self.parts
        if query.include_deleted:
            parts = sorted([*parts, *self.dead_parts], key=lambda part: part.first_seq)
        if query.start_ns > MAX_TIME_NS or query.end_ns < MIN_TIME_NS:
            return []
        planned = [
            part
            for part in parts
            if part.first_seq <= query.end_seq
            and part.last_seq >= query.start_seq
            # the times of a part are those of its live messages
            and (query.include_deleted or (part.first_ns <= query.end_ns and part.last_ns >= query.start_ns))
        ]
        if query.subject:
            planned = [part for part in planned if _select(part, _open_part(part, query), query) > 0]
        return planned

    def nth_seq(self, query: Query, count: int) -> int | None:
        """The sequence of the count-th message (from 1) that the query takes; None when it takes fewer."""
        for part in self.plan(replace(query, subject="")):
            segment = _open_part(part, query)
            rows = _select(part, segment, query)
            if rows >= count:
                return segment.seq_of(count - 1)
            count -= rows
        return None

    def batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        start_seq: int = 0,
        end_seq: int = MAX_SEQ,
        start_ns: int = MIN_TIME_NS,
        end_ns: int = MAX_TIME_NS,
        subject: str = "",
        verify: bool = False,
        batch_rows: int = READER_BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """The live messages in order, as Arrow batches of these columns (all of COLUMNS by default)."""
        from jetbroker.store.offline.arrow import schema_of

        query = Query(start_seq, end_seq, start_ns, end_ns, subject, verify)
        schema = schema_of(columns or COLUMNS)
        for part in self.plan(query):
            yield from read_part(part, query, schema, batch_rows, self.damaged)

    def to_arrow(self, columns: Sequence[str] | None = None, **query: Any) -> pa.Table:
        """All of it as one table; takes what `batches` takes."""
        import pyarrow as pa

        from jetbroker.store.offline.arrow import schema_of

        return pa.Table.from_batches(self.batches(columns, **query), schema_of(columns or COLUMNS))


def read_part(
    part: SegmentPart,
    query: Query,
    schema: pa.Schema,
    batch_rows: int = READER_BATCH_ROWS,
    damaged: list[tuple[int, int]] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The messages of one part as batches of this schema; unreadable ones are skipped, logged, added to `damaged`."""
    from jetbroker.store.offline.arrow import record_batch, wanted

    segment = _open_part(part, query)
    rows = _select(part, segment, query)
    known = len(segment.damaged)
    want = wanted(schema)
    start = 0
    try:
        while start < rows:
            # what was overwritten still stands in the footer
            decoded = segment.batch(start, batch_rows, want, query.verify or query.include_deleted)
            start += decoded[0]
            if decoded[1]:
                yield record_batch(schema, part, decoded)
    finally:  # also for those who have enough before the end
        for first, last in [pair for ends in segment.damaged[known:] for pair in without(*ends, part.deleted)]:
            log.warning("stream %r: the record of sequence %d in %s is damaged, skipped", part.stream, first, part.path)
            if damaged is not None:
                damaged.append((first, last))


def is_literal(subject: str) -> bool:
    """Can this be the subject of a message, and as a pattern match nothing else?"""
    return valid_literal(subject.encode())


def list_streams(store_dir: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """(account, stream) of every stream with files in the store, sorted."""
    return sorted(_stream_directories(_store(store_dir)[0]))


class NewestSegment:
    """The segment that is being written, kept by who opens a stream again and again: only what is new is walked."""

    def __init__(self) -> None:
        self._of: tuple[int, int, SegmentHeader] | None = None  # device, inode and header of its file
        self._segment: SegmentColumns | None = None

    def columns(self, entry: _Listed, stream_id: int, from_seq: int) -> SegmentColumns:
        """Of messages before `from_seq` it may say what was so at an earlier time."""
        data, file = _mapped_file(entry.path)
        of = None if entry.header is None else (*file, entry.header)
        if of is None or of != self._of or self._segment is None or not self._segment.grow(data, from_seq):
            start = entry.header.header_len if entry.header else 0
            self._segment = SegmentColumns(data, stream_id, entry.first_seq, start)
            self._of = of
        return self._segment


def open_stream(
    store_dir: str | os.PathLike[str],
    stream: str,
    account: str = "$G",
    domain: str = "",
    from_seq: int = 1,
    newest: NewestSegment | None = None,
) -> StreamSnapshot:
    """Fixes the present state of a stream for reading. `store_dir`: as configured, or its `jetstream` folder.

    With a `domain`, only the store of this JetStream domain will do. What a reader that needs nothing before `from_seq`
    can spare is not opened: the snapshot then begins with the segment of that sequence. `newest` keeps what was walked.
    Raises StoreReadError when there is no such store or stream, StoreVersionError for a store of a newer release.
    """
    root, named = _store(store_dir)
    check_domain(root, domain, named)
    directories = _stream_directories(root)
    directory = directories.get((account, stream))
    if directory is None:
        raise StoreReadError(no_such_stream(root, stream, account, directories))
    document = stream_document(directory)
    if (document.get("account", account), document.get("name", stream)) != (account, stream):
        raise StoreReadError(f"folder {str(directory)!r} of stream {stream!r} holds the files of another stream")
    if document.get("config", {}).get("storage") == "memory":
        raise StoreReadError(f"stream {stream!r} has memory storage: its messages are in no file")
    for _ in range(LISTING_ATTEMPTS):
        try:
            snapshot = _snapshot(directory, stream, account, named, document, from_seq, newest or NewestSegment())
            if snapshot.missing_end:
                log.warning("%s", snapshot.missing_end)
            return snapshot
        except FileNotFoundError:
            if not directory.is_dir():
                raise StoreReadError(f"stream {stream!r} was deleted while it was opened") from None
    raise StoreReadError(f"the segments of stream {stream!r} change faster than they can be listed")


def stream_folder(store_dir: str | os.PathLike[str], stream: str, account: str = "$G") -> Path:
    """The folder with a stream's files. Raises StoreReadError when there is none."""
    root = _store(store_dir)[0]
    directories = _stream_directories(root)
    if (account, stream) not in directories:
        raise StoreReadError(no_such_stream(root, stream, account, directories))
    return directories[account, stream]


def part_columns(part: SegmentPart, query: Query | None = None) -> SegmentColumns:
    """The segment of a part, with what a query takes chosen (default: its live messages).

    Raises StoreReadError when it is gone.
    """
    query = query or Query()
    segment = _open_part(part, query)
    _select(part, segment, query)
    return segment


def file_bytes(part: SegmentPart) -> int | None:
    """The size of a segment's file; None when retention has taken it meanwhile."""
    if part.sha256:
        return part.file_bytes
    try:
        return os.stat(part.path).st_size
    except FileNotFoundError:
        return None


def only_sequences(snapshot: StreamSnapshot, sequences: Iterable[int]) -> StreamSnapshot:
    """The snapshot with those of these messages alone that are live."""
    wanted = sorted(set(sequences))
    parts = []
    for part in snapshot.parts:
        mine = wanted[bisect_left(wanted, part.first_seq) : bisect_right(wanted, part.last_seq)]
        live = [seq for seq in mine if not ranges_cover(part.deleted, seq, seq)]
        if not live:
            continue
        around = [part.first_seq - 1, *live, part.last_seq + 1]
        others = [(before + 1, after - 1) for before, after in pairwise(around) if before + 1 < after]
        parts.append(replace(part, messages=len(live), deleted=merge_ranges(part.deleted + packed_ranges(others))))
    return replace(snapshot, parts=parts, dead_parts=[], messages=sum(part.messages for part in parts))


def _store(store_dir: str | os.PathLike[str]) -> tuple[Path, str | None]:
    """The folder of a store, and the domain that it names."""
    root, document = store_document(store_dir)
    return root, store_domain(document)


def store_document(store_dir: str | os.PathLike[str]) -> tuple[Path, dict[str, Any]]:
    """The folder that holds jetbroker.json, and what that says; {}: it is damaged.

    Raises StoreReadError when there is none, StoreVersionError for a store of a newer release.
    """
    given = Path(store_dir)
    for root in (given, given / "jetstream"):
        marker = root / "jetbroker.json"
        if marker.is_file():
            break
    else:
        what = "no such directory: name the broker's store_dir, or its jetstream folder"
        if given.is_dir():
            what = "no store of jetbroker (jetbroker.json is missing): name the broker's store_dir, or copy all of it"
        raise StoreReadError(f"{os.fspath(store_dir)!r}: {what}")
    document = _json_document(marker)
    version = document.get("format", FORMAT_VERSION)
    if type(version) is int and version > FORMAT_VERSION:
        raise StoreVersionError(
            f"store {str(root)!r} has format {version!r}, this release reads up to {FORMAT_VERSION}: update jetbroker"
        )
    return root, document


def _stream_directories(root: Path) -> dict[tuple[str, str], Path]:
    found = {}
    for account in _subdirectories(root):
        for directory in _subdirectories(account):
            if not _holds_stream(directory):
                continue
            names = decode_name(account.name), decode_name(directory.name)
            if (encode_name(names[0]), encode_name(names[1])) != (account.name, directory.name):
                # a long name is cut: the true one stands inside
                document = stream_document(directory)
                names = document.get("account", names[0]), document.get("name", names[1])
            found[names] = directory
    return found


def _holds_stream(directory: Path) -> bool:
    try:
        return (directory / "stream.json").exists() or bool(_segment_paths(directory))
    except FileNotFoundError:  # it is being deleted
        return False


def check_domain(root: object, wanted: str, named: str | None) -> None:
    """Raises StoreReadError when a store that names this domain is not of the one that is wanted ("": any)."""
    if wanted and wanted != named:
        what = (
            f"is of domain {named!r}, not {wanted!r}" if named else f"names no domain, so it is not that of {wanted!r}"
        )
        raise StoreReadError(f"store {str(root)!r} {what}")


def no_such_stream(root: object, stream: str, account: str, there: Iterable[tuple[str, str]]) -> str:
    """Says what streams there are instead."""
    there = list(there)
    mine = sorted(name for owner, name in there if owner == account)
    others = sorted({owner for owner, name in there if owner != account and name == stream})
    text = f"no stream {stream!r} of account {account!r} in store {str(root)!r}; "
    text += f"there is {', '.join(mine)}" if mine else "this account has no stream on disk"
    if others:
        text += f"; account {', '.join(others)} has a stream of this name"
    return text + " (streams with memory storage are never on disk)"


def _subdirectories(directory: Path) -> list[Path]:
    try:
        entries = list(os.scandir(directory))
        return [Path(entry.path) for entry in entries if entry.is_dir() and not entry.name.startswith(HIDDEN_PREFIX)]
    except FileNotFoundError:
        return []


def _segment_paths(directory: Path) -> list[str]:
    return [entry.path for entry in os.scandir(directory) if entry.name.endswith(".seg") and entry.is_file()]


def _json_document(path: Path) -> dict[str, Any]:
    """The JSON object of a file whose last line holds its CRC; {} when it is missing or damaged."""
    try:
        return decode_document(path.read_bytes()) or {}
    except (FileNotFoundError, IsADirectoryError):
        return {}


def stream_document(directory: Path) -> dict[str, Any]:
    """What describes the stream in a folder: stream.json or the newest segment with a good header; {}: nothing does."""
    document = stream_meta(_json_document(directory / "stream.json"))
    if document is not None:
        return document
    try:
        for path in sorted(_segment_paths(directory), reverse=True):
            header = _read_header(path)
            document = header_meta(header.meta, header.stream_id) if header is not None else None
            if document is not None:
                return document
    except FileNotFoundError:
        log.debug("%s is being deleted", directory)
    return {}


def _read_header(path: str) -> SegmentHeader | None:
    """The header of a segment; None when it is damaged or not yet there."""
    with open(path, "rb") as file:
        prefix = file.read(HEADER_PREFIX_BYTES)
        length = int.from_bytes(prefix[12:16], "little")
        size = os.fstat(file.fileno()).st_size
        if length > size:
            return None
        try:
            return decode_header(prefix + file.read(max(0, length - len(prefix))))
        except ValueError as error:
            raise StoreVersionError(f"{path}: {error}; this release reads up to {FORMAT_VERSION}") from None


@dataclass(frozen=True)
class _Listed:
    path: str
    first_seq: int
    header: SegmentHeader | None


def _listing(directory: Path, stream: str, document: dict[str, Any], from_seq: int) -> tuple[list[_Listed], int]:
    """The stream's segments in order, from that of `from_seq` on, and its id; those of another stream are left out."""
    listed: list[_Listed] = []
    known = document.get("stream_id")
    for path in sorted(_segment_paths(directory), reverse=True):
        header = _read_header(path)
        first_seq = segment_sequence(Path(path).name)
        if first_seq is None or (header is not None and header.first_seq != first_seq):
            log.warning("stream %r: %s is no segment of this place, ignored", stream, path)
            continue
        if not listed and header is None and os.stat(path).st_size == 0:
            continue  # just made, or left so by a crash: what will be in it is not there yet
        listed.append(_Listed(path, first_seq, header))
        if first_seq <= from_seq and header is not None and header.stream_id == known:
            break  # what is older ends before
    listed.sort(key=lambda entry: entry.first_seq)
    ids = [entry.header.stream_id for entry in listed if entry.header]
    stream_id = document.get("stream_id", ids[-1] if ids else None)
    if listed and not isinstance(stream_id, int):
        raise StoreReadError(f"stream {stream!r} is damaged: neither stream.json nor any segment header is readable")
    own = [entry for entry in listed if entry.header is None or entry.header.stream_id == stream_id]
    for entry in listed:
        if entry not in own:
            log.warning("stream %r: %s belongs to another stream, ignored", stream, entry.path)
    return own, stream_id or 0


def _snapshot(
    directory: Path,
    stream: str,
    account: str,
    domain: str | None,
    document: dict[str, Any],
    from_seq: int,
    newest: NewestSegment,
) -> StreamSnapshot:
    """Newest segment first: what deletes a message stands in its own segment or in a newer one.

    Sequences that are in no segment, and that no deletion accounts for, were in one that is missing.
    """
    listed, stream_id = _listing(directory, stream, document, from_seq)
    parts: list[SegmentPart] = []
    damaged: list[tuple[int, int]] = []
    deleted = b""
    missing_end = ""
    newer: _Listed | None = None
    for entry in reversed(listed):
        header = entry.header
        limit = _valid_before(entry, newer)
        start = header.header_len if header else 0
        if newer is None:
            segment = newest.columns(entry, stream_id, from_seq)
            if segment.sealed and not _has_successor(entry.path):
                missing_end = _without_end(directory, stream, segment.last_seq)
        else:
            segment = SegmentColumns(_mapped(entry.path), stream_id, entry.first_seq, start, limit)
        deleted = merge_ranges(deleted + segment.deletions)
        own = clip_ranges(deleted, entry.first_seq, segment.last_seq)
        damage = list(segment.damaged)
        if newer is not None:
            damage.append((segment.last_seq + 1, newer.first_seq - 1))
        torn = segment.torn_batches(deleted)
        if torn:
            damage = unpacked_ranges(merge_ranges(packed_ranges(damage + torn)))
            own = merge_ranges(own + packed_ranges(torn))
        for first, last in damage:
            damaged += without(first, last, deleted)
        segment.select(own)
        messages, size, first_ns, last_ns = segment.summary()
        limit = None if segment.sealed else segment.valid_end
        parts.append(
            SegmentPart(entry.path, stream, domain, stream_id, entry.first_seq, segment.last_seq, start, limit,
                        messages, size, first_ns, last_ns, own, account, merge_ranges(packed_ranges(torn)),
                        mark=segment.mark_of(from_seq))
        )  # fmt: skip
        deleted = clip_ranges(deleted, 0, entry.first_seq - 1) if entry.first_seq else b""
        newer = entry
    if newer is not None:
        damaged += without(from_seq, newer.first_seq - 1, deleted)
    parts = _without_repeated(stream, reversed(parts))
    return StreamSnapshot(
        stream,
        account,
        domain,
        document.get("config", {}),
        [part for part in parts if part.messages],
        sum(part.messages for part in parts),
        sum(part.size for part in parts),
        next((part.first_seq for part in parts if part.messages), 0),
        parts[-1].last_seq if parts else 0,
        sorted(damaged),
        stream_id,
        [part for part in parts if not part.messages],
        missing_end,
    )


def _without_repeated(stream: str, parts: Iterable[SegmentPart]) -> list[SegmentPart]:
    """Those whose sequences are not in the part before: a crash may bring back a file that another one replaced."""
    kept: list[SegmentPart] = []
    for part in parts:
        if kept and part.first_seq <= kept[-1].last_seq:
            log.warning("stream %r: the messages of %s are in the segment before, ignored", stream, part.path)
        else:
            kept.append(part)
    return kept


def _without_end(directory: Path, stream: str, last_seq: int) -> str:
    return (
        f"stream {stream!r}: the newest segment is missing in {str(directory)!r}, and with it all messages behind "
        f"sequence {last_seq}: copy the store again, all of it"
    )


def _has_successor(path: str) -> bool:
    """Is there a newer segment? A log makes the file of the next one before it seals the one before."""
    name = os.path.basename(path)
    return any(os.path.basename(other) > name for other in _segment_paths(Path(path).parent))


def _valid_before(entry: _Listed, newer: _Listed | None) -> int | None:
    """Where the records of an abandoned segment end; None when the segment itself says so."""
    if newer is None or newer.header is None or newer.header.previous_first_seq != entry.first_seq:
        return None
    return None if newer.header.valid_before == PREVIOUS_WAS_SEALED else newer.header.valid_before


def packed_ranges(ranges: list[tuple[int, int]]) -> bytes:
    """(first, last) pairs as the bytes that columns.pyx works on; merge_ranges puts them in order."""
    return b"".join(end.to_bytes(8, "little") for pair in ranges for end in pair)


def unpacked_ranges(ranges: bytes) -> list[tuple[int, int]]:
    """The opposite."""
    ends = [int.from_bytes(ranges[at : at + 8], "little") for at in range(0, len(ranges), 8)]
    return list(zip(ends[::2], ends[1::2], strict=True))


def without(first: int, last: int, deleted: bytes) -> list[tuple[int, int]]:
    """What of first..last is not in these merged ranges."""
    left = []
    touching = clip_ranges(deleted, first, last)
    for at in range(0, len(touching), 16):
        gap_first = int.from_bytes(touching[at : at + 8], "little")
        gap_last = int.from_bytes(touching[at + 8 : at + 16], "little")
        if first < gap_first:
            left.append((first, gap_first - 1))
        first = max(first, gap_last + 1)
    if first <= last:
        left.append((first, last))
    return left


def _mapped(path: str) -> mmap.mmap | bytes:
    """The file's content; a segment that is being made may still be empty."""
    return _mapped_file(path)[0]


def _mapped_file(path: str) -> tuple[mmap.mmap | bytes, tuple[int, int]]:
    """The same, with the device and the inode of the file."""
    with open(path, "rb") as file:
        about = os.fstat(file.fileno())
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if about.st_size else b""
        return content, (about.st_dev, about.st_ino)


def _open_part(part: SegmentPart, query: Query) -> SegmentColumns:
    """What a query needs of the segment as it was planned; raises StoreReadError when it is gone."""
    gone = SegmentGoneError(
        f"segment {part.path} of stream {part.stream!r} was removed after this read was planned (retention, purge or "
        "deletion of the stream); start the read again"
    )
    path = file_of(part.path, part.sha256, part.file_bytes) if part.sha256 else part.path
    try:
        header = _read_header(path)
        data = _mapped(path)
    except FileNotFoundError:
        raise gone from None
    if header is not None and header.stream_id != part.stream_id:
        raise gone
    mark = part.mark if part.mark is not None and query.start_seq >= part.mark[0] else None
    segment = SegmentColumns(data, part.stream_id, part.first_seq, part.records_start, part.limit, mark)
    if part.limit is not None and segment.size < part.limit:
        raise StoreReadError(f"segment {part.path} of stream {part.stream!r} was cut after this read was planned")
    if part.limit is None and not segment.sealed:
        raise StoreReadError(f"the footer of segment {part.path} was damaged after this read was planned; start again")
    return segment


def _select(part: SegmentPart, segment: SegmentColumns, query: Query) -> int:
    hidden = part.torn if query.include_deleted else part.deleted
    return segment.select(hidden, query.start_seq, query.end_seq, query.start_ns, query.end_ns, query.subject.encode())
