"""Connections within this machine go without pacing.

A congestion control that paces, BBR above all, sends by a timer what the loopback interface would take at once. There
is no network to be kind to: it only costs processor time.
"""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path
from typing import Final, Protocol

_DEFAULT: Final = Path("/proc/sys/net/ipv4/tcp_congestion_control")
_PACING: Final = "bbr"  # and its later versions, by the beginning of their names
_UNPACED: Final = b"reno"  # every kernel has it, and every user may ask for it
_LOOPBACK: Final = ("127.", "[::1]")


class _Socket(Protocol):
    def setsockopt(self, level: int, option: int, value: bytes, /) -> None: ...


def default_paces() -> bool:
    """Do new connections of this machine pace what they send?"""
    with contextlib.suppress(OSError):
        return _DEFAULT.read_text().startswith(_PACING)
    return False


_paced = default_paces()


def send_at_once(sock: _Socket, peer: str) -> None:
    """Do not pace what is sent to `peer` (`host:port`) when it is on this machine."""
    if _paced and peer.startswith(_LOOPBACK):
        with contextlib.suppress(OSError):  # the connection is gone already, or is no TCP
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _UNPACED)
