"""Deliver policy last_per_subject: the messages that are given out before all that came after them."""
from libc.stdint cimport uint64_t

from jetbroker.store.log.stream_log cimport SubjectFilter
from jetbroker.store.log.segmented cimport SegmentedLog


cdef class FirstPass:
    cdef SegmentedLog log
    cdef SubjectFilter filter
    cdef uint64_t walked           # chosen up to here
    cdef uint64_t until            # the pass ends here
    cdef object seqs               # array("Q") of the chosen sequences, ascending
    cdef bytearray gone            # of each: has it been removed?
    cdef readonly Py_ssize_t at    # the next one to deliver
    cdef Py_ssize_t looked_at      # `gone` is true up to here
    cdef readonly uint64_t live    # how many are ahead, as far as has been looked

    cdef bint open(self) noexcept                          # is there one to deliver?
    cdef bint done(self) noexcept
    cdef bint step(self) except -1                         # look at some; False: there is more to do
    cdef uint64_t next_seq(self) except? 0                 # of the next one that may be there; 0: there is none
    cdef int take(self) except -1                          # it is delivered, or gone
    cdef int purged(self) except -1                        # any of them may be gone
    cdef bint removed(self, uint64_t seq) except -1        # False: it was not chosen
    cdef int lost_some(self, uint64_t first, uint64_t last) except -1      # some of these are gone
    cdef int follow(self) except -1                        # the log may have lost its front
    cdef bint has(self, uint64_t seq) except -1
    cdef Py_ssize_t _find(self, uint64_t seq) except? -1
