"""Which messages of a batch may be stored, in the order in which nats-server finds out."""
from libc.stdint cimport int64_t, uint64_t

from jetbroker.jetstream.publish.ingest cimport Ingest
from jetbroker.jetstream.publish.judge cimport Candidate


cdef class Judgement:
    """What the messages judged so far change, for those behind them."""
    cdef Ingest ingest
    cdef dict subjects                 # subject -> is its last message a schedule
    cdef dict per_subject              # subject -> how many
    cdef dict expected                 # subject -> its last sequence, as expected
    cdef set msg_ids
    cdef dict totals                   # subject -> Total, of counters
    cdef uint64_t count
    cdef uint64_t cost
    cdef uint64_t looked_at            # subjects that patterns were compared with

    # What refuses the next message, with those before it as good as stored; None: nothing.
    cdef object judge(self, Candidate asked, int64_t now)
    cdef object _judge_ttl(self, Candidate asked)
    cdef object _judge_id(self, Candidate asked, int64_t now)
    cdef object _judge_counter(self, Candidate asked)
    cdef object _judge_expectations(self, Candidate asked)
    cdef object _judge_roll_up(self, Candidate asked)


# What holds for any message of a batch, before it is known which one; None: go on.
cdef object early_refusal(Ingest ingest, Py_ssize_t subject_len, Py_ssize_t headers_len, Py_ssize_t payload_len)
