# cython: language_level=3, boundscheck=False, wraparound=False
"""TLS between a plain transport and a protocol (see tls_layer.pxd).

The event loop's own TLS keeps 256 KB per connection and closes without telling the peer why a handshake failed. Here
all connections read into shared memory, and alerts are sent. Renegotiation is off in every context, so a write never
has to wait for a read.
"""
import ssl
import time

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from jetbroker import limits

cdef extern from "sys/socket.h" nogil:
    ssize_t c_send "send"(int fd, const void* data, size_t n, int flags)
    int MSG_DONTWAIT
    int MSG_NOSIGNAL

cdef Py_ssize_t RECORD_BYTES = 16 * 1024  # what one TLS record holds at most
cdef Py_ssize_t FLUSH_BYTES = 2 * RECORD_BYTES  # sent at once; the TLS library keeps the memory this took
cdef Py_ssize_t LARGE_AFTER = limits.TLS_LARGE_READS_AFTER_BYTES

cdef enum:
    HANDSHAKE
    OPEN
    CLOSED


cdef class TlsBuffers:
    """Memory that the TLS connections of one event loop read into, one after the other."""

    def __init__(self, loop: object) -> None:
        self.loop = loop
        self.small = memoryview(bytearray(limits.TLS_FIRST_READ_BYTES))
        self.large = memoryview(bytearray(limits.TLS_READ_BYTES))


def outlived(connection) -> ssl.SSLCertVerificationError | None:
    """A client of TLS 1.2 that takes up an old session is not asked for its certificate again: what OpenSSL would say
    of one that has expired since, or None.
    """
    if not connection.session_reused:
        return None
    certificate = connection.getpeercert()
    if not certificate or ssl.cert_time_to_seconds(certificate["notAfter"]) > time.time():
        return None
    error = ssl.SSLCertVerificationError(1, "certificate verify failed: certificate has expired")
    error.reason, error.verify_code, error.verify_message = "CERTIFICATE_VERIFY_FAILED", 10, "certificate has expired"
    return error


