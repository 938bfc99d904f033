"""Clients of operator mode on raw sockets, and what they get, in a form that two servers can share."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.support.daemon import Daemon, Raw
from tests.support.jwts import Account, Key, User

_REPLY = re.compile(r"_R_\.\w{6}\.\w+")
_FIGURES = re.compile(r'"(rtt|start|id|server|ts|created|uptime|mem|time|seq)":("[^"]*"|[\d.]+)')


class Member:
    """A logged-in user."""

    def __init__(self, daemon: Daemon, user: User, token: str = "", **more: Any) -> None:
        self.raw: Raw = daemon.open()
        info = json.loads(self.raw.info[5:])
        fields = {
            "jwt": token or user.token(), "sig": user.key.signature(info["nonce"]), "verbose": False,
            "pedantic": False, "headers": True, "no_responders": True, **more,
        }  # fmt: skip
        self.raw.send(b"CONNECT " + json.dumps(fields).encode() + b"\r\n")
        self.greeting = self.hears()

    def says(self, text: str) -> list[str]:
        """Send commands; what comes back up to the PONG behind them."""
        self.raw.send(text.encode())
        return self.hears()

    def hears(self) -> list[str]:
        """Everything that was sent to this client by now."""
        lines = [line for line in self.raw.exchange(b"").decode().split("\r\n") if line != "PING"]
        closed = "PONG" not in lines
        return [normal(line) for line in lines if line and line != "PONG"] + (["(closed)"] if closed else [])

    def waits_for_end(self) -> list[str]:
        """What comes until the server closes the connection."""
        return [normal(line) for line in self.raw.to_end().decode().split("\r\n") if line and line != "PONG"]

    def asks(self, subject: str, body: str = "") -> list[str]:
        """A request with its answer."""
        self.raw.send(f"SUB answer.{id(self)} 99\r\nPUB {subject} answer.{id(self)} {len(body)}\r\n{body}\r\n".encode())
        found = b""
        while not found.startswith((b"MSG", b"HMSG")):
            found = self.raw.line()
            if not found:
                return ["(closed)"]
        size = int(found.split()[-1])
        data = b""
        while len(data) < size + 2:
            data += self.raw.until(b"\r\n")
        self.raw.send(b"UNSUB 99\r\n")
        return [normal(line) for line in data.decode().split("\r\n") if line]


def normal(text: str) -> str:
    """Without what differs from run to run."""
    text = _FIGURES.sub(r'"\1":0', _REPLY.sub("_R_", text))
    if text.startswith(("HMSG", "MSG")):  # sizes vary with the figures
        return re.sub(r"answer\.\d+", "answer", " ".join(word for word in text.split() if not word.isdigit()))
    if text.startswith("INFO"):
        return "INFO"
    return text


def update(system: Member, account: Account, signer: Key, **outer: Any) -> str:
    """Send an account's new token; the message of the answer."""
    answer = json.loads(
        system.asks(f"$SYS.REQ.ACCOUNT.{account.public}.CLAIMS.UPDATE", account.token(signer, **outer))[0]
    )
    found = answer.get("data") or answer["error"]
    return str(found.get("message") or found["description"])
