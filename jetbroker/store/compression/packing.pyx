"""Sealed segments into packed ones, and overwriting messages in those.

`pack` and `repack` run beside the event loop: they read a segment's file through a descriptor of their own and write
the whole new one under a temporary name, so that a crash leaves either form.  Then `adopt` makes the log use it.
"""
import os
from dataclasses import dataclass

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t

from jetbroker.limits import SEGMENT_FOOTER_BYTES, SEGMENT_PLAIN_BYTES
from jetbroker.store.format import records as store_format
from jetbroker.store.format.footers import pack_footer
from jetbroker.store.format.frames import (
    FRAME_BYTES, FrameIndex, decode_frame, encode_frame, encode_index, load_index, new_compressor,
)

from jetbroker.store.disk cimport Disk
from jetbroker.store.log.filelog cimport FileLog
from jetbroker.store.log.sealing cimport segment_footer
from jetbroker.store.format.records cimport (
    FooterLayout, OFFSET_EMPTY, OFFSET_LOST, RECORD_HEADER, SIZE_MASK, TRAILER_BYTES, load_u32,
    sound_footer,
)
from jetbroker.store.log.segment cimport Ranges
from jetbroker.store.log.segment_files cimport FileSegment

# What a new file is called until it takes the segment's name; start-up removes it.
TEMPORARY_SUFFIX = ".packing"
# Frames are gathered to writes of about this size.
cdef Py_ssize_t WRITE_BYTES = 1024 * 1024
cdef uint64_t TARGET = FRAME_BYTES


@dataclass(frozen=True)
class Packed:
    """A new file, written and synced under its temporary name, and what a segment must know of it."""

    fd: int
    temporary: str
    index: FrameIndex
    index_len: int
    footer_at: int
    footer_len: int
    footer_crc: int


cdef class Writer:
    """Writes one packed file."""
    cdef Disk disk
    cdef int fd
    cdef list parts
    cdef Py_ssize_t waiting            # bytes in parts
    cdef uint64_t written
    cdef list pairs

    def __init__(self, Disk disk, int fd):
        self.disk = disk
        self.fd = fd
        self.parts = []
        self.pairs = []

    cdef uint64_t end(self) noexcept:
        return self.written + self.waiting

    cdef int put(self, bytes data) except -1:
        self.parts.append(data)
        self.waiting += PyBytes_GET_SIZE(data)
        if self.waiting >= WRITE_BYTES:
            self.flush()
        return 0

    cdef int put_frame(self, bytes frame, uint64_t raw_at) except -1:
        self.pairs.append((raw_at, self.end()))
        return self.put(frame)

    cdef int flush(self) except -1:
        self.disk.write_all(self.fd, b"".join(self.parts), self.written)
        self.written += self.waiting
        self.parts = []
        self.waiting = 0
        return 0

    def finish(self, uint64_t raw_end, bytes plain_footer, uint32_t seed, compressor, str temporary):
        """Index, footer and trailer; synced. Returns the Packed."""
        footer = pack_footer(plain_footer, compressor)
        self.pairs.append((raw_end, self.end()))
        index = encode_index(self.pairs, seed)
        self.put(bytes(-self.end() & 7) + index)
        footer_at = self.end()
        trailer = store_format.encode_trailer(footer_at, footer, len(index))
        self.put(footer + trailer)
        self.flush()
        self.disk.fdatasync(self.fd)
        return Packed(self.fd, temporary, FrameIndex.decode(index, seed, footer_at), len(index), footer_at, len(footer),
                      store_format.decode_trailer(trailer)[2])


cdef uint64_t take_boundary(list cuts, uint64_t* frame_at, uint64_t boundary, uint64_t candidate) except? 0:
    """A frame may end at `candidate`: end it at the boundary before when it would get too large. Returns the later."""
    if candidate <= boundary:
        return boundary
    if candidate - frame_at[0] > TARGET and boundary > frame_at[0]:
        cuts.append(boundary)
        frame_at[0] = boundary
    return candidate


