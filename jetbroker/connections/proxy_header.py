"""PROXY protocol headers, version 1 (a line of text) and 2 (binary), without I/O.

Bytes go in as they come; what stands behind the header is handed back. At most a line is kept: addresses of version 2
are its first bytes, the rest of up to 64 KB is counted and thrown away.
"""

import ipaddress
from dataclasses import dataclass

from jetbroker.errors import JetbrokerError
from jetbroker.forms.strconv import parse_uint

_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
_PREFIX = b"PROXY "
_LINE_BYTES = 107  # of version 1, with CR LF
_V2_BYTES = 16  # signature, version and command, family and protocol, length of the rest
_BOUNDARIES = (0, len(_PREFIX), len(_SIGNATURE), _V2_BYTES)  # of the parts nats-server reads: an end there is plain
_LOCAL, _PROXY = 0, 1
_UNSPECIFIED, _INET, _INET6 = 0x00, 0x10, 0x20
_STREAM = 1
_ADDRESS_BYTES = {_INET: 4, _INET6: 16}
_INVALID = "invalid PROXY protocol header"
_UNSUPPORTED = "unsupported PROXY protocol feature"


class ProxyHeaderError(JetbrokerError):
    """A header that is wrong; the text is nats-server's."""


@dataclass(frozen=True, slots=True)
class ProxiedAddress:
    """Whose connection it is."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ProxyHeader:
    """One header being read.

    `finished`: no more is needed. Then `address` is the client's (None: that of the connection holds), `found` is
    False when there was no header at all, and `rest` is what stands behind it.
    """

    def __init__(self) -> None:
        self.finished = False
        self.found = True
        self.address: ProxiedAddress | None = None
        self.rest = b""
        self._kept = bytearray()
        self._skip = 0  # bytes of version 2 that mean nothing to us
        self._reading = "read protocol version"

    @property
    def empty(self) -> bool:
        """Nothing has come."""
        return not self.begun and not self._kept

    @property
    def begun(self) -> bool:
        """Enough has come to tell what it is."""
        return self._reading != "read protocol version" or self.finished

    def feed(self, data: bytes) -> None:
        """More bytes. Raises ProxyHeaderError."""
        if self._skip:
            size = min(self._skip, len(data))
            self._skip -= size
            if not self._skip:
                self._finish(self.address, data[size:])
            return
        self._kept += data
        if len(self._kept) < len(_PREFIX):
            return
        if self._kept.startswith(_PREFIX):
            self._line()
        elif self._kept.startswith(_SIGNATURE[: len(_PREFIX)]):
            self._binary()
        else:
            self.found = False
            self._finish(None, bytes(self._kept))

    def cut(self, why: str, *, at_end: bool) -> str:
        """The text for a header that is not finished and will not be: time is up, or (`at_end`) the input ended."""
        partly = self._skip > 0 if self.address is not None else len(self._kept) not in _BOUNDARIES
        if at_end and partly and self._reading != "read v1 line":
            why = f"unexpected {why}"
        return f"failed to {self._reading}: {why}"

    def _finish(self, address: ProxiedAddress | None, rest: bytes) -> None:
        self.address = address
        self.rest = rest
        self.finished = True
        self._kept.clear()

    # --- version 1 ---

    def _line(self) -> None:
        self._reading = "read v1 line"
        end = self._kept.find(b"\r\n", len(_PREFIX), _LINE_BYTES)
        if end >= 0:
            self._finish(_from_line(bytes(self._kept[len(_PREFIX) : end])), bytes(self._kept[end + 2 :]))
        elif len(self._kept) >= _LINE_BYTES:
            raise ProxyHeaderError(f"{_INVALID}: v1 line too long")

    # --- version 2 ---

    def _binary(self) -> None:
        kept = self._kept
        self._reading = "read v2 signature"
        if len(kept) < len(_SIGNATURE):
            return
        if not kept.startswith(_SIGNATURE):
            raise ProxyHeaderError(f"{_INVALID}: invalid signature")
        self._reading = "read v2 header"
        if len(kept) < _V2_BYTES:
            return
        family = _checked_family(kept)
        size = int.from_bytes(kept[14:16], "big")
        if family == _UNSPECIFIED:
            local = kept[12] & 0x0F == _LOCAL
            self._reading = f"discard {'LOCAL command' if local else 'UNSPEC address'} address data"
            self._behind(_V2_BYTES, size, None)
            return
        width = _ADDRESS_BYTES[family]
        needed = 2 * width + 4
        name = "IPv4" if family == _INET else "IPv6"
        if size < needed:
            raise ProxyHeaderError(f"{name} address data too short: {size} bytes")
        self._reading = f"read {name} address data"
        if len(kept) < _V2_BYTES + needed:
            return
        host = ipaddress.ip_address(bytes(kept[_V2_BYTES : _V2_BYTES + width]))
        at = _V2_BYTES + 2 * width
        address = ProxiedAddress(_shown(host), int.from_bytes(kept[at : at + 2], "big"))
        self._behind(_V2_BYTES + needed, size - needed, address)

    def _behind(self, at: int, more: int, address: ProxiedAddress | None) -> None:
        """The header goes on for `more` bytes that nobody needs."""
        rest = bytes(self._kept[at:])
        if len(rest) >= more:
            self._finish(address, rest[more:])
        else:
            self.address = address
            self._skip = more - len(rest)
            self._kept.clear()


def _checked_family(header: bytearray) -> int:
    """The family of the addresses of a version 2 header; unspecified where they are not to be looked at."""
    version, command = header[12] & 0xF0, header[12] & 0x0F
    family, protocol = header[13] & 0xF0, header[13] & 0x0F
    if version != 0x20:
        raise ProxyHeaderError(f"{_INVALID}: invalid version 0x{version:02x}")
    if command == _LOCAL:
        return _UNSPECIFIED
    if command != _PROXY:
        raise ProxyHeaderError(f"unknown PROXY protocol command: 0x{command:02x}")
    if protocol != _STREAM:
        raise ProxyHeaderError(f"{_UNSUPPORTED}: only STREAM protocol supported")
    if family not in (_UNSPECIFIED, _INET, _INET6):
        raise ProxyHeaderError(f"{_UNSUPPORTED}: unsupported address family 0x{family:02x}")
    return family


def _from_line(line: bytes) -> ProxiedAddress | None:
    """What stands between `PROXY ` and the end of the line."""
    parts = line.decode("latin-1").split()
    if not parts:
        raise ProxyHeaderError(f"{_INVALID}: invalid v1 format")
    protocol = parts[0]
    if protocol == "UNKNOWN":
        return None
    if len(parts) != 5:
        raise ProxyHeaderError(f"{_INVALID}: invalid v1 format")
    try:
        if "%" in parts[1] + parts[2]:
            raise ValueError("a zone")
        host = ipaddress.ip_address(parts[1])
        ipaddress.ip_address(parts[2])
    except ValueError:
        raise ProxyHeaderError(f"{_INVALID}: invalid address") from None
    port = _port(parts[3], "source")
    _port(parts[4], "dest")
    colons = [":" in part for part in parts[1:3]]
    if protocol == "TCP4" and any(colons):
        raise ProxyHeaderError(f"{_INVALID}: TCP4 with IPv6 address")
    if protocol == "TCP6" and not all(colons):
        raise ProxyHeaderError(f"{_INVALID}: TCP6 with IPv4 address")
    if protocol not in ("TCP4", "TCP6"):
        raise ProxyHeaderError(f"{_INVALID}: invalid protocol {protocol}")
    return ProxiedAddress(_shown(host), port)


def _port(text: str, which: str) -> int:
    try:
        return parse_uint(text, 2**16 - 1)
    except ValueError as error:
        raise ProxyHeaderError(f"invalid {which} port: {error}") from None


def _shown(host: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """An address as Go writes it: those of version 4 in dots, also inside of version 6."""
    if isinstance(host, ipaddress.IPv6Address) and host.ipv4_mapped is not None:
        return str(host.ipv4_mapped)
    return str(host)
