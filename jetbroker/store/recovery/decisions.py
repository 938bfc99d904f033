"""What start-up does with what it finds: one decision table, and the steps it names.

Nothing damaged is deleted here.  The only bytes ever cut are a torn tail of the segment that was being written.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Any

from jetbroker.store.cache.summary import Summary, adopt_summary
from jetbroker.store.compression.packing import TEMPORARY_SUFFIX
from jetbroker.store.disk import Disk
from jetbroker.store.format import records as store_format
from jetbroker.store.format.documents import decode_document, encode_document, segment_sequence, stream_meta
from jetbroker.store.format.footers import sound_footer_of
from jetbroker.store.format.frames import unpack
from jetbroker.store.log.filelog import FileLog
from jetbroker.store.log.scan import first_record, use_footer, walk_records
from jetbroker.store.log.segment_files import FileSegment


class Header(Enum):
    """What the head of a segment file looks like."""

    SOUND = "sound"
    DAMAGED = "damaged"  # its checksum fails; the file name still gives first_seq
    FOREIGN = "foreign"  # sound, but of another stream, or of another place in this one


class Body(Enum):
    """What stands behind the records."""

    FOOTER = "footer"  # a footer whose checksum holds and whose numbers agree
    BROKEN_FOOTER = "broken footer"  # a trailer, but the footer it names is damaged or says what cannot be
    OPEN = "open"  # no trailer
    FRAMES = "frames"  # no trailer either, and packed: nothing is ever appended to it


class Place(Enum):
    """Where the file stands among the stream's segments."""

    LAST = "last"
    INNER = "inner"


class Action(Enum):
    """What recovery does with the file."""

    USE_FOOTER = "use footer"
    REBUILD = "rebuild from records"  # read-only from then on
    CONTINUE = "rebuild, cut the torn tail, go on appending"
    SET_ASIDE = "leave untouched, report"


DECISIONS: dict[tuple[Header, Body, Place], Action] = {
    (Header.SOUND, Body.FOOTER, Place.LAST): Action.USE_FOOTER,
    (Header.SOUND, Body.FOOTER, Place.INNER): Action.USE_FOOTER,
    (Header.SOUND, Body.BROKEN_FOOTER, Place.LAST): Action.REBUILD,
    (Header.SOUND, Body.BROKEN_FOOTER, Place.INNER): Action.REBUILD,
    (Header.SOUND, Body.OPEN, Place.LAST): Action.CONTINUE,
    (Header.SOUND, Body.OPEN, Place.INNER): Action.REBUILD,
    (Header.SOUND, Body.FRAMES, Place.LAST): Action.REBUILD,
    (Header.SOUND, Body.FRAMES, Place.INNER): Action.REBUILD,
    (Header.DAMAGED, Body.FOOTER, Place.LAST): Action.USE_FOOTER,
    (Header.DAMAGED, Body.FOOTER, Place.INNER): Action.USE_FOOTER,
    (Header.DAMAGED, Body.BROKEN_FOOTER, Place.LAST): Action.REBUILD,
    (Header.DAMAGED, Body.BROKEN_FOOTER, Place.INNER): Action.REBUILD,
    (Header.DAMAGED, Body.OPEN, Place.LAST): Action.REBUILD,
    (Header.DAMAGED, Body.OPEN, Place.INNER): Action.REBUILD,
    (Header.DAMAGED, Body.FRAMES, Place.LAST): Action.REBUILD,
    (Header.DAMAGED, Body.FRAMES, Place.INNER): Action.REBUILD,
    (Header.FOREIGN, Body.FOOTER, Place.LAST): Action.SET_ASIDE,
    (Header.FOREIGN, Body.FOOTER, Place.INNER): Action.SET_ASIDE,
    (Header.FOREIGN, Body.BROKEN_FOOTER, Place.LAST): Action.SET_ASIDE,
    (Header.FOREIGN, Body.BROKEN_FOOTER, Place.INNER): Action.SET_ASIDE,
    (Header.FOREIGN, Body.OPEN, Place.LAST): Action.SET_ASIDE,
    (Header.FOREIGN, Body.OPEN, Place.INNER): Action.SET_ASIDE,
    (Header.FOREIGN, Body.FRAMES, Place.LAST): Action.SET_ASIDE,
    (Header.FOREIGN, Body.FRAMES, Place.INNER): Action.SET_ASIDE,
}


