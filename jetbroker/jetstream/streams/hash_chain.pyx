# cython: language_level=3, boundscheck=False, wraparound=False
"""A tamper-evident stream (see hash_chain.pxd).

The chain follows the log, in turns: it reads what has been committed. So there is one way for messages that were just
published, for those that a crash kept from being chained, and for those that were there before.
"""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.clock cimport monotonic_ns
from jetbroker.jetstream.timing.work_turns cimport WorkTurns
from jetbroker.store.log.stream_log cimport READ_DAMAGED, READ_MISSING, StoredMessage, StreamLog

from jetbroker.errors import StorageError
from jetbroker.store.format import hash_chain as form

cdef int AT_ONCE = 64                  # messages between two looks at the clock


cdef class HashChain(Worker):
    """The chain of one stream, kept in `file`."""

    def __init__(self, StreamLog log not None, object file not None, WorkTurns turns not None, object complain) -> None:
        self.log = log
        self.file = file
        self.turns = turns
        self.complain = complain
        self.hash_of = file.header.hash
        if file.at > log.last_seq:
            self._rewind()

    def _rewind(self) -> None:
        """The log has lost its end: its sequences are given out again, and the chain tells of it."""
        first, last = self.log.last_seq + 1, self.file.at
        entry = form.new_entry(self.hash_of, self.file.head, first, form.REWOUND, form.range_digest(last))
        self.file.write(entry, first - 1, entry[form.HASHED:])

    def position(self) -> str:
        """The last sequence and its hash, as a client notes it."""
        return f"{self.file.at}:{self.file.head.hex()}"

    def close(self) -> None:
        """Chain what is committed, as far as a turn reaches, and no more."""
        if self.file is not None:
            self.work(monotonic_ns() + 2_000_000)
            self.file.close()
            self.file = None

    cdef bint work(self, int64_t until_ns) except -1:
        cdef uint64_t at
        if self.file is None:
            return False
        at = self.file.at
        try:
            while at < self.log.committed:
                data, at, head = self._following(at, self.file.head, AT_ONCE)
                self.file.write(data, at, head)
                if monotonic_ns() >= until_ns:
                    break
            self.complained = False
        except StorageError as error:
            if not self.complained:
                self.complained = True
                self.complain(f"its hash chain stays at sequence {self.file.at}: {error}")
            return False               # the next commit tries again
        return at < self.log.committed

    cdef tuple _following(self, uint64_t at, bytes head, int count):
        cdef StoredMessage stored
        cdef list out = []
        cdef uint64_t limit = self.log.committed
        cdef int result
        for _ in range(count):
            result = self.log.next_message(None, at + 1, limit, &stored)
            seq = limit + 1 if result == READ_MISSING else stored.seq
            if seq > at + 1:
                head = self._add(out, head, at + 1, form.GONE, form.range_digest(seq - 1))
            at = min(<uint64_t>seq, limit)
            if result == READ_MISSING:
                break
            if result == READ_DAMAGED:
                head = self._add(out, head, seq, form.DAMAGED, form.range_digest(seq))
            else:
                head = self._add(out, head, seq, form.MESSAGE, form.message_digest(
                    self.hash_of, seq, stored.time_ns, stored.subject[:stored.subject_len],
                    stored.headers[:stored.headers_len] if stored.headers_len else b"",
                    stored.payload[:stored.payload_len] if stored.payload_len else b""))
            if at == limit:
                break
        return b"".join(out), at, head

    def _add(self, list out, bytes head, first, int kind, bytes digest) -> bytes:
        entry = form.new_entry(self.hash_of, head, first, kind, digest)
        out.append(entry)
        return entry[form.HASHED:]
