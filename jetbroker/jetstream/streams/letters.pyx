# cython: language_level=3, boundscheck=False, wraparound=False
"""Storing dead letters (see letters.pxd)."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint64_t

from jetbroker.forms.timestamps cimport wall_clock_ns
from jetbroker.jetstream.publish.judge cimport Candidate, candidate_of
from jetbroker.jetstream.streams.stream cimport Stream
from jetbroker.store.log.stream_log cimport READ_OK, StoredMessage
from jetbroker.wire.headers cimport find_header
from jetbroker.wire.message cimport Message


cdef str refuses_letters(Stream box):
    """Those are refused that would store something else, or nothing."""
    config = box.config
    if not box.running:
        return "is stopped"
    if config.mirror is not None:
        return "is a mirror"
    if config.sealed:
        return "is sealed"
    if config.retention == "interest":
        return "has interest retention, which keeps no message that nobody waits for"
    if config.allow_msg_counter:
        return "holds counters"
    return ""


cdef tuple put_letter(Stream box, bytes subject, bytes headers, bytes payload):
    """It keeps its subject, as messages of sources do; the stream's subject transform holds."""
    cdef Candidate letter
    cdef Message msg
    msg.subject = PyBytes_AS_STRING(subject)
    msg.subject_len = PyBytes_GET_SIZE(subject)
    letter = candidate_of(box.ingest.transformed_entry(None, &msg), headers, payload, PyBytes_GET_SIZE(payload))
    box.ingest.take(letter, wall_clock_ns())
    if letter.refusal is not None:
        return 0, str(letter.refusal)
    return letter.seq, ""


cdef bint holds_letter(Stream box, object seq, bytes msg_id) except -1:
    cdef StoredMessage stored
    cdef const char* value = NULL
    cdef Py_ssize_t value_len = 0
    if box.log.committed < <uint64_t>seq or box.log.read(<uint64_t>seq, &stored) != READ_OK or not stored.headers_len:
        return False
    return (find_header(stored.headers, stored.headers_len, b"Nats-Msg-Id", 11, &value, &value_len)
            and value[:value_len] == msg_id)
