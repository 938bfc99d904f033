"""Conversations of several clients with one server, step by step: what each heard, and what the log told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.daemon import Daemon, Raw

PING = b"PING\r\n"
PONG = b"PONG\r\n"


@dataclass(frozen=True)
class Conversation:
    """`clients`: name to the fields of its CONNECT (None: it says so itself in a step).

    `steps`: who says what; after each all who have begun are asked for a PONG. `logged`: lines of these levels are
    part of what is compared.
    """

    name: str
    config: str
    clients: dict[str, bytes | None]
    steps: Sequence[tuple[str, bytes]]
    logged: tuple[str, ...] = ("ERR",)
    flags: tuple[str, ...] = ()


def user(name: str, more: bytes = b"") -> bytes:
    """CONNECT's fields of a user whose password is p; verbose, so that each command is answered."""
    return b'"verbose":true,"pedantic":false,"headers":true,"user":"%b","pass":"p"%b' % (name.encode(), more)


def quiet(name: str) -> bytes:
    return user(name).replace(b'"verbose":true', b'"verbose":false')


def play(server: Daemon, conversation: Conversation) -> list[tuple[str, bytes]]:
    """What came back, in order: (client, bytes)."""
    links: dict[str, Raw] = {}
    heard: list[tuple[str, bytes]] = []
    spoke = {name for name, fields in conversation.clients.items() if fields is not None}
    try:
        for name, fields in conversation.clients.items():
            links[name] = server.open()
            if fields is None:
                continue
            heard.append((name, _without_info(links[name].exchange(b"CONNECT {%b}\r\n" % fields))))
        for speaker, data in conversation.steps:
            heard.append((speaker, _without_info(links[speaker].exchange(data))))
            spoke.add(speaker)
            heard += [(name, links[name].exchange(b"")) for name in links if name in spoke - {speaker}]
    finally:
        for link in links.values():
            link.close()
    return [(name, _without_chance(said)) for name, said in heard if said != PONG]


def logged(server: Daemon, levels: tuple[str, ...]) -> list[str]:
    """The lines of these levels, without process, time and port. Complete once the server has ended.

    What is traced when the clients leave is left out: the end of the server may come before it.
    """
    found = []
    for line in server.log:
        match = re.match(r"\[\d+\] \S+ \S+ (\[(\w+)\] .*)", line)
        if match is not None and match[2] in levels:
            found.append(re.sub(r"127\.0\.0\.1:\d+ - cid:\d+", "client", match[1]))
    while found and "[DELSUB " in found[-1]:
        found.pop()
    return found


def outcome(server: Daemon, conversation: Conversation) -> tuple[list[tuple[str, bytes]], list[str]]:
    """Play it on a server of its own, which is ended."""
    with server:
        heard = play(server, conversation)
    return heard, logged(server, conversation.logged)


def started(tmp_path: Path, conversation: Conversation, program: str | None) -> Daemon:
    """A server for a conversation: nats-server where `program` is given, else jetbroker."""
    config = tmp_path / "conf"
    config.write_text(conversation.config)
    arguments = ("-c", str(config), *conversation.flags)
    return Daemon(*arguments) if program is None else Daemon(*arguments, command=[program])


def _without_chance(said: bytes) -> bytes:
    """Replies that a server makes up, round trip times and what depends on their length."""
    said = re.sub(rb"HMSG (\S+ \S+) _R_\.\S+ \d+ \d+", rb"HMSG \1 _R_", said)
    return re.sub(rb'"rtt":\d+', b"", said)


def _without_info(said: bytes) -> bytes:
    return re.sub(rb"INFO \{.*?\} ?\r\n", b"", said)