cdef list plan_frames(bytes footer, uint64_t start, uint64_t end):
    """Where frames begin, and `end`: about TARGET bytes each, and every message of the footer in a single one."""
    cdef FooterLayout layout
    cdef const char* p = PyBytes_AS_STRING(footer)
    cdef list cuts = [start]
    cdef uint64_t frame_at = start
    cdef uint64_t boundary = start
    cdef uint64_t slot
    cdef uint64_t length
    cdef uint32_t offset
    cdef uint32_t subject
    if sound_footer(p, PyBytes_GET_SIZE(footer), end, &layout) != 0:
        return None
    for slot in range(layout.slots):
        offset = load_u32(p + layout.offsets_at + 4 * slot)
        subject = load_u32(p + layout.subject_ids_at + 4 * slot)
        if offset == OFFSET_EMPTY or offset == OFFSET_LOST or subject >= layout.subjects:
            continue
        length = RECORD_HEADER + (load_u32(p + layout.sizes_at + 4 * slot) & SIZE_MASK) \
            + load_u32(p + layout.subject_offsets_at + 4 * (subject + 1)) \
            - load_u32(p + layout.subject_offsets_at + 4 * subject)
        boundary = take_boundary(cuts, &frame_at, boundary, offset)
        boundary = take_boundary(cuts, &frame_at, boundary, offset + length)
        if boundary > end:
            return None
    take_boundary(cuts, &frame_at, boundary, end)
    cuts.append(end)
    return cuts


def read_footer(Disk disk not None, int fd):
    """(footer as stored, its place, bytes of the frame index) of an open segment; None: damaged. Raises OSError."""
    size = disk.size(fd)
    tail = disk.read(fd, TRAILER_BYTES, max(0, size - TRAILER_BYTES))
    trailer = store_format.decode_trailer(tail)
    if trailer is None or trailer[0] + trailer[1] + TRAILER_BYTES != size:
        return None
    footer = disk.read(fd, trailer[1], trailer[0])
    if store_format.crc32c(footer) != trailer[2]:
        return None
    return footer, trailer[0], int.from_bytes(tail[20:24], "little")


def read_head(Disk disk not None, int fd):
    """The bytes of an open segment's header; too few or other ones when it is damaged. Raises OSError."""
    head = disk.read(fd, 4096, 0)
    length = int.from_bytes(head[12:16], "little")
    return head[:length] if length <= len(head) else disk.read(fd, min(length, disk.size(fd)), 0)


def pack(Disk disk not None, str path not None, str temporary not None, uint64_t stream_id):
    """Write the packed form of a sealed segment; None when it is damaged, or packed already. Raises OSError."""
    fd = disk.open(path, os.O_RDONLY)
    try:
        found = read_footer(disk, fd)
        head = read_head(disk, fd)
        try:
            header = store_format.decode_header(head)
        except ValueError:
            # its version is damaged: recovery has taken a footer for it all the same
            return None
        if found is None or header is None or header.packed or header.stream_id != stream_id:
            return None
        footer, end, _ = found
        if end > SEGMENT_PLAIN_BYTES or len(footer) > SEGMENT_FOOTER_BYTES:
            return None
        cuts = plan_frames(footer, header.header_len, end)
        if cuts is None or end <= header.header_len:
            return None
        return write_file(disk, temporary, _pack_frames, fd, head, cuts, footer, store_format.seed_of(stream_id))
    finally:
        disk.close(fd)


def _pack_frames(Writer writer, str temporary, int fd, bytes head, list cuts, bytes footer, uint32_t seed):
    compressor = new_compressor()
    writer.put(head[:7] + bytes([store_format.PACKED_VERSION]) + head[8:])
    for start, end in zip(cuts[:-1], cuts[1:], strict=True):
        raw = writer.disk.read(fd, end - start, start)
        if len(raw) != end - start:
            raise OSError(5, "the file is shorter than its footer says")
        writer.put_frame(encode_frame(raw, start, seed, compressor), start)
    return writer.finish(cuts[-1], footer, seed, compressor, temporary)


