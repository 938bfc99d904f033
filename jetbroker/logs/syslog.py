"""The log sent to syslog: this machine's, or another's over UDP, TCP or a Unix socket.

Sending never waits: what a slow or missing receiver does not take at once is kept up to a bound, then lost.
"""

import errno
import os
import socket
import time
from typing import Final
from urllib.parse import SplitResult, urlsplit

from jetbroker import limits
from jetbroker.errors import ConfigError

_DAEMON: Final = 3 << 3  # the facility of the local log; a remote one gets none, as from nats-server
_SEVERITIES: Final = {"INF": 5, "DBG": 7, "WRN": 4, "ERR": 3, "FTL": 2, "TRC": 5}
_LOCAL_SOCKETS: Final = ("/dev/log", "/var/run/syslog", "/var/run/log")
_MONTHS: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


class Syslog:
    """A connection to a syslog. `lost_lines` counts what could not be sent."""

    def __init__(self, url: str, tag: str) -> None:
        """Connect to `udp://host:port`, `tcp://host:port` or `unix:///path`; an empty `url` is this machine's syslog.

        `tag` is the program's name in each line. Raises :class:`~jetbroker.errors.ConfigError`.
        """
        self.lost_lines = 0
        self._tag = f"{tag}[{os.getpid()}]"
        self._facility = 0 if url else _DAEMON
        self._socket: socket.socket | None = _remote(url) if url else _local()
        self._family, self._kind = self._socket.family, self._socket.type
        self._address = self._socket.getpeername()
        self._is_local = self._family == socket.AF_UNIX
        self._is_stream = self._kind == socket.SOCK_STREAM
        self._host = socket.gethostname()
        self._unsent = b""  # of a stream
        self._retry_at = 0.0

    def send(self, level: str, text: str) -> None:
        """Send one line. Never raises and never waits."""
        line = f"<{self._facility | _SEVERITIES[level]}>{self._header()}: {text}\n".encode("utf-8", "backslashreplace")
        if not self._ready():
            self.lost_lines += 1
            return
        try:
            if self._is_stream:
                self._send_stream(line)
            else:
                self._open_socket().send(line)
        except BlockingIOError:
            self.lost_lines += 1
        except OSError as error:
            self.lost_lines += 1
            if error.errno != errno.EMSGSIZE:  # a line that is too long is lost alone
                self._drop()

    def close(self) -> None:
        """Close the connection; what is unsent is lost."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _header(self) -> str:
        now = time.localtime()
        if self._is_local:
            day = f"{_MONTHS[now.tm_mon - 1]} {now.tm_mday:2d} {now.tm_hour:02d}:{now.tm_min:02d}:{now.tm_sec:02d}"
            return f"{day} {self._tag}"
        zone = time.strftime("%z", now)
        zone = "Z" if now.tm_gmtoff == 0 else f"{zone[:3]}:{zone[3:]}"
        return f"{time.strftime('%Y-%m-%dT%H:%M:%S', now)}{zone} {self._host} {self._tag}"

    def _open_socket(self) -> socket.socket:
        if self._socket is None:
            raise OSError("not connected")
        return self._socket

    def _send_stream(self, line: bytes) -> None:
        if len(self._unsent) + len(line) > limits.SYSLOG_PENDING_BYTES:
            self.lost_lines += 1
            line = b""
        self._unsent += line
        try:
            sent = self._open_socket().send(self._unsent)
        except BlockingIOError:
            return
        self._unsent = self._unsent[sent:]

    def _ready(self) -> bool:
        """True with a connection. Where the last one broke a new one is begun; whether it works shows when sending."""
        if self._socket is not None:
            return True
        if time.monotonic() < self._retry_at:
            return False
        connection = socket.socket(self._family, self._kind)
        connection.setblocking(False)
        self._socket = connection
        if connection.connect_ex(self._address) not in (0, errno.EINPROGRESS):
            self._drop()
            return False
        return True

    def _drop(self) -> None:
        self.close()
        self._unsent = b""  # its beginning may be cut off: lines are lost rather than torn
        self._retry_at = time.monotonic() + limits.SYSLOG_RETRY_SECONDS


def _local() -> socket.socket:
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        for path in _LOCAL_SOCKETS:
            try:
                return _dial(socket.AF_UNIX, kind, path)
            except OSError:
                continue
    raise ConfigError('error connecting to syslog: "Unix syslog delivery error"')


def _remote(url: str) -> socket.socket:
    try:
        parts = urlsplit(url)
        port = parts.port or 0
    except ValueError as error:
        raise ConfigError(f"error connecting to syslog: {error}") from None
    if parts.scheme not in ("udp", "tcp", "unix"):
        raise ConfigError(f'error invalid network type: "{parts.scheme}"')
    family, kind, address = _resolved(parts, port)
    try:
        return _dial(family, kind, address)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        where = parts.path if parts.scheme == "unix" else parts.netloc
        raise ConfigError(f'error connecting to syslog: "dial {parts.scheme} {where}: connect: {why}"') from None


def _resolved(parts: SplitResult, port: int) -> tuple[socket.AddressFamily, socket.SocketKind, object]:
    if parts.scheme == "unix":
        return socket.AF_UNIX, socket.SOCK_STREAM, parts.path
    kind = socket.SOCK_DGRAM if parts.scheme == "udp" else socket.SOCK_STREAM
    if not parts.port:
        what = "missing port in address" if parts.hostname else "missing address"
        raise ConfigError(f'error connecting to syslog: "dial {parts.scheme}: address {parts.netloc}: {what}"')
    try:
        found = socket.getaddrinfo(parts.hostname or "localhost", port, type=kind)
    except (OSError, UnicodeError) as error:
        why = f"lookup {parts.hostname}: {error}"
        raise ConfigError(f'error connecting to syslog: "dial {parts.scheme}: {why}"') from None
    return found[0][0], kind, found[0][4]


def _dial(family: socket.AddressFamily, kind: socket.SocketKind, address: object) -> socket.socket:
    connection = socket.socket(family, kind)
    try:
        connection.settimeout(limits.SYSLOG_CONNECT_SECONDS)
        connection.connect(address)  # type: ignore[arg-type]  # of the family: (host, port, ...) or a path
        connection.setblocking(False)
    except OSError:
        connection.close()
        raise
    return connection
