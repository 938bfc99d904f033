"""Storing dead letters: messages that a consumer has given up, in the stream that is kept for them."""
from jetbroker.jetstream.streams.stream cimport Stream


# Why a stream takes no dead letters, "": it does.
cdef str refuses_letters(Stream box)
# Store one, unless it is there already: (its sequence, 0: refused; why it was refused).
cdef tuple put_letter(Stream box, bytes subject, bytes headers, bytes payload)
# Is message seq, with this Nats-Msg-Id, in the stream and durable?
cdef bint holds_letter(Stream box, object seq, bytes msg_id) except -1
