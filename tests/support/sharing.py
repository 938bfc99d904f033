"""Conversations of several clients in several accounts, told in a form that two servers can share."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Step:
    """One client says something. `{reply}` is the last reply subject that any client got.

    `expects`: so many frames come back to this client, some of them maybe not at once.
    """

    client: str
    says: str
    expects: int = 0

    @classmethod
    def publish(
        cls, client: str, subject: str, payload: str = "", reply: str = "", headers: str = "", expects: int = 0
    ) -> Step:
        """PUB, or HPUB when there are headers."""
        reply = f"{reply} " if reply else ""
        verb, sizes = ("HPUB", f"{len(headers)} ") if headers else ("PUB", "")
        sizes += f"{len(headers + payload)}"
        return cls(client, f"{verb} {subject} {reply}{sizes}\r\n{headers}{payload}\r\n", expects)


class Client:
    """A raw connection whose name is its user's; the password is `p`. `name-` and anything: echo off."""

    def __init__(self, port: int, name: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = self._socket.makefile("rb")
        self._stream.readline()
        connect = {
            "user": name.partition("-")[0], "pass": "p", "verbose": False, "pedantic": False, "headers": True,
            "no_responders": True, "echo": "-" not in name, "name": name, "lang": "test", "version": "1",
        }  # fmt: skip
        self.send(f"CONNECT {json.dumps(connect)}\r\n")
        self.frames()

    def send(self, text: str) -> None:
        self._socket.sendall(text.encode())

    def frames(self) -> list[bytes]:
        """Everything that was sent to the client by now, one entry for each message or line."""
        self.send("PING\r\n")
        found: list[Any] = []
        while True:
            line = self._stream.readline()
            if not line:
                return [*found, b"(closed)"]
            if line == b"PONG\r\n":
                return found
            words = line.split()
            if words[0] == b"PING":
                continue  # a server asks when it likes
            if words[0] in (b"MSG", b"HMSG"):
                line += self._stream.read(int(words[-1]) + 2)
            found.append(line)

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


def play(port: int, clients: Iterable[str], steps: Iterable[Step]) -> list[str]:
    """What every client gets at each step, in no order within a step. One line for each frame."""
    open_clients = {name: Client(port, name) for name in clients}
    told: list[str] = []
    replies: dict[str, str] = {}
    try:
        for step in steps:
            last = list(replies)[-1] if replies else "none"
            open_clients[step.client].send(step.says.replace("{reply}", last))
            told.append(f"{step.client}: {step.says!r}")
            found = open_clients[step.client].frames()
            deadline = time.monotonic() + TIMEOUT_S
            while len(found) < step.expects and time.monotonic() < deadline:
                found += open_clients[step.client].frames()
            lines = [(step.client, frame) for frame in found]
            for name, client in open_clients.items():
                lines += [(name, frame) for frame in client.frames()]
            for _, frame in sorted(lines):
                for reply in re.findall(rb"_R_\.\w{6}\.\w+", frame):
                    replies.setdefault(reply.decode(), f"R{len(replies)}")
            told += sorted(f"  {name} < {normalised(frame, replies)}" for name, frame in lines)
    finally:
        for client in open_clients.values():
            client.close()
    return told


def normalised(frame: bytes, replies: dict[str, str]) -> str:
    """Without what differs from server to server and from run to run."""
    text = frame.decode()
    for reply, name in replies.items():
        text = text.replace(reply, name)
    text = re.sub(r'"rtt":\d+', '"rtt":1', text)
    text = re.sub(r'"start":"[^"]+"', '"start":"T"', text)
    text = re.sub(r'"id":\d+', '"id":1', text)
    text = re.sub(r'"server":"N[A-Z0-9]+"', '"server":"S"', text)
    if text.startswith("HMSG"):
        head, _, rest = text.partition("\r\n")
        text = " ".join(head.split()[:-2]) + "\r\n" + rest  # sizes: those of the numbers above vary
    return repr(text)
