# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The files of one log's segments (see segment_files.pxd)."""
import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.store.format.frames import load_index

from jetbroker.store.disk cimport Disk
from jetbroker.store.format.blocks cimport BlockCache
from jetbroker.store.format.footers cimport sound_segment_footer
from jetbroker.store.format.frames cimport FrameCache
from jetbroker.store.format.records cimport (
    OFFSET_EMPTY, OFFSET_LOST, PREVIOUS_SEALED, RECORD_HEADER, SIZE_MASK, crc32c_update, record_is_valid, record_length,
)
from jetbroker.store.log.segment cimport Ranges, Segment, footer_ranges, is_record_of


# Columns of one log that stay in memory; and no more open files than this for them.
cdef Py_ssize_t LOADED_BYTES = limits.STREAM_COLUMN_BYTES
cdef Py_ssize_t LOADED_MOST = limits.STREAM_COLUMN_FILES
cdef uint32_t JUMPS_BEFORE_MAP = 64    # a map costs as much as ten reads, and each of its pages a little
cdef Py_ssize_t spare = limits.STORE_COLUMN_FILES  # what all logs together may still have beyond those that stay


cdef Py_ssize_t column_bytes(FileSegment segment) noexcept:
    cdef Py_ssize_t index = segment.index_bytes()
    if segment.blob is not None:
        return index + PyBytes_GET_SIZE(segment.blob)
    return index + segment.capacity * 20 + segment.subjects_capacity * 4 + segment.text_capacity


cdef class FileSegment(Segment):
    """A segment and its file."""

    def __init__(self, uint64_t first_seq, str path):
        Segment.__init__(self, first_seq)
        self.path = path
        self.fd = -1
        self.summarized_live = -1

    cdef Py_ssize_t record_size(self, Py_ssize_t slot) noexcept:
        if self.offsets[slot] == OFFSET_EMPTY or self.offsets[slot] == <uint32_t>OFFSET_LOST:
            return 0
        return RECORD_HEADER + self.subject_len(self.ids[slot]) + (self.sizes[slot] & SIZE_MASK)

    cdef bint is_limit_of(self, Segment before) except -1:
        return before is not None and self.previous == before.first_seq and self.valid_before != PREVIOUS_SEALED

    cdef int erase_retained(self, uint64_t start, uint64_t end) except -1:
        start = max(start, self.retained_at)
        if self.retained is not None and start < end:
            self.retained = (self.retained[:start - self.retained_at] + bytes(end - start)
                             + self.retained[end - self.retained_at:])
        return 0


