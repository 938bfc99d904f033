"""Who is let in, and what the refused ones hear and the log tells, by nats-server and by jetbroker: the same."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.compare import assert_same
from tests.support.daemon import Daemon, Raw
from tests.support.login_rows import CASES, Case, message
from tests.support.logins import server
from tests.support.process import find_nats_server

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(find_nats_server() is None, reason="no nats-server on this machine"),
]

LINE = re.compile(r"\[\d+\] \S+ \S+ (\[\w+\]) (?:127\.0\.0\.1:\d+ - cid:(\d+)(?: - )?)?(.*)")
LABEL = re.compile(r'"[$\w]+/(user|nkey):[^"]*"')  # nats-server goes on to show what the first CONNECT said
NOISE = re.compile(r"Client Ping Timer|Delaying PING|connection closed: (Client Closed|Server Shutdown)")
SHOWN = ("auth_required", "max_payload", "connect_info", "remote_account", "acc_is_sys")


def play(daemon: Daemon, case: Case) -> list[object]:
    """What each client gets, INFO reduced to what is said of logins."""
    found: list[object] = []
    for say in case.says:
        with daemon.open() as raw:
            first = json.loads(raw.info[5:])
            raw.send(message(say, first.get("nonce", "")))
            found.append((say, _shown(first), [*_lines(raw)]))
    return found


def _lines(raw: Raw) -> list[object]:
    lines: list[object] = []
    pongs = 0
    while pongs < 2:
        line = raw.line()
        if not line:
            return [*lines, "closed"]
        pongs += line == b"PONG"
        lines.append(_shown(json.loads(line[5:])) if line.startswith(b"INFO ") else line)
    return lines


def _shown(info: dict[str, Any]) -> dict[str, object]:
    return {**{key: info[key] for key in SHOWN if key in info}, "nonce": len(info.get("nonce", ""))}


def told(daemon: Daemon) -> list[list[str]]:
    """What the log tells of each client and of passwords, without what differs from run to run."""
    found: dict[int, list[str]] = {}
    for line in daemon.log:
        match = LINE.match(line)
        if match and not NOISE.search(line) and (match[2] or "Plaintext" in line):
            text = re.sub(r"nats-\w{8}", "nats-", LABEL.sub("WHO", match[3]))
            found.setdefault(int(match[2] or 0), []).append(f"{match[1]} {text}")
    return [sorted(found[cid]) for cid in sorted(found)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_same_clients_are_let_in(case: Case, tmp_path: Path) -> None:
    answers, logs = [], []
    for kind in ("nats-server", "jetbroker"):
        directory = tmp_path / kind
        directory.mkdir()
        with server(kind, directory, case.config + "debug: true\n") as daemon:
            answers.append(play(daemon, case))
        logs.append(told(daemon))
    assert_same((case.name, *both) for both in zip(*answers, strict=True))
    assert logs[1] == logs[0]


def test_names_of_cases_are_different() -> None:
    names = [case.name for case in CASES]
    assert sorted(set(names)) == sorted(names)