cdef class TlsLayer:
    """One connection. The protocol's connection_made comes after the handshake, connection_lost only if that came."""

    def __init__(self, TlsBuffers buffers not None, context: object, protocol: object, double timeout,
                 on_failure: object, str server_name=None) -> None:
        """`timeout` in seconds for the handshake, 0: somebody else takes care of it; `on_failure(exception)`: it
        failed, an EOFError when the peer went away; the connection is being closed. `server_name`: we are the client,
        and the server's certificate has to fit this; None: we are the server."""
        self.buffers = buffers
        self.server_name = server_name
        self.context = context
        self.timeout = timeout
        self.on_failure = on_failure
        self.fd = -1
        self.set_protocol(protocol)

    # --- towards the socket: asyncio.BufferedProtocol ---

    def connection_made(self, transport) -> None:
        self.transport = transport
        self.fd = transport.get_extra_info("socket").fileno()
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.ssl = self.context.wrap_bio(self.incoming, self.outgoing, server_side=self.server_name is None,
                                         server_hostname=self.server_name or None)
        if self.timeout > 0:
            self.timer = self.buffers.loop.call_later(self.timeout, self.fail, TimeoutError("i/o timeout"))
        if self.server_name is not None:
            self._shake_hands()

    def get_buffer(self, Py_ssize_t sizehint):
        return self.buffers.small if self.received < LARGE_AFTER else self.buffers.large

    def buffer_updated(self, Py_ssize_t nbytes) -> None:
        self.feed(self.get_buffer(-1)[:nbytes])

    def feed(self, data) -> None:
        """Bytes from the socket; also those that were read before this layer came between."""
        if self.state == CLOSED:
            return
        self.received = min(self.received + len(data), LARGE_AFTER)
        self.incoming.write(data)
        if self.state == HANDSHAKE:
            self._shake_hands()
        if self.state == OPEN and not self.paused:
            self._deliver()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        if self.state != CLOSED:
            self.protocol.pause_writing()

    def resume_writing(self) -> None:
        if self.state != CLOSED:
            self.protocol.resume_writing()

    def connection_lost(self, exc) -> None:
        cdef object protocol = self.protocol
        self.fail(exc or EOFError("EOF"))
        self._stop()
        self.ssl = self.incoming = self.outgoing = None
        self.protocol = None
        if self.opened:
            protocol.connection_lost(exc or self.broken)

    def fail(self, error) -> None:
        """There will be no handshake, unless there was one: send the alert that is due, close."""
        if self.state != HANDSHAKE:
            return
        self._flush()
        self._stop()
        try:
            self.on_failure(error)
        finally:
            self.on_failure = None
            self.transport.close()

    cdef int _shake_hands(self) except -1:
        try:
            self.ssl.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return 0
        except (OSError, ValueError) as error:  # SSLError and CertificateError are among them
            self.fail(error)
            return 0
        self._flush()
        error = outlived(self.ssl)
        if error is not None:
            self.fail(error)
            return 0
        self.state = OPEN
        self.opened = True
        self.on_failure = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self.protocol.connection_made(self)
        return 0

    cdef int _deliver(self) except -1:
        """Give the protocol what has arrived."""
        cdef Py_ssize_t n
        cdef object view
        while self.state == OPEN and not self.paused:
            view = self.protocol.get_buffer(-1) if self.buffered else self.buffers.large
            try:
                n = self._read_into(view)
            except ssl.SSLZeroReturnError:
                self.close()
                return 0
            except OSError as error:
                self.broken = error
                self._flush()
                self.abort()
                return 0
            if n == 0:
                break
            if self.buffered:
                self.protocol.buffer_updated(n)
            else:
                self.protocol.data_received(bytes(view[:n]))
        if self.state == OPEN and self.outgoing.pending:
            self._flush()  # the answer to a change of keys
        return 0

    cdef Py_ssize_t _read_into(self, object view) except? -1:
        """Decrypt as much as there is; 0 when nothing is whole. SSLZeroReturnError: the peer has closed."""
        cdef Py_ssize_t size = len(view)
        cdef Py_ssize_t total = 0
        cdef Py_ssize_t n
        while total < size:
            try:
                n = self.ssl.read(size - total, view[total:] if total else view)
            except ssl.SSLWantReadError:
                break
            except ssl.SSLZeroReturnError:
                if total:
                    break  # it is told again next time
                raise
            if n == 0:
                if total:
                    break
                raise ssl.SSLZeroReturnError()
            total += n
            if self.incoming.pending == 0 and self.ssl.pending() == 0:
                break
        return total

    cdef int _flush(self) except -1:
        """Hand over what is encrypted: straight to the kernel while nothing waits in front of it."""
        cdef bytes data
        cdef ssize_t n = 0
        if self.outgoing is None or not self.outgoing.pending:
            return 0
        self.answered = True
        data = self.outgoing.read()
        if self.transport.is_closing():
            return 0
        if self.fd >= 0 and self.transport.get_write_buffer_size() == 0:
            n = c_send(self.fd, PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), MSG_DONTWAIT | MSG_NOSIGNAL)
            if n < 0:
                n = 0  # the transport finds out why
        if n < PyBytes_GET_SIZE(data):
            self.transport.write(data[n:] if n else data)
        return 0

    cdef int _stop(self) except -1:
        self.state = CLOSED
        self.fd = -1
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        return 0

    # --- towards the protocol: asyncio.Transport ---

    def set_protocol(self, protocol) -> None:
        """Who gets what arrives from now on."""
        self.protocol = protocol
        self.buffered = hasattr(protocol, "get_buffer")

    def get_protocol(self):
        """Who gets what arrives."""
        return self.protocol

    @property
    def shaking(self) -> bool:
        """The handshake is neither done nor given up."""
        return self.state == HANDSHAKE

    def write(self, data) -> None:
        """Encrypt and send; before and after the time of the connection nothing is sent."""
        cdef object view
        cdef Py_ssize_t at
        if self.state != OPEN:
            return
        view = memoryview(data)
        try:
            for at in range(0, len(view), RECORD_BYTES):
                self.ssl.write(view[at:at + RECORD_BYTES])
                if self.outgoing.pending >= FLUSH_BYTES:
                    self._flush()
            self._flush()
        except OSError:
            self.abort()

    def close(self) -> None:
        """Tell the peer, then close; what is written is sent."""
        if self.state == OPEN:
            try:
                self.ssl.unwrap()
            except OSError:
                pass  # the peer's own goodbye is not waited for
            self._flush()
        self.fail(ConnectionAbortedError("closed"))
        self._stop()
        self.transport.close()

    def abort(self) -> None:
        """Close at once: what is not sent yet is lost."""
        self.fail(ConnectionAbortedError("aborted"))
        self._stop()
        self.transport.abort()

    def is_closing(self) -> bool:
        """True once the connection is being closed."""
        return self.state == CLOSED or self.transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """Encrypted bytes that the kernel has not taken."""
        return self.transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high=None, low=None) -> None:
        """See asyncio.WriteTransport."""
        self.transport.set_write_buffer_limits(high=high, low=low)

    def pause_reading(self) -> None:
        """Deliver nothing until resume_reading()."""
        self.paused = True
        self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Go on; what is decrypted already comes first."""
        if not self.paused:
            return
        self.paused = False
        if self.state == OPEN:
            self.transport.resume_reading()
            self.buffers.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if self.state == OPEN and not self.paused:
            self._deliver()

    def is_reading(self) -> bool:
        """False while paused."""
        return not self.paused and self.state != CLOSED

    def get_extra_info(self, name, default=None):
        """`ssl_object`, `sslcontext`, and what the plain transport knows."""
        if name == "ssl_object":
            return self.ssl
        if name == "sslcontext":
            return self.context
        return self.transport.get_extra_info(name, default)
