"""HTTPS: the TLS handshakes of the monitoring port."""

import asyncio
import ssl

from jetbroker import limits
from jetbroker.addresses import of_socket
from jetbroker.connections.tls import failure_text, is_plain_http
from jetbroker.connections.tls_layer import TlsBuffers, TlsLayer
from jetbroker.logs.logger import Logger

_NO_HTTP = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"


class Arrivals:
    """Connections whose handshake is going on: as many as there may be connections."""

    def __init__(self, loop: asyncio.AbstractEventLoop, log: Logger) -> None:
        self._buffers = TlsBuffers(loop)
        self._log = log
        self._shaking: list[TlsLayer] = []  # the oldest first; some are done already

    def layer(self, context: ssl.SSLContext, protocol: asyncio.Protocol) -> TlsLayer:
        """A TLS layer around a protocol, for a connection that is being accepted."""

        def failed(error: Exception) -> None:
            self._failed(layer, error)

        self._shaking = [other for other in self._shaking if other.shaking]
        if len(self._shaking) >= limits.MONITOR_CONNECTIONS:
            self._shaking.pop(0).fail(TimeoutError())
        layer = TlsLayer(self._buffers, context, protocol, limits.MONITOR_REQUEST_SECONDS, failed)
        self._shaking.append(layer)
        return layer

    def _failed(self, layer: TlsLayer, error: Exception) -> None:
        ours, peer = (of_socket(layer.get_extra_info(name)) for name in ("sockname", "peername"))
        text, _ = failure_text(error, f"{ours}->{peer}")
        if is_plain_http(error):
            layer.transport.write(_NO_HTTP)
            text = "client sent an HTTP request to an HTTPS server"
        self._log.error(f"monitoring: TLS handshake error from {peer}: {text}")
