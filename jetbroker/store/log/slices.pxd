"""Long walks over a log in short pieces."""
from libc.stdint cimport uint64_t

from jetbroker.store.log.stream_log cimport StreamLog, SubjectFilter
from jetbroker.store.log.segmented cimport SegmentedLog


# Counts what matches of a short piece into `total`; False: more than `subjects` have to be judged first, ask again.
cdef bint count_piece(SegmentedLog log, SubjectFilter filter, uint64_t first, uint64_t last, Py_ssize_t subjects,
                      uint64_t* total) except -1
# The same of a piece of some hundred sequences, at once: what has not been judged of a segment is judged by itself.
cdef uint64_t count_few(SegmentedLog log, SubjectFilter filter, uint64_t first, uint64_t last) except? 0
# The first sequence at or behind `start` of a segment with something in it, 0: none.
cdef uint64_t next_slot(SegmentedLog log, uint64_t start) except? 0
cdef bytes subject_of(StreamLog log, uint64_t seq)             # b"": there is no such message
cdef bint holds(SegmentedLog log, uint64_t seq) except -1      # is there such a message?
