"""The other end of a leafnode connection, by hand: dialled or dialling, read line by line, with nothing of chance left.

What a peer hears are texts: a line as it is, a message as its line, "|" and its payload, the JSON of INFO and CONNECT
key by key. What belongs to one server, build, port or moment has a word of its own in its place.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Iterable
from itertools import groupby

from tests.support.process import STOP_TIMEOUT_S

HEARD_TIMEOUT_S = 5.0
CLOSED = "closed"
SILENT = "silent"

_NOT_COMPARED = {"git_commit", "xkey"}  # a build's commit; the key of auth callout, which there is none of
_OWN = {"server_id", "version", "go", "client_id", "nonce", "client_ip"}
_ANSWERS = "LS+ _R_.6.>"  # of services of the account: nats-server tells of them with the first request
_INTEREST = ("LS+ ", "LS- ")
_MESSAGE = ("MSG ", "HMSG ")
_MADE_UP = [
    (re.compile(r"\bN[A-Z2-7]{55}\b"), "SERVER"),
    (re.compile(r"\$SYS\._INBOX\.[0-9A-Za-z]{8}\b"), "$SYS._INBOX.8"),
    (re.compile(r"\$LDS\.[0-9A-Za-z]{22}\b"), "$LDS.own"),
    (re.compile(r"\b_R_\.[0-9A-Za-z]{6}\.[0-9A-Za-z]{6,16}\b"), "_R_.6.6"),
    (re.compile(r"\b_R_\.[0-9A-Za-z]{6}\b"), "_R_.6"),
    (re.compile(r"\$JSC\.R\.[0-9A-Za-z]{8}\b"), "$JSC.R.8"),
    (re.compile(r"\$JS\.([MS])\.[0-9A-Za-z]{8}\b"), r"$JS.\1.8"),
    (re.compile(r"\bJS_(SRC|MIRROR)_[0-9A-Za-z]{8}(-[0-9A-Za-z]{8})?"), r"JS_\1_8"),
    (re.compile(r'"rtt":\d+'), '"rtt":0'),
    (re.compile(r'"start":"[^"]+"'), '"start":"time"'),
    (re.compile(r'"id":\d+'), '"id":0'),
    (re.compile(r"\b\d{18,19}\b"), "time"),
]


def dial(port: int) -> socket.socket:
    found = socket.create_connection(("127.0.0.1", port), timeout=STOP_TIMEOUT_S)
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


class Listener:
    """A port that a server under test solicits."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]

    def accept(self, timeout_s: float = STOP_TIMEOUT_S) -> socket.socket:
        """The next connection; raises TimeoutError when none comes in time."""
        self._socket.settimeout(timeout_s)
        found, _ = self._socket.accept()
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found

    def close(self) -> None:
        self._socket.close()


