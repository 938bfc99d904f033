"""What an ack says: the numbers of its subject and the word in its payload."""
from libc.stdint cimport int64_t, uint64_t

cpdef enum AckKind:
    ACK_UNKNOWN = 0
    ACK_ACK = 1
    ACK_NAK = 2
    ACK_PROGRESS = 3
    ACK_NEXT = 4
    ACK_TERM = 5


cdef struct AckNumbers:
    uint64_t stream_seq
    uint64_t consumer_seq


# From the tokens "<delivered>.<stream seq>.<consumer seq>..." on. False: the stream sequence is not a number; a
# consumer sequence that is none counts as 0.
cdef bint parse_ack_numbers(const char* p, Py_ssize_t n, AckNumbers* out) noexcept nogil
# The kind of an ack payload; rest[0:rest_len] is what follows the word (blanks stripped).
cdef AckKind parse_ack_kind(const char* p, Py_ssize_t n, const char** rest, Py_ssize_t* rest_len) noexcept nogil
# The delay of what follows "-NAK", ns; 0 when there is none or it is bad.
cdef int64_t parse_nak_delay(const char* p, Py_ssize_t n) except? -1
