"""Who was not let in: what monitoring remembers of it, and what the log tells, as in nats-server."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon, Raw
from tests.support.http import get_json, monitor_port
from tests.support.jwts import Account, account_key, account_limits, configuration, user_key
from tests.support.nkeys import UserKey
from tests.support.token_scenarios import fresh

pytestmark = pytest.mark.differential

SHOWN = ("reason", "name", "authorized_user", "account", "issuer_key", "name_tag", "jwt", "tags")
LINE = re.compile(r"\[(?:ERR|WRN|DBG)\] .*cid:(\d+) - (.*)")
TIMED = ("Client connection created", "Client Ping Timer", "Delaying PING")

Connects = list[tuple[dict[str, Any], Callable[[str], str] | None]]  # the fields, and what signs the nonce


def play(server: Daemon, connects: Connects) -> list[object]:
    """What is heard and remembered of each of these clients."""
    heard: list[object] = []
    for number, (fields, sign) in enumerate(connects):
        seen = len(server.log)
        with Raw(server.port) as raw:
            said = {"name": f"n{number}", **fields}
            if sign is not None:
                said.setdefault("sig", sign(json.loads(raw.info[5:])["nonce"]))
            raw.send(b"CONNECT " + json.dumps(said).encode() + b"\r\n")
            heard.append(raw.to_end())
        server.wait_for("Client connection closed", seen)
    for path in ("/connz?state=closed&auth=1", "/connz?state=closed"):
        rows: list[dict[str, Any]] = []
        while len(rows) < len(connects):  # nats-server logs the end of a connection before it remembers it
            rows = get_json(monitor_port(server), path)["connections"]
        heard += [{key: row[key] for key in SHOWN if key in row} for row in rows]
    return heard


def told(server: Daemon) -> list[list[str]]:
    """What the log of a server that has ended told of each client. nats-server's lines come in any order."""
    found: dict[int, set[str]] = {}  # nats-server tells twice that an account is full
    for line in server.log:
        match = LINE.search(line)
        if match and not match[2].startswith(TIMED):
            text = re.sub("accused 0x[0-9a-f]+", "accused", match[2])
            found.setdefault(int(match[1]), set()).add(text)
    return [sorted(found[cid]) for cid in sorted(found)]


def compare(commands: list[tuple[str, ...]], folder: Path, config: str, connects: Connects) -> None:
    path = folder / "conf"
    path.write_text(config + 'debug: true\nhttp: "127.0.0.1:-1"\n')
    found = []
    for command in commands:
        with Daemon("-c", str(path), command=command) as server:
            heard = play(server, connects)
        found.append((heard, told(server)))
    theirs, ours = found
    assert ours[0] == theirs[0]
    assert ours[1] == theirs[1]


def test_users_of_the_configuration(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    """Somebody with a good login may still ask for what nobody can have, or find no room."""
    key = UserKey()
    config = f"""
    accounts {{
      A {{ users [ {{user: a, password: p}}, {{nkey: {key.public}}} ] }}
      L {{ users [ {{user: l, password: p}} ], limits {{ max_connections: 0 }} }}
    }}
    authorization {{ users [ {{user: g, password: p}} ] }}
    """
    asked: list[dict[str, Any]] = [
        {"protocol": 7},
        {"account": "X"},
        {"account": "X", "new_account": True},
        {"no_responders": True},
        {"protocol": 99999999999, "verbose": True},
        {"pass": "wrong"},
        {"user": "nobody"},
    ]
    connects: Connects = [({"user": "a", "pass": "p", **more}, None) for more in asked]
    connects += [({"user": "g", "pass": "p", **more}, None) for more in asked]
    connects += [({"nkey": key.public, **more}, key.signature) for more in asked[:5]]
    connects.append(({"user": "l", "pass": "p"}, None))
    compare(commands, tmp_path, config, connects)


def test_users_of_operator_mode(commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    operator, system, a, b = fresh()
    now = int(time.time())
    gone, signer = user_key(), account_key()
    a.more["revocations"] = {gone.public: now + 10}
    a.limits = account_limits(disallow_bearer=True)
    b.more |= {"signing_keys": [signer.public], "tags": ["t:1"]}
    b.more["mappings"] = {"x": [{"subject": "y", "weight": 100}]}
    full = Account("L", limits=account_limits(conn=0))
    users = [
        a.user("expired", outer={"exp": now - 5}),
        a.user("revoked", key=gone),
        a.user("bearer", nats={"bearer_token": True}),
        a.user("address", nats={"src": ["10.0.0.0/8"]}),
        a.user("kind", nats={"allowed_connection_types": ["WEBSOCKET"]}),
        b.user("stranger", signer=account_key()),
        Account("S").user("unknown"),
        full.user("full"),
    ]
    connects: Connects = [({"jwt": user.token()}, user.key.signature) for user in users]
    good, tagged = a.user("good"), b.user("tagged", signer=signer, nats={"tags": ["u:1", 'v"2']})
    for user in (good, tagged):
        fields: list[dict[str, Any]] = [{"protocol": 7}, {"account": "X"}, {"sig": ""}, {"sig": "AAAA"}]
        fields += [{"sig": "AAAA", "user": "u", "pass": "p"}, {"sig": "AAAA", "nkey": gone.public}]
        connects += [({"jwt": user.token(), **more}, user.key.signature) for more in fields]
    compare(commands, tmp_path, configuration(operator, [system, a, b, full]), connects)