@dataclass
class SegmentFile:
    """One `.seg` file as found."""

    path: str
    name_seq: int
    size: int
    fd: int
    header: store_format.SegmentHeader | None
    header_state: Header = Header.SOUND
    body: Body = Body.OPEN
    footer: bytes = b""
    trailer: tuple[int, int, int] | None = None
    packed: bool = False  # as the footer has it, else the header; its version is covered by no checksum
    index_len: int = 0  # of the frame index in front of the footer, 0 in a plain segment
    summary: Summary | None = None  # of the cache; it stands for header and footer, which are not read then


@dataclass
class StreamFiles:
    """Everything a stream's directory tells before its records are read."""

    directory: str
    meta: dict[str, Any] | None  # stream.json, None when missing or damaged
    segments: list[SegmentFile]
    temporary: list[str] = field(default_factory=list)  # segments in the making, when the broker was killed
    damage: list[str] = field(default_factory=list)

    def close(self, disk: Disk) -> None:
        """Close what is open: the stream cannot be used."""
        for segment in self.segments:
            if segment.fd >= 0:
                disk.close(segment.fd)
                segment.fd = -1


def read_checked_json(disk: Disk, path: str) -> dict[str, Any] | None:
    """A file written by `write_checked_json`; None when it is missing or its checksum fails."""
    try:
        fd = disk.open(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return decode_document(disk.read(fd, disk.size(fd), 0))
    except IsADirectoryError:
        return None
    finally:
        disk.close(fd)


def write_checked_json(disk: Disk, path: str, value: dict[str, Any]) -> None:
    """Write `value` and its CRC atomically; durable when this returns, once the directory is (it is synced here)."""
    data = encode_document(value)
    temporary = path + ".new"
    fd = disk.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        disk.write_all(fd, data, 0)
        disk.fdatasync(fd)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        disk.close(fd)
    disk.rename(temporary, path)
    disk.sync_directory(os.path.dirname(path))


def survey(disk: Disk, directory: str, summaries: Callable[[], dict[int, Summary]] | None = None) -> StreamFiles:
    """Look at a stream's directory without changing anything.

    `summaries` is asked for what the cache knows when there are sealed segments and stream.json is sound.
    """
    files = StreamFiles(directory, stream_meta(read_checked_json(disk, f"{directory}/stream.json")), [])
    found = []
    for name in disk.listdir(directory):
        first_seq = segment_sequence(name)
        if first_seq is not None and not os.path.isdir(f"{directory}/{name}"):
            found.append((first_seq, name))
        elif name.endswith(TEMPORARY_SUFFIX) or ".seg.new" in name:
            files.temporary.append(f"{directory}/{name}")
    known: dict[int, Summary] = {}
    if summaries is not None and len(found) > 1 and files.meta is not None:
        known = summaries()
    for first_seq, name in found:
        summary = known.get(first_seq)
        if summary is not None and files.meta is not None and summary[0].get("stream_id") != files.meta["stream_id"]:
            summary = None
        files.segments.append(_survey_segment(disk, f"{directory}/{name}", first_seq, summary))
    if files.meta is None and files.segments:
        files.damage.append(f"{directory}/stream.json is missing or damaged; the segments' own copy is used")
    _judge_headers(files)
    return files


def _survey_segment(disk: Disk, path: str, name_seq: int, summary: Summary | None) -> SegmentFile:
    fd = disk.open(path, os.O_RDWR)
    size = disk.size(fd)
    tail = disk.read(fd, 32, max(0, size - 32))
    trailer = store_format.decode_trailer(tail)
    whole = trailer is not None and trailer[0] + trailer[1] + 32 == size and trailer[0] % 8 == 0
    index_len = int.from_bytes(tail[20:24], "little")
    if whole and summary is not None and trailer is not None and _describes(summary, size, trailer, name_seq):
        disk.close(fd)
        return _summarized(path, name_seq, size, trailer, index_len, summary)
    head = disk.read(fd, min(size, 65536), 0)
    if len(head) >= 60 and int.from_bytes(head[12:16], "little") > len(head):
        head = disk.read(fd, min(size, int.from_bytes(head[12:16], "little")), 0)
    try:
        header = store_format.decode_header(head)
    except ValueError:
        # the store's own marker says the version is ours, so this byte is damaged
        header = None
    found = SegmentFile(path, name_seq, size, fd, header)
    found.trailer = trailer
    if header is not None and header.packed:
        found.body = Body.FRAMES
    if trailer is not None:
        found.index_len = index_len
        found.body = Body.BROKEN_FOOTER
    found.packed = header.packed if header is not None else found.index_len > 0
    if whole and trailer is not None:
        at, length, crc = trailer
        stored = disk.read(fd, length, at)
        if len(stored) == length and store_format.crc32c(stored) == crc:
            _take_footer(found, stored, at)
    return found


def _take_footer(found: SegmentFile, stored: bytes, at: int) -> None:
    for packed in (found.packed, not found.packed):
        footer = sound_footer_of(stored, packed, found.name_seq, at)
        if footer is not None:
            found.footer, found.packed, found.body = footer, packed, Body.FOOTER
            return


def _describes(summary: Summary, size: int, trailer: tuple[int, int, int], name_seq: int) -> bool:
    """Is the summary of this very file? Its footer's CRC covers the place, time and size of every record."""
    file = summary[0]
    said = (file["size"], file["footer_at"], file["footer_len"], file["footer_crc"], file["first_seq"])
    return said == (size, *trailer, name_seq)


def _summarized(
    path: str, name_seq: int, size: int, trailer: tuple[int, int, int], index_len: int, summary: Summary
) -> SegmentFile:
    file = summary[0]
    header = store_format.SegmentHeader(
        file["header_len"],
        file["stream_id"],
        file["first_seq"],
        file["created"],
        file["previous"],
        file["valid_before"],
        {},
        file.get("packed", False),
    )
    found = SegmentFile(path, name_seq, size, -1, header, body=Body.FOOTER, trailer=trailer, summary=summary)
    found.index_len = index_len
    found.packed = header.packed
    return found


def _judge_headers(files: StreamFiles) -> None:
    """Damaged, or sound but not of this stream or place."""
    stream_id = stream_id_of(files)
    for segment in files.segments:
        if segment.header is None:
            segment.header_state = Header.DAMAGED
            files.damage.append(f"{segment.path}: the segment header is damaged")
        elif segment.header.stream_id != stream_id or segment.header.first_seq != segment.name_seq:
            segment.header_state = Header.FOREIGN
            files.damage.append(f"{segment.path}: belongs to another stream or place; it is left alone")


def stream_id_of(files: StreamFiles) -> int | None:
    """From stream.json, else what most segment headers say."""
    if files.meta is not None:
        return int(files.meta["stream_id"])
    ids = [segment.header.stream_id for segment in files.segments if segment.header is not None]
    return max(set(ids), key=ids.count) if ids else None


def recover_segments(disk: Disk, files: StreamFiles, log: FileLog) -> tuple[list[FileSegment], FileSegment | None]:
    """Turn the surveyed files into segments; the second value is the one to go on appending to, if any.

    `files.damage` grows by a line for everything that was not as it should be.
    """
    usable = [s for s in files.segments if s.header_state is not Header.FOREIGN]
    for left in files.segments:
        if left.header_state is Header.FOREIGN and left.fd >= 0:
            disk.close(left.fd)
            left.fd = -1
    out: list[FileSegment] = []
    active: FileSegment | None = None
    _distrust_failed(usable)
    for path in files.temporary:
        disk.unlink(path)
    for index, found in enumerate(usable):
        place = Place.LAST if index == len(usable) - 1 else Place.INNER
        action = DECISIONS[found.header_state, found.body, place]
        if out and found.name_seq < out[-1].first_seq + out[-1].slots:
            files.damage.append(f"{found.path}: its sequences are in the segment before; it is left alone")
            if found.fd >= 0:
                disk.close(found.fd)
                found.fd = -1
            continue
        segment = FileSegment(found.name_seq, found.path)
        segment.fd = found.fd
        segment.end = found.size
        segment.index_len = found.index_len
        segment.packed = found.packed
        if found.header is not None:
            segment.header_len = found.header.header_len
            segment.created_ns = found.header.created_ns
            segment.previous = found.header.previous_first_seq
            segment.valid_before = found.header.valid_before
        limit = store_format.PREVIOUS_WAS_SEALED
        if place is Place.INNER:
            following = usable[index + 1].header
            if following is not None and following.previous_first_seq == found.name_seq:
                limit = min(limit, following.valid_before)
        if action is Action.USE_FOOTER and found.trailer is not None:
            _use_footer(disk, found, segment, found.trailer, sync=index >= len(usable) - 3)
            _note_version(files, found, segment)
            out.append(segment)
            continue
        if found.fd < 0:
            segment.fd = found.fd = disk.open(found.path, os.O_RDWR)
        if not _rebuild(disk, files, log, found, segment, limit, cut=action is Action.CONTINUE):
            files.damage.append(f"{found.path}: no record in it can be read; it is left alone")
            disk.close(found.fd)
            found.fd = -1
            continue
        _note_version(files, found, segment)
        # a killed broker may have left it in the page cache only, and from here on it counts as synced
        disk.fdatasync(found.fd)
        out.append(segment)
        if action is Action.CONTINUE:
            active = segment
    return out, active


def _note_version(files: StreamFiles, found: SegmentFile, segment: FileSegment) -> None:
    if found.header is not None and found.header.packed != segment.packed:
        files.damage.append(f"{found.path}: the version in the segment header is damaged")


def _use_footer(
    disk: Disk, found: SegmentFile, segment: FileSegment, trailer: tuple[int, int, int], *, sync: bool
) -> None:
    """Its columns, or what the cache knows of them. Raises OSError."""
    if found.summary is not None:
        adopt_summary(segment, found.summary)
    else:
        use_footer(segment, found.footer, trailer)
        found.footer = b""
    if sync:
        if segment.fd < 0:
            segment.fd = disk.open(found.path, os.O_RDWR)
        disk.fdatasync(segment.fd)


def _distrust_failed(usable: list[SegmentFile]) -> None:
    """A segment whose fdatasync failed is followed by one that says how far it is valid; its footer is not used."""
    for found, following in pairwise(usable):
        header = following.header
        if header is not None and header.previous_first_seq == found.name_seq:
            if header.valid_before != store_format.PREVIOUS_WAS_SEALED:
                found.body = Body.OPEN


def _rebuild(
    disk: Disk, files: StreamFiles, log: FileLog, found: SegmentFile, segment: FileSegment, limit: int, cut: bool
) -> bool:
    """The columns from the records; False when it holds something, but nothing that can be read."""
    seed = store_format.seed_of(log.stream_id)
    data = disk.read(found.fd, found.size, 0)
    unpacked = unpack(data, seed)
    segment.packed = unpacked is not None
    if unpacked is not None:
        data, segment.frames = unpacked
    if found.header is None:
        segment.header_len = first_record(data, 0, seed)
    walk = walk_records(segment, data, limit, seed, not cut)
    nothing = not cut and segment.slots == 0 and walk.end == segment.header_len
    if nothing and (found.header is None or walk.end < min(len(data), limit)):
        return False
    if walk.config is not None:
        log.meta = walk.config
    if walk.damaged:
        files.damage.append(f"{found.path}: {walk.damaged} damaged places")
    if found.body is Body.BROKEN_FOOTER:
        files.damage.append(f"{found.path}: the footer is damaged; rebuilt from the records")
    if cut and walk.end < found.size:
        files.damage.append(f"{found.path}: torn tail of {found.size - walk.end} bytes cut")
        disk.truncate(found.fd, walk.end)
        disk.fdatasync(found.fd)
    return True