def repack(Disk disk not None, str path not None, str temporary not None, uint64_t stream_id, list ranges not None,
           bytes footer not None):
    """Write a packed segment again, with zeros in `ranges` (from, to) of its plain form.

    None when no frame in it is readable. Raises OSError.
    """
    seed = store_format.seed_of(stream_id)
    fd = disk.open(path, os.O_RDONLY)
    try:
        found = read_footer(disk, fd)
        place = (0, 0) if found is None else found[1:]
        index = load_index(disk, fd, place[0], place[1], seed)
        if index.count == 0:
            return None
        return write_file(disk, temporary, _repack_frames, fd, index, ranges, footer, seed)
    finally:
        disk.close(fd)


def _repack_frames(Writer writer, str temporary, int fd, index, list ranges, bytes footer, uint32_t seed):
    compressor = new_compressor()
    writer.put(writer.disk.read(fd, index.file_start(0), 0))
    for i in range(index.count):
        first = index.raw_start(i)
        end = index.raw_start(i + 1)
        frame = writer.disk.read(fd, index.file_start(i + 1) - index.file_start(i), index.file_start(i))
        inside = [(max(a, first), min(b, end)) for a, b in ranges if a < end and b > first]
        raw = decode_frame(frame, first, seed, end - first) if inside else None
        if raw is not None:
            # a damaged frame stays as it is
            blank = bytearray(raw)
            for a, b in inside:
                blank[a - first:b - first] = bytes(max(0, min(b - first, len(raw)) - (a - first)))
            frame = encode_frame(bytes(blank), first, seed, compressor)
        writer.put_frame(frame, first)
    return writer.finish(index.raw_start(index.count), footer, seed, compressor, temporary)


def write_file(Disk disk, str temporary, content, *arguments):
    """Let `content` write a new file; on failure it is removed. Raises OSError."""
    fd = disk.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        return content(Writer(disk, fd), temporary, *arguments)
    except BaseException:
        discard(disk, fd, temporary)
        raise


def discard(Disk disk not None, int fd, str temporary not None):
    """Close and remove a file that is not wanted. Start-up removes what is left when that fails."""
    try:
        disk.close(fd)
        disk.unlink(temporary)
    except OSError:
        return


# --- on the event loop ---

def next_plain(FileLog log not None):
    """A segment of the log that can be packed now; None: there is none at present."""
    cdef FileSegment segment
    cdef set held
    if log.closed or not log.packs:
        return None
    held = log.round.held()
    for segment in reversed(log.segments):
        if segment.sealed and not segment.packed and segment.footer_at and not segment.stays_plain \
                and segment is not log.active and segment.temporary is None and segment not in held:
            return segment
    return None


def is_held(FileLog log not None, FileSegment segment not None):
    """Is it still a segment of an open log, whose file nobody is syncing?"""
    return not log.closed and segment in log.segments and segment not in log.round.held()


def footer_of(FileLog log not None, FileSegment segment not None):
    """The footer of a sealed segment, from its columns. Raises StorageError."""
    cdef Ranges recorded = log.recorded_ranges(segment)
    log.load(segment)
    return segment_footer(segment, 0, recorded)[:-TRAILER_BYTES]


def adopt(FileLog log not None, FileSegment segment not None, packed):
    """The packed file has the segment's name now: read from it."""
    log.files.close(segment)
    log.files.forget(segment)
    segment.fd = packed.fd
    segment.packed = True
    segment.frames = packed.index
    segment.index_len = packed.index_len
    segment.footer_at = packed.footer_at
    segment.footer_len = packed.footer_len
    segment.footer_crc = packed.footer_crc
    segment.end = packed.index.raw_start(packed.index.count)
    if segment.offsets == NULL:
        log.files.close(segment)
    # an erasure that is not synced must not come back: the next commit syncs the new name
    log.round.changed_directory(log.directory)
    if log.on_sealed is not None:
        log.on_sealed(segment)