class Peer:
    """One connection to a server under test, whoever dialled. `ports`: port to the word that stands for it."""

    def __init__(self, connection: socket.socket, ports: dict[int, str]) -> None:
        self.connection = connection
        self.nonce = ""
        self.own_loop_subject = ""  # $LDS.<nuid> as the server announced it
        self.closed = False
        self.ponged = False  # it has answered a PING: the next one is answered, too
        self._ports = ports
        self._heard: list[str] = []
        self._rest = b""
        self._pongs = 0

    @property
    def local_port(self) -> int:
        port: int = self.connection.getsockname()[1]
        return port

    def say(self, data: bytes) -> None:
        """Send all. A server that closed already is no error here: what it said is what counts."""
        data = data.replace(b"OWN_LOOP", self.own_loop_subject.encode())
        try:
            self.connection.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def until_pong(self, data: bytes = b"") -> list[str]:
        """Say it and ask, in one go; what comes up to the answer or the end."""
        self._pongs = 0
        self.say(data + b"PING\r\n")
        while not self._pongs and self._receive():
            pass
        self.ponged = self.ponged or bool(self._pongs)
        return self.taken()

    def until(self, *begins: str) -> list[str]:
        """What comes up to a line that begins so, or to the end."""
        while not any(line.startswith(begins) for line in self._heard) and self._receive():
            pass
        return self.taken()

    def to_end(self) -> list[str]:
        """What comes until the server closes."""
        while self._receive():
            pass
        return self.taken()

    def taken(self) -> list[str]:
        """What was heard since the last time; interest of one burst comes in no order."""
        heard, self._heard = in_order(self._heard), []
        return heard

    def close(self) -> None:
        """Read all that is left first: a connection closed with something unread is reset."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
        self.to_end()
        self.connection.close()

    def _receive(self) -> bool:
        """False: nothing more comes, and why is noted."""
        if self.closed:
            return False
        self.connection.settimeout(HEARD_TIMEOUT_S)
        try:
            data = self.connection.recv(65536)
        except ConnectionResetError:
            data = b""
        except TimeoutError:
            self._heard.append(SILENT)
            return False
        if not data:
            self.closed = True
            if self._rest:
                self._heard.append(f"cut off: {self._rest!r}")
            self._heard.append(CLOSED)
            return False
        self._rest += data
        while self._take():
            pass
        return True

    def _take(self) -> bool:
        line, found, behind = self._rest.partition(b"\r\n")
        if not found:
            return False
        verb, _, arguments = line.partition(b" ")
        if verb in (b"LMSG", b"HMSG", b"MSG"):
            size = int(arguments.rpartition(b" ")[2])
            if len(behind) < size + 2:
                return False
            self._heard.append(self._message(line.decode("latin-1"), behind[:size].decode("latin-1")))
            self._rest = behind[size + 2 :]
            return True
        self._rest = behind
        if verb == b"PING":  # a server asks when it likes
            self.say(b"PONG\r\n")
        elif verb == b"PONG":
            self._pongs += 1
        else:
            self._hear(self._line(verb, arguments, line))
        return True

    def _hear(self, line: str) -> None:
        if line != _ANSWERS:
            self._heard.append(line)

    def _line(self, verb: bytes, arguments: bytes, line: bytes) -> str:
        text = line.decode("latin-1")
        if verb in (b"INFO", b"CONNECT"):
            said = json.loads(arguments)
            self.nonce = said.get("nonce", self.nonce)
            return f"{verb.decode()} {shown(said, self._ports)}{' ' if arguments.endswith(b' ') else ''}"
        if text.startswith("LS+ $LDS.") and not self.own_loop_subject:
            self.own_loop_subject = text[4:]
        return plain(text, self._ports)

    def _message(self, line: str, payload: str) -> str:
        words = line.split(" ")
        for sign, first in (("+", 4), ("|", 3)):
            if words[0] != "MSG" and words[2:3] == [sign]:
                last = -1 if words[0] == "LMSG" else -2
                words[first:last] = sorted(words[first:last])  # the groups of one message come in no order
        if words[0] == "HMSG" and '"rtt":' in payload:
            words[-2:] = ["hdr", "total"]
        return plain(f"{' '.join(words)}|{payload}", self._ports)


def shown(said: dict[str, object], ports: dict[int, str]) -> str:
    """The JSON of an INFO or a CONNECT, in its own order."""
    kept = {key: f"<{key}>" if key in _OWN else value for key, value in said.items() if key not in _NOT_COMPARED}
    return plain(json.dumps(kept), ports)


def plain(text: str, ports: dict[int, str]) -> str:
    """A text without what a server makes up."""
    for pattern, word in _MADE_UP:
        text = pattern.sub(word, text)
    for port, name in ports.items():
        text = re.sub(rf"\b{port}\b", name, text)
    return text


def in_order(lines: Iterable[str]) -> list[str]:
    """Neighbours that come in no order sorted: interest, told in the order of a map, and the copies of a message."""
    ordered: list[str] = []
    for kind, group in groupby(lines, _kind):
        burst = list(group)
        ordered += sorted(burst) if kind else burst
    return ordered


def _kind(line: str) -> str:
    """Lines of one kind, of which a server may say any one first."""
    if line.startswith(_INTEREST):
        return "interest"
    if line.startswith(_MESSAGE):
        return f"copies of {line.partition('|')[2]}"
    return ""
