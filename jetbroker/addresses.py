"""Addresses of sockets as nats-server writes them, and ports opened as it opens them."""

import errno
import socket
from typing import Any

_ANY = ("0.0.0.0", "::")
_MAPPED = "::ffff:"  # an IPv4 address on a socket for both (RFC 4291, section 2.5.5.2)
_NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT)
_REACHABLE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_NAME_BYTES = 253
_opened: dict[tuple[str, int], socket.socket] = {}


def joined(host: str, port: int) -> str:
    """`host:port`, IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split(address: str) -> tuple[str, int]:
    """Host and port of what :func:`joined` made; the port is 0 where there is none."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port) if port.isdigit() else 0


def of_socket(name: tuple[Any, ...] | None, unknown: str = "") -> str:
    """A transport's `peername` or `sockname`; `unknown` for one that is gone already."""
    if not name:
        return unknown
    host = str(name[0])
    return joined(host.removeprefix(_MAPPED) if "." in host else host, name[1])


def reachable(host: str) -> str:
    """An address a program on this machine can dial."""
    return _REACHABLE.get(host, host)


def is_any(host: str) -> bool:
    """Does who listens there listen on all addresses?"""
    return host in _ANY


def is_host(host: str) -> bool:
    """Whether a host may have this name: none has an empty label, or one of more than 63 bytes (RFC 1035)."""
    try:
        return len(host.encode("idna")) <= _NAME_BYTES
    except UnicodeError:
        return False


def open_early(host: str, port: int, backlog: int) -> None:
    """Listen before anybody accepts: who connects meanwhile waits a moment instead of being refused.

    :func:`bound_socket` gives that socket then. What goes wrong here goes wrong there again, where it is told.
    """
    try:
        listener = bound_socket(host, port)
    except OSError:
        return
    try:
        listener.listen(backlog)
    except OSError:
        listener.close()
    else:
        _opened[host, port] = listener


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket to listen with. All IPv4 addresses mean all of IPv6 too, as in Go. Raises OSError, socket.gaierror."""
    opened = _opened.pop((host, port), None)
    if opened is not None:
        return opened
    if is_any(host) and socket.has_ipv6:
        try:
            return _bound(socket.AF_INET6, ("::", port), both=True)
        except OSError as error:
            if error.errno not in _NO_IPV6:
                raise
    if not is_host(host):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return _bound(family, address)


def _bound(family: int, address: tuple[Any, ...], *, both: bool = False) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if both:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.setblocking(False)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener
