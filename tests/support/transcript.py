"""What a client receives, read into items that two servers can share: random and server's own values are gone."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

# INFO fields whose values belong to one server, build or address
OWN_VALUES = {
    "server_id",
    "server_name",
    "version",
    "go",
    "git_commit",
    "port",
    "client_id",
    "client_ip",
    "xkey",
    "nonce",
}
NOT_COMPARED = {"git_commit", "xkey", "ws_connect_urls"}

_MADE_UP = re.compile(rb"_R_\.\w+(\.\w+)?")  # replies that a server makes for a service import
_RTT = re.compile(rb'"rtt":\d+')


class Item(NamedTuple):
    """One thing a server said. MSG and HMSG: subject, sid, reply, headers, payload; others: their line."""

    kind: str
    fields: tuple[bytes | None, ...] = ()

    @property
    def payload(self) -> bytes:
        return self.fields[-1] or b""


class Reader:
    """Items of one connection; feed() takes what came."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.pongs = 0
        self.nonce = b""
        self._rest = b""

    @property
    def unread(self) -> bytes:
        """The beginning of something that never became whole."""
        return self._rest

    def feed(self, data: bytes) -> None:
        """Raises ValueError at something no server says."""
        self._rest += data
        while self._take():
            pass

    def _take(self) -> bool:
        line, found, behind = self._rest.partition(b"\r\n")
        if not found:
            return False
        words = line.split(b" ")
        if words[0] in (b"MSG", b"HMSG"):
            size = int(words[-1])
            if len(behind) < size + 2:
                return False
            self.items.append(_message(words, behind[:size]))
            self._rest = behind[size + 2 :]
            return True
        self._rest = behind
        if words[0] == b"PONG":
            self.pongs += 1
        if words[0] == b"INFO":
            self.items.append(self._info(line))
        elif words[0] in (b"+OK", b"-ERR", b"PONG"):
            self.items.append(Item(words[0].decode(), (line,)))
        elif words[0] != b"PING":  # a server asks when it likes
            raise ValueError(line)
        return True

    def _info(self, line: bytes) -> Item:
        info = json.loads(line[5:])
        self.nonce = info.get("nonce", "").encode() or self.nonce
        shown = {key: "own" if key in OWN_VALUES else value for key, value in info.items() if key not in NOT_COMPARED}
        return Item("INFO", (json.dumps(shown, sort_keys=True).encode(),))


def _message(words: list[bytes], body: bytes) -> Item:
    kind = words[0].decode()
    headers = None
    if kind == "HMSG":
        split = int(words[-2])
        headers, body = body[:split], body[split:]
    sizes = 1 if kind == "MSG" else 2
    subject, sid = words[1], words[2]
    reply = words[3] if len(words) == 4 + sizes else None
    if headers is not None:
        headers = _RTT.sub(b'"rtt":0', headers)
    if headers is not None and headers.startswith(b"NATS/1.0 503"):
        sid = b"any"  # of those that match
    return Item(kind, (_plain(subject), sid, _plain(reply), headers, body))


def _plain(subject: bytes | None) -> bytes | None:
    return subject if subject is None else _MADE_UP.sub(b"_R_", subject)
