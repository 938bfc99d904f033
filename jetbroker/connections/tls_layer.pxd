"""TLS between a plain transport and a protocol: a BufferedProtocol to the one, a transport to the other."""


cdef class TlsBuffers:
    """Memory that the connections of one event loop read into, one after the other."""
    cdef readonly object loop
    cdef object small                  # memoryview for connections that have not brought much yet
    cdef object large


cdef class TlsLayer:
    cdef readonly TlsBuffers buffers
    cdef readonly object transport     # the plain one, None before connection_made
    cdef object protocol               # what speaks inside
    cdef object context
    cdef readonly object ssl           # ssl.SSLObject
    cdef object incoming               # ssl.MemoryBIO
    cdef object outgoing
    cdef str server_name               # of the other side, which is the server then; None: we are
    cdef object broken                 # what was wrong with the bytes of an open connection
    cdef object on_failure             # called with the exception when there is no handshake
    cdef object timer
    cdef double timeout
    cdef int state
    cdef int fd                        # of the plain transport, -1 once it is closing
    cdef bint buffered                 # the protocol is a BufferedProtocol
    cdef bint paused
    cdef bint opened                   # the handshake was done
    cdef readonly bint answered        # the peer's first words were whole
    cdef Py_ssize_t received           # bytes, until the large buffer is used

    cdef int _shake_hands(self) except -1
    cdef int _deliver(self) except -1
    cdef Py_ssize_t _read_into(self, object view) except? -1
    cdef int _flush(self) except -1
    cdef int _stop(self) except -1
