"""A tamper-evident stream: each committed message is added to a chain of hashes."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.timing.work_turns cimport Worker
from jetbroker.store.log.stream_log cimport StreamLog


cdef class HashChain(Worker):
    cdef StreamLog log
    cdef object file                   # ChainFile; None: closed
    cdef object complain               # callback(text)
    cdef bint complained               # of what still lasts
    cdef object hash_of

    # Entries of at most `count` messages behind `at`; (bytes, where they end, their last hash)
    cdef tuple _following(self, uint64_t at, bytes head, int count)
