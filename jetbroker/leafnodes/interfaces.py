"""The addresses by which other machines reach this one."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final

_IPV6_ADDRESSES: Final = Path("/proc/self/net/if_inet6")  # a line for each, which begins with 32 hexadecimal digits
_SIOCGIFADDR: Final = 0x8915  # Linux: the IPv4 address of an interface
_REQUEST_BYTES: Final = 40


def own_address() -> str | None:
    """The first one that others can use; None: this machine has none."""
    for found in _addresses():
        if not (found.is_loopback or found.is_link_local or found.is_multicast or found.is_unspecified):
            return str(found)
    return None


def _addresses() -> Iterator[IPv4Address | IPv6Address]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for name in _names():
            with suppress(OSError):  # this one has no such address
                found = fcntl.ioctl(asking, _SIOCGIFADDR, os.fsencode(name).ljust(_REQUEST_BYTES, b"\0"))
                yield ip_address(found[20:24])
    with suppress(OSError):  # a kernel without IPv6
        for line in _IPV6_ADDRESSES.read_text().splitlines():
            yield ip_address(bytes.fromhex(line[:32]))


def _names() -> list[str]:
    """None where a sandbox does not let us ask: that takes a socket of the family AF_NETLINK."""
    try:
        return [name for _, name in socket.if_nameindex()]
    except OSError:
        return []
