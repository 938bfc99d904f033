# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Runs of messages (see runs.pxd).

A file's records stay where they are, so whoever knows their places can read them without the log. What is overwritten
meanwhile no longer has its checksum.
"""
import os

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free

from jetbroker.store.log.slices import next_piece

from jetbroker.store.format.records cimport (
    KIND_MESSAGE, record_is_valid, record_kind, record_length, record_seq, record_time,
)
from jetbroker.store.log.filelog cimport FileLog
from jetbroker.store.log.segment cimport grow
from jetbroker.store.log.segment_files cimport FileSegment
from jetbroker.store.log.segmented cimport point_into
from jetbroker.store.log.stream_log cimport READ_DAMAGED, READ_MISSING, READ_OK, StoredMessage

cdef Py_ssize_t READ_BYTES = 1024 * 1024
cdef uint64_t ALL_SLOTS = <uint64_t>1 << 62


cdef class Run:
    """See runs.pxd."""

    def __cinit__(self):
        self.fd = -1

    def __dealloc__(self):
        self._close()
        free(self.places)
        free(self.data)

    cdef int _close(self) except -1:
        cdef int fd = self.fd
        self.fd = -1
        if fd >= 0:
            os.close(fd)
        return 0

    cdef bint plan(self, FileLog log, uint64_t start, uint64_t last, Py_ssize_t size) except -1:
        cdef FileSegment segment
        cdef uint64_t end
        self.count = self.at = self.length = 0
        piece = next_piece(log, start, last, ALL_SLOTS)
        if piece is None:
            return False
        segment = <FileSegment>log.segment_of(piece[0])
        log.load(segment)
        if segment.packed:
            return False
        end = log.file.tail.written if segment is log.active else segment.end
        if not self._choose(segment, piece[0] - segment.first_seq, piece[1] - segment.first_seq + 1, end, size):
            return False
        log.files.open(segment)
        self._close()
        self.fd = os.dup(segment.fd)
        self.disk = log.disk
        self.seed = log.seed
        return True

    cdef bint _choose(self, FileSegment segment, Py_ssize_t slot, Py_ssize_t stop, uint64_t end,
                      Py_ssize_t size) except -1:
        cdef Py_ssize_t length
        slot = segment.next_live(slot, stop)
        while slot >= 0 and size > 0:
            length = segment.record_size(slot)
            if length == 0 or segment.offsets[slot] + <uint64_t>length > end:
                break
            self._add(segment, slot, length)
            size -= length
            slot = segment.next_live(slot + 1, stop)
        return self.count > 0

    cdef int _add(self, FileSegment segment, Py_ssize_t slot, Py_ssize_t length) except -1:
        cdef Place* place
        if self.count == self.room:
            self.places = <Place*>grow(self.places, (2 * self.room + 1024) * sizeof(Place))
            self.room = 2 * self.room + 1024
        place = &self.places[self.count]
        place.seq = segment.first_seq + slot
        place.offset = segment.offsets[slot]
        place.length = <uint32_t>length
        self.count += 1
        return 0

    cdef uint64_t reached(self) noexcept nogil:
        return self.places[self.at - 1].seq + 1 if self.at else self.places[0].seq

    cdef int next(self, StoredMessage* out) except -1 nogil:
        cdef const Place* place = &self.places[self.at]
        cdef const char* record
        if self.at == self.count:
            return READ_MISSING
        if place.offset < self.offset or place.offset + place.length > self.offset + self.length:
            with gil:
                self._read(place)
        record = self.data + (place.offset - self.offset)
        if self.length < place.length or not record_is_valid(record, place.length, self.seed) \
                or record_length(record) != place.length or record_kind(record) != KIND_MESSAGE \
                or record_seq(record) != place.seq:
            return READ_DAMAGED
        self.at += 1
        out.seq = place.seq
        out.time_ns = record_time(record)
        point_into(record, out)
        return READ_OK

    cdef int _read(self, const Place* place) except -1:
        """This record and those behind it; what the disk refuses is left to the log."""
        cdef const Place* last = &self.places[self.count - 1]
        cdef uint64_t rest = <uint64_t>last.offset + last.length - place.offset
        cdef Py_ssize_t want = max(<Py_ssize_t>min(rest, <uint64_t>READ_BYTES), <Py_ssize_t>place.length)
        if want > self.capacity:
            self.data = <char*>grow(self.data, want)
            self.capacity = want
        self.offset = place.offset
        self.length = 0
        try:
            self.length = self.disk.read_at(self.fd, self.data, want, place.offset)
        except OSError:
            pass
        return 0
