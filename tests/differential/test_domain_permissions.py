"""Users with rules made by chance under a JetStream domain and mappings: what is refused, and what arrives where."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from tests.support.conversations import quiet, user
from tests.support.daemon import Daemon
from tests.support.process import JETBROKER_COMMAND, find_nats_server

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(find_nats_server() is None, reason="no nats-server on this machine"),
]

USERS = 30
RESTS = (
    "INFO", "INFO.x", "STREAM.INFO.X", "STREAM.DELETE.X", "STREAM", "CONSUMER.INFO.X.C", "CONSUMER.MSG.NEXT.X.C",
    "DIRECT.GET.X", "META.x", "SERVER.x", "ACCOUNT.x", "OTHER.x", "$KV.b.k", "$KV.b", "$KV", "$OBJ.b.C.x",
)  # fmt: skip
LITERALS = [
    *(f"{prefix}{rest}" for prefix in ("$JS.hub.API.", "$JS.API.", "$JS.other.API.") for rest in RESTS),
    "$KV.b.k", "$OBJ.b.C.x", "$JS.hub.API", "$JS.hub", "a.b", "a.c", "far.INFO", "far.STREAM.DELETE.X", "far.$KV.b.k",
]  # fmt: skip
ENTRIES = [
    "$JS.API.>", "$JS.hub.API.>", "$JS.API.STREAM.DELETE.>", "$JS.hub.API.STREAM.DELETE.*", "$KV.>", "$KV.b.*",
    "$JS.hub.API.$KV.>", "$JS.*.API.>", "$JS.API.INFO", "$JS.hub.API.INFO", "$OBJ.>", "$JS.>", "a.*", "x.>", ">",
    "far.>", "far.INFO", "$JS.API.CONSUMER.*.>",
]  # fmt: skip
MAPPINGS = {
    "a.b": "$JS.hub.API.STREAM.DELETE.X",
    "a.c": "$KV.b.c",
    "$JS.hub.API.STREAM.INFO.*": "x.$1",
    "$JS.API.META.*": "a.$1",
    "$KV.b.k": "a.k",
}


def rules(chance: random.Random, number: int) -> str:
    allow = chance.sample(ENTRIES, chance.choice((0, 2, 4)))
    deny = chance.sample(ENTRIES[:-1], chance.choice((0, 1, 2)))
    lists = (f"allow: {allow}, " if allow else "") + f"deny: {deny}"
    return f"{{ user: u{number}, password: p, permissions: {{ publish: {{ {lists} }} }} }}".replace("'", '"')


def config(chance: random.Random, folder: Path) -> str:
    mapped = chance.sample(sorted(MAPPINGS), chance.choice((0, 2, 4)))
    everybody = "\n".join(rules(chance, number) for number in range(USERS))
    return f"""
        jetstream {{ store_dir: "{folder}", domain: hub, max_mem: 10MB, max_file: 10MB }}
        accounts {{
          A {{ jetstream: enabled
               mappings {{ {", ".join(f'"{source}": "{MAPPINGS[source]}"' for source in mapped)} }}
               users: [ {everybody}
                        {{ user: all, password: p }} ]
               imports: [ {{ service: {{ account: B, subject: "$JS.hub.API.>" }}, to: "far.>" }} ] }}
          B {{ jetstream: enabled, users: [ {{ user: b, password: p }} ], exports: [ {{ service: "$JS.hub.API.>" }} ] }}
        }}"""


def outcome(server: Daemon) -> list[object]:
    """What each user is refused, and what those who hear everything hear of the rest, in both accounts."""
    found: list[object] = []
    publishes = b"".join(b"PUB %b 0\r\n\r\n" % literal.encode() for literal in LITERALS)
    with server, server.open() as listener, server.open() as other:
        listener.exchange(b"CONNECT {%b}\r\nSUB > 1\r\n" % quiet("all"))
        other.exchange(b"CONNECT {%b}\r\nSUB > 1\r\n" % quiet("b"))
        for number in range(USERS):
            with server.open() as writer:
                writer.exchange(b"CONNECT {%b}\r\n" % user(f"u{number}"))
                found.append(re.findall(rb"-ERR ([^\r]+)", writer.exchange(publishes)))
            # what crosses accounts has headers of its own, and advisories a body
            found.append(re.findall(rb"MSG (\S+) 1 0\r\n", listener.exchange(b"")))
            found.append(re.findall(rb"HMSG (\S+) 1 \d+ \d+\r\nNATS/1.0\r\nNats-Request-Info", other.exchange(b"")))
    return found


def test_nobody_is_there(tmp_path: Path) -> None:
    """The answer names the subject that was looked for; who listens to the domain's names hears what is no API."""
    program = find_nats_server()
    assert program is not None
    unanswered = [rest for rest in RESTS if rest.split(".")[0] not in ("INFO", "STREAM") and "INFO" not in rest]
    outcomes = []
    for name, command in (("theirs", [program]), ("ours", JETBROKER_COMMAND)):
        path = tmp_path / f"{name}.conf"
        path.write_text(f'jetstream {{ store_dir: "{tmp_path / name}", domain: hub, max_mem: 1MB, max_file: 1MB }}')
        with Daemon("-c", str(path), command=command) as server, server.open() as asker, server.open() as listener:
            asker.exchange(
                b"CONNECT {%b}\r\nSUB r.* 1\r\n"
                % quiet("").replace(b'"headers":true', b'"headers":true,"no_responders":true')
            )
            asker.send(b"PUB $JS.API.INFO r.info 0\r\n\r\n")  # until JetStream is there, requests wait for it
            asker.until(b"account_info_response")
            asker.exchange(b"")
            heard = []
            for prefix in ("$JS.hub.API.", "$JS.API."):
                for number, rest in enumerate(unanswered):
                    heard.append(asker.exchange(f"PUB {prefix}{rest} r.{number} 0\r\n\r\n".encode()))
            listener.exchange(b"CONNECT {%b}\r\nSUB $JS.hub.> 1\r\n" % quiet(""))
            for rest in unanswered:
                asker.exchange(f"PUB $JS.hub.API.{rest} 0\r\n\r\n".encode())
            outcomes.append((heard, listener.exchange(b"")))
    assert b"NATS/1.0 503" in b"".join(outcomes[0][0])
    assert outcomes[1] == outcomes[0]


@pytest.mark.parametrize("seed", range(3))
def test_random_rules_under_a_domain(seed: int, tmp_path: Path) -> None:
    program = find_nats_server()
    assert program is not None
    outcomes = []
    for name, command in (("theirs", [program]), ("ours", JETBROKER_COMMAND)):
        path = tmp_path / f"{name}.conf"
        path.write_text(config(random.Random(seed), tmp_path / name))
        outcomes.append(outcome(Daemon("-c", str(path), command=command)))
    assert any(outcomes[0]), "nothing was refused, and nothing arrived"
    for theirs, ours in zip(*outcomes, strict=True):
        assert ours == theirs
