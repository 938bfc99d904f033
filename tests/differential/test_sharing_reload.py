"""Mappings, imports and exports that change while clients are connected, against nats-server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import process
from tests.support.process import JETBROKER_COMMAND
from tests.support.reloads import Edited
from tests.support.sharing import Client, normalised

BEFORE = """
accounts {
  A { users: [{user: a, password: p}], exports: [ {stream: "s.>"}, {service: "svc.*"}, {service: "late"} ] }
  B { users: [{user: b, password: p}], mappings { m: "before" }
      imports: [ {stream: {account: A, subject: "s.1"}}, {service: {account: A, subject: "svc.*"}} ] }
}
"""
AFTER = """
accounts {
  A { users: [{user: a, password: p}], exports: [ {stream: "s.>"}, {service: "svc.*"}, {service: "late"} ] }
  B { users: [{user: b, password: p}], mappings { m: "after", n: "after" }
      imports: [ {stream: {account: A, subject: "s.2"}, prefix: "p"}, {service: {account: A, subject: "late"}} ] }
}
"""
NOTHING = """
accounts {
  A { users: [{user: a, password: p}] }
  B { users: [{user: b, password: p}] }
}
"""
REFUSED = AFTER.replace('{stream: "s.>"}, ', "")


def conversation(command: Sequence[str], folder: Path) -> list[str]:
    """What two clients, who stay connected, get before and after each reload."""
    told: list[str] = []
    replies: dict[str, str] = {}
    with Edited(folder / "server.conf", "listen: 127.0.0.1:-1\n" + BEFORE, command) as server:
        a, b = Client(server.port, "a"), Client(server.port, "b")
        a.send("SUB svc.* 1\r\nSUB late 2\r\n")
        b.send("SUB s.* 1\r\nSUB p.> 2\r\nSUB before 3\r\nSUB after 4\r\nSUB in 5\r\n")
        for text in (BEFORE, AFTER, REFUSED, NOTHING, BEFORE):
            lines = server.reload("listen: 127.0.0.1:-1\n" + text)
            told.append("refused" if any("Failed to reload" in line for line in lines) else "reloaded")
            a.send("PUB s.1 1\r\n1\r\nPUB s.2 1\r\n2\r\n")
            told += [f"b < {normalised(frame, replies)}" for _ in (a.frames(), a.frames()) for frame in b.frames()]
            for subject in ("svc.x", "late", "m", "n"):
                b.send(f"PUB {subject} in {len(subject)}\r\n{subject}\r\n")
                told += [f"b < {normalised(frame, replies)}" for frame in b.frames()]
                told += [f"a < {frame[:9]!r}" for frame in a.frames()]
        a.close()
        b.close()
    return told


def test_both_give_and_take_the_same(tmp_path: Path) -> None:
    program = process.find_nats_server()
    if program is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    told = []
    for name, command in (("theirs", [program]), ("ours", JETBROKER_COMMAND)):
        folder = tmp_path / name
        folder.mkdir()
        told.append("\n".join(conversation(command, folder)))
    assert told[1] == told[0]