cdef class SegmentFiles:
    """Opens, reads and removes the files of one log, whose records have CRCs that start from `seed`."""

    def __init__(self, Disk disk not None, loop not None, uint32_t seed):
        self.disk = disk
        self.loop = loop
        self.seed = seed
        self.blocks = BlockCache()

    def __dealloc__(self):
        global spare
        spare += self.more

    def _report(self, text, error):
        self.loop.call_exception_handler({"message": text, "exception": error})

    # --- opening and removing ---

    def temporary_name(self, str path not None):
        """A name that no file had before, for one that is to be called `path`."""
        self.names += 1
        return f"{path}.new{self.names}"

    cpdef FileSegment new_segment(self, str directory, uint64_t first_seq, uint64_t valid_before, Segment before):
        """A segment behind `before`, without a file yet."""
        cdef FileSegment segment = FileSegment(first_seq, f"{directory}/{first_seq:020d}.seg")
        segment.recorded = Ranges()
        segment.valid_before = valid_before
        segment.created_ns = self.disk.time_ns()
        if before is not None:
            segment.previous = before.first_seq
        return segment

    def make(self, FileSegment segment not None):
        """An empty file; another one with its name is set aside. Raises OSError."""
        if segment.temporary is None and os.path.lexists(segment.path) and os.lstat(segment.path).st_size:
            # recovery has left it alone: it is damaged, or of another stream
            self.disk.rename(segment.path, f"{segment.path}.damaged-{self.disk.time_ns()}")
        segment.fd = self.disk.open(segment.path if segment.temporary is None else segment.temporary,
                                    os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def settle(self, FileSegment segment not None, bytes content not None):
        """A file that was made under another name has this content, on disk, and gets its own name. Raises OSError."""
        self.disk.write_all(segment.fd, content, 0)
        self.disk.fdatasync(segment.fd)
        self.disk.rename(segment.temporary, segment.path)
        segment.temporary = None
        segment.end = PyBytes_GET_SIZE(content)

    cdef int open(self, FileSegment segment) except -1:
        if segment.fd < 0:
            try:
                segment.fd = self.disk.open(segment.path, os.O_RDWR)
            except OSError as error:
                raise StorageError(f"{segment.path}: {error.strerror}") from error
        return 0

    def close(self, FileSegment segment not None):
        """Close the segment's file, if it is open."""
        segment.map = None
        segment.jumps = 0
        if segment.fd >= 0:
            fd = segment.fd
            segment.fd = -1
            self.disk.close(fd)

    def cut(self, FileSegment segment not None, boundary):
        """Take back what a failed write left behind the last whole record."""
        self.forget(segment)
        if segment.fd < 0:
            return
        try:
            self.disk.truncate(segment.fd, boundary)
        except OSError as error:
            # the next write overwrites it; until then recovery finds a torn tail there
            self._report(f"cannot cut {segment.path}", error)

    def discard(self, FileSegment segment not None):
        """Close and remove a file that never got the segment's name; the next write makes it anew."""
        self.forget(segment)
        self.close(segment)
        try:
            self.disk.unlink(segment.temporary)
        except FileNotFoundError:
            return                     # it could not even be made
        except OSError as error:
            # the next start removes it
            self._report(f"cannot remove {segment.temporary}", error)

    def remove(self, FileSegment segment not None, list others not None):
        """Close and remove the file of a segment that is dropped."""
        self.close(segment)
        if any([other.path == segment.path for other in others]):
            return                     # a later segment has its name; the file was set aside
        try:
            self.disk.unlink(segment.temporary or segment.path)
        except OSError as error:
            # the file holds nothing alive; recovery drops it again
            self._report(f"cannot remove {segment.path}", error)

    def overwrite(self, FileSegment segment not None, uint64_t start, uint64_t end):
        """Zero bytes in place of those at [start, end). Raises StorageError."""
        self.open(segment)
        try:
            self.disk.write_all(segment.fd, bytes(end - start), start)
        except OSError as error:
            raise StorageError(f"{segment.path}: {error.strerror}") from error

    cdef int forget(self, FileSegment segment) except -1:
        segment.map = None
        self.blocks.forget(segment.tag)
        if self.frames is not None:
            self.frames.forget(segment.tag)
        return 0

    def clear(self):
        """The log is closed."""
        self.blocks.clear()
        self.frames = None

    # --- columns ---

    cdef int use(self, FileSegment segment) except -1:
        self.clock += 1
        segment.used_at = self.clock
        return 0

    cdef bint load(self, FileSegment segment) except -1:
        cdef bytes footer
        self.open(segment)
        if not segment.footer_at:
            return False
        footer = self._footer(segment)
        if footer is None:
            return False
        segment.adopt_footer(footer)
        return True

    def _footer(self, FileSegment segment not None):
        """None: damaged. Raises StorageError."""
        cdef bytes stored
        try:
            stored = self.disk.read(segment.fd, segment.footer_len, segment.footer_at)
        except OSError as error:
            raise StorageError(f"{segment.path}: {error.strerror}") from error
        if <uint64_t>PyBytes_GET_SIZE(stored) != segment.footer_len \
                or crc32c_update(0, PyBytes_AS_STRING(stored), PyBytes_GET_SIZE(stored)) != segment.footer_crc:
            return None
        return sound_segment_footer(stored, segment.packed, segment.first_seq, segment.footer_at, segment.slots)

    cdef Ranges recorded(self, FileSegment segment):
        cdef Ranges ranges = Ranges()
        cdef bytes footer
        if segment.recorded is not None:
            ranges.extend(segment.recorded)
            return ranges
        self.open(segment)
        footer = self._footer(segment)
        return None if footer is None else footer_ranges(footer)

    cdef int shed(self, list segments, set held, Py_ssize_t keep) except -1:
        """Close sealed segments, those used longest ago first, until the columns of `keep` are in memory, or of more
        when those are small: whoever reads here and there would otherwise read a footer for each message."""
        global spare
        cdef FileSegment other
        cdef Py_ssize_t size = 0
        cdef Py_ssize_t count, most
        cdef list loaded = []
        for other in segments:
            if other.sealed and other.offsets != NULL and other.footer_at and other not in held:
                # what is not synced may have to be written again: no reading then
                loaded.append((other.used_at, other.tag, other))
                size += column_bytes(other)
        count = len(loaded)
        spare += self.more
        self.more = 0
        most = min(LOADED_MOST, keep + spare)
        if count > keep and (count > most or size > LOADED_BYTES):
            loaded.sort()
        for _, _, other in loaded:
            if count <= keep or (count <= most and size <= LOADED_BYTES):
                break
            # only what a footer gives back; the columns of a damaged segment stay
            count -= 1
            size -= column_bytes(other)
            other.unload()
            other.frames = None
            self.close(other)
        self.more = max(0, count - keep)
        spare -= self.more
        return 0

    # --- records ---

    cdef const char* fetch(self, FileSegment segment, Py_ssize_t slot, uint64_t end) except? NULL:
        cdef uint64_t offset = segment.offsets[slot]
        cdef Py_ssize_t length = (RECORD_HEADER + segment.subject_len(segment.ids[slot])
                                  + (segment.sizes[slot] & SIZE_MASK))
        cdef const char* p
        if segment.fd < 0:
            self.open(segment)
        try:
            if segment.packed:
                p = self.unpacked(segment, offset, length)
            else:
                p = self.blocks.get(self.disk, segment.fd, segment.map, segment.tag, offset, length, end)
                if self.blocks.jumped:
                    self.jumped(segment, end)
        except OSError as error:
            raise StorageError(f"{segment.path}: {error.strerror}") from error
        if p == NULL or not record_is_valid(p, length, self.seed) or record_length(p) != <uint64_t>length \
                or not is_record_of(p, segment, slot):
            return NULL
        return p

    cdef int jumped(self, FileSegment segment, uint64_t end) except -1:
        """A file that is read here and there gets a map, and a larger one when it has grown."""
        cdef uint64_t mapped = 0 if segment.map is None else segment.map.length
        segment.jumps += 1
        if segment.jumps % JUMPS_BEFORE_MAP == 0 and mapped < end and (segment.sealed or mapped + mapped // 4 < end):
            segment.map = self.disk.map(segment.fd, end)
        return 0

    cdef const char* unpacked(self, FileSegment segment, uint64_t offset, Py_ssize_t length) except? NULL:
        """Bytes of a packed segment's plain form, valid until the next call; NULL: damaged. Raises OSError."""
        if self.frames is None:
            self.frames = FrameCache()
        if segment.frames is None:
            segment.frames = load_index(self.disk, segment.fd, segment.footer_at, segment.index_len, self.seed)
        return self.frames.get(self.disk, segment.fd, self.seed, segment.frames, segment.tag, offset, length)
