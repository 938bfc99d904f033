"""Ends of connections that a peer sees as a reset, as those of a server that closes with input it has not read."""

from __future__ import annotations

import fcntl
import socket
import struct
from typing import Final, Protocol

_SIOCOUTQNSD: Final = 0x894B  # Linux: bytes in the send queue that never left the machine
_COUNT: Final = struct.Struct("i")
_LINGER_NOT: Final = struct.pack("ii", 1, 0)


class _Socket(Protocol):
    def fileno(self) -> int: ...
    def setsockopt(self, level: int, option: int, value: bytes, /) -> None: ...


def reset_on_close(sock: _Socket) -> None:
    """Closing `sock` will reset its connection. Nothing changes while bytes wait to be sent: a reset drops them."""
    try:
        (unsent,) = _COUNT.unpack(fcntl.ioctl(sock.fileno(), _SIOCOUTQNSD, bytes(_COUNT.size)))
        if unsent == 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    except OSError:
        return  # the peer was faster, or this is no TCP: it ends as any other
