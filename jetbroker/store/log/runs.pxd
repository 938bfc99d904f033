"""Runs of messages that a thread reads from their file while their log goes on."""
from libc.stdint cimport uint32_t, uint64_t

from jetbroker.store.disk cimport Disk
from jetbroker.store.log.filelog cimport FileLog
from jetbroker.store.log.segment_files cimport FileSegment
from jetbroker.store.log.stream_log cimport StoredMessage

cdef struct Place:
    uint64_t seq
    uint32_t offset                    # in the file
    uint32_t length


cdef class Run:
    """The event loop's thread plans it, another one reads it, in turn."""
    cdef Disk disk
    cdef uint32_t seed
    cdef int fd                        # of its own: the log may close its file, and remove it; -1: none
    cdef Place* places
    cdef Py_ssize_t count
    cdef Py_ssize_t room
    cdef Py_ssize_t at                 # what is in front has been read
    cdef char* data
    cdef Py_ssize_t capacity
    cdef uint64_t offset               # of `data` in the file
    cdef Py_ssize_t length

    # Choose the next messages from `start` to `last`, of about so many bytes. False: the log itself has to look for the
    # next one, as it is not in a file, packed or lost, or as there is none. Raises StorageError.
    cdef bint plan(self, FileLog log, uint64_t start, uint64_t last, Py_ssize_t size) except -1
    # In a thread: READ_OK; READ_MISSING behind the last one; READ_DAMAGED: the log has to find out what is wrong with
    # it. Pointers stay valid until the next call.
    cdef int next(self, StoredMessage* out) except -1 nogil
    # The sequence behind what was read.
    cdef uint64_t reached(self) noexcept nogil

    cdef bint _choose(self, FileSegment segment, Py_ssize_t slot, Py_ssize_t stop, uint64_t end,
                      Py_ssize_t size) except -1
    cdef int _add(self, FileSegment segment, Py_ssize_t slot, Py_ssize_t length) except -1
    cdef int _read(self, const Place* place) except -1
    cdef int _close(self) except -1
