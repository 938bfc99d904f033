"""Secrets stay where they are: no log level, no monitoring page, no error text and no refused start shows one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import bcrypt
import pytest

from tests.support.daemon import Raw, run
from tests.support.http import get
from tests.support.nkeys import UserKey
from tests.support.process import JETBROKER_COMMAND
from tests.support.reloads import Edited

KEY = UserKey()
PLAIN, TOKEN, GUESS, HASHED = "canary-plain", "canary-token", "canary-guess", "canary-hashed"
HASH = bcrypt.hashpw(HASHED.encode(), bcrypt.gensalt(4)).decode()
USERS = f"""
authorization {{ users: [
  {{ user: ann, password: "{PLAIN}" }}, {{ user: hal, password: "{HASH}" }}, {{ nkey: {KEY.public} }}
] }}
"""
PAGES = [
    "/",
    "/varz",
    "/connz?auth=1&subs=detail",
    "/connz?auth=1&state=any&subs=1",
    "/connz?state=closed&auth=true",
    "/subsz?subs=1",
    "/healthz",
    "/jsz?accounts=1&config=1",
    "/accountz",
    "/accstatz",
    "/routez",
    "/gatewayz",
    "/leafz",
    "/debug/vars",
    "/connz?auth=canary",
]
CANARIES = (PLAIN, TOKEN, GUESS, HASHED, HASH, HASH[7:29], KEY.seed)


def clean(text: str) -> None:
    assert [canary for canary in CANARIES if canary in text] == []


def say(raw: Raw, **fields: object) -> bytes:
    """CONNECT and what comes back; then a message and a subscription, as in ordinary life."""
    raw.send(b"CONNECT " + json.dumps({"protocol": 1, **fields}).encode() + b"\r\nSUB a 1\r\nPUB a 2\r\nhi\r\nPING\r\n")
    return raw.until(b"PONG\r\n")


def pages(server: Edited) -> str:
    found = ""
    line = server.wait_for("Starting http monitor")
    port = int(re.search(r":(\d+)$", line)[1])  # type: ignore[index]
    for path in PAGES:
        found += str(get(port, path))
    return found


@pytest.mark.parametrize("config", [USERS, f'authorization {{ token: "{TOKEN}" }}\n'], ids=["users", "token"])
def test_a_life_with_every_log_level(config: str, tmp_path: Path) -> None:
    whole = config + 'http: "127.0.0.1:-1"\ndebug: true\ntrace: true\n'
    with Edited(
        tmp_path / "server.conf", whole, JETBROKER_COMMAND, "-js", "-sd", str(tmp_path / "js"), "-DVV"
    ) as server:
        clients = [server.open() for _ in range(8)]
        nonce = json.loads(clients[2].info[5:]).get("nonce", "")
        heard = say(clients[0], user="ann", **{"pass": PLAIN}) + say(clients[1], user="hal", **{"pass": HASHED})
        heard += say(clients[2], nkey=KEY.public, sig=KEY.signature(nonce)) + say(clients[3], auth_token=TOKEN)
        heard += say(clients[4], user="ann", **{"pass": GUESS}) + say(clients[5], auth_token=GUESS)
        heard += say(
            clients[6],
            user="hal",
            **{"pass": HASH},
            auth_token=TOKEN,
            jwt=GUESS,
            sig=GUESS,
            proxy_sig=GUESS,
            password=GUESS,
        )
        clients[7].send(b'CONNECT {"user":"ann","pass":"' + PLAIN.encode() + b'",}\r\n')
        heard += clients[7].to_end()
        shown = pages(server)
        server.reload(whole.replace("ann", "bob"))
        broken = server.reload(whole + f'authorization {{ user: x, password: "{GUESS}", nope: "{GUESS}" }}\n')
        shown += pages(server)
        log = "\n".join(server.log)
        for client in clients:
            client.close()
    assert "TRC" in log
    assert "DBG" in log
    assert "[CONNECT {" in log
    clean(heard.decode())
    clean(shown)
    clean("\n".join(broken))
    clean(log)


@pytest.mark.parametrize(
    "config",
    [
        f'authorization {{ user: u, password: "{PLAIN}", nope: 1 }}',
        f'authorization {{ user: u, password: "{PLAIN}", token: "{TOKEN}" }}',
        f'authorization {{ users: [ {{user: u, password: "{PLAIN}"}}, {{user: u, password: "{GUESS}"}} ] }}',
        f'authorization {{ user: u, password: "{PLAIN}", users: [ {{user: v, password: "{GUESS}"}} ] }}',
        f'authorization {{ users: [ {{nkey: {KEY.public}, password: "{PLAIN}"}} ] }}',
        f'authorization {{ users: [ {{user: u, password: "{PLAIN}", permissions: 5}} ] }}',
        f'authorization {{ token: "{TOKEN}", timeout: "x" }}',
        f'authorization {{ token: "{TOKEN}" }}\nno_auth_user: u',
        f'accounts {{ A {{ users: [ {{user: u, password: "{PLAIN}", connection_types: [X]}} ] }} }}',
    ],
)
def test_a_refused_configuration(config: str, tmp_path: Path) -> None:
    path = tmp_path / "server.conf"
    path.write_text(config)
    for arguments in (("-t", "-c", str(path)), ("-c", str(path), "-a", "127.0.0.1", "-p", "-1", "-DV")):
        done = run(*arguments)
        clean(done.stdout + done.stderr)


def test_the_flags_are_not_shown_either(tmp_path: Path) -> None:
    path = tmp_path / "server.conf"
    with Edited(path, 'http: "127.0.0.1:-1"\n', JETBROKER_COMMAND, "--user", "ann", "--pass", PLAIN, "-DV") as server:
        with server.open() as raw:
            clean(say(raw, user="ann", **{"pass": PLAIN}).decode())
            clean(pages(server))
        clean("\n".join(server.log))
