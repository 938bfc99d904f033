"""How connections end: with a reset, as those of a server that closes with input it has not read; or unread."""

from __future__ import annotations

import fcntl
import select
import socket
import struct
import termios
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


def has_ended(sock: _Socket | None) -> bool:
    """Has the peer closed, with nothing of it left to be read? For connections that are not being read."""
    if sock is None or sock.fileno() < 0:
        return False
    poll = select.poll()
    poll.register(sock.fileno(), select.POLLRDHUP)
    found = [events for _, events in poll.poll(0)]
    if not found:
        return False
    (unread,) = _COUNT.unpack(fcntl.ioctl(sock.fileno(), termios.FIONREAD, bytes(_COUNT.size)))
    return unread == 0 or bool(found[0] & select.POLLHUP)
