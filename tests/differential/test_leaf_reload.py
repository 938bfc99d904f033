"""SIGHUP after edits of `leafnodes {}`: what nats-server takes and what it refuses, in its words."""

from __future__ import annotations

from pathlib import Path

import pytest

from jetbroker.config import checks, reload
from jetbroker.config.loader import load_text
from jetbroker.config.options import Options
from jetbroker.errors import ConfigError
from tests.support import certificates
from tests.support.reloads import Edited

USER_KEY = "UCNGL4W5QX66CFX6A6DCBVDH5VOHMI7B2UZZU7TXAUQQSI2JPHULCKBR"


def listener(more: str = "") -> str:
    return f'accounts {{ A {{}}, B {{}} }}\nleafnodes {{ listen: "127.0.0.1:-1"\n{more}\n}}\n'


def remotes(*some: str) -> str:
    """Each with a URL of its own where nobody listens; a number in front of the rest tells which."""
    entries = [f'{{ url: "nats://u:p@127.0.0.1:{1 + int(one[0])}"\n{one[1:]} }}' for one in some]
    return f"accounts {{ A {{}} }}\nleafnodes {{ remotes [ {', '.join(entries)} ] }}\n"


HEAD = 'listen: "127.0.0.1:-1"\n'
# Each row is the edits of one running server; the first text is what it starts with.
EDITS: dict[str, list[str]] = {
    "listener": [
        listener(),
        listener("advertise: a"),
        listener("no_advertise: true"),
        listener("isolate: true"),
        listener('min_version: "2.9.0"'),
        listener('reconnect: "5s"'),
        listener('reconnect: "1s"'),
        listener('write_deadline: "5s"'),
        listener("write_timeout: retry"),
        listener("write_timeout: default"),
        listener("compression: off"),
        listener("compression: s2_fast"),
        listener("compression: true"),
        listener('compression {mode: auto, rtt: ["5ms"]}'),
        listener("compression: x"),
        "",
    ],
    "logins": [
        listener("authorization { users [ {user: a, password: b, account: A}, {user: c, password: d} ] }"),
        listener("authorization { users [ {user: c, password: d}, {user: a, password: b, account: A} ] }"),
        listener("authorization { user: a, password: b }"),
        listener("authorization { account: A }"),
    ],
    "one login": [
        listener(f'authorization {{ account: A, timeout: "3s", nkey: {USER_KEY} }}'),
        listener(f'authorization {{ account: B, timeout: "3s", nkey: {USER_KEY} }}'),
        listener(f'authorization {{ account: A, timeout: "3s", nkey: {USER_KEY}, user: a }}'),
        listener(f'authorization {{ account: A, timeout: "3s", nkey: {USER_KEY}, proxy_required: true }}'),
        listener(f'authorization {{ account: A, timeout: "4s", nkey: {USER_KEY} }}'),
        listener('authorization { account: A, timeout: "3s" }'),
    ],
    "certificates": [
        listener("tls { CERT }"),
        listener("tls { CERT, handshake_first: true }"),
        listener("tls { CERT, handshake_first: auto }"),
        listener("tls { CERT, handshake_first: 300ms }"),
        listener("tls { CERT }"),
        listener("tls { CERT, timeout: 5 }"),
        listener("tls { CERT, verify_and_map: true }"),
        listener(f"tls {{ CERT, pinned_certs: [{'ab' * 32}] }}"),
        listener(),
    ],
    "block": ["", "leafnodes {}", listener(), remotes("0"), "leafnodes { remotes [] }"],
    "remotes": [
        remotes("0", "1disabled: true"),
        remotes("0", "1disabled: false"),
        remotes("0", "1disabled: false", "2"),
        remotes("1", "2"),
        remotes("1", "2disabled: true"),
        remotes("1compression: off", "2disabled: true"),
        remotes("1compression: off", "2disabled: true\ntls { handshake_first: true }"),
        remotes("1compression: off", "2disabled: true\ntls { insecure: true }"),
        remotes("1compression: off\nhub: true", "2disabled: true"),  # of two faults nats-server names any
        remotes("1compression: off"),
    ],
    "fields of remotes": [
        remotes("0"),
        remotes("0no_randomize: true"),
        remotes("0tls { timeout: 5 }"),
        remotes("0hub: true"),
        remotes("0deny_imports: [a, b]"),
        remotes("0deny_exports: a"),
        remotes('0first_info_timeout: "3s"'),
        remotes('0dial_timeout: "3s"'),
        remotes("0ws_compression: true"),
        remotes("0ws_no_masking: true"),
        remotes("0isolate: true"),
        remotes("0request_isolation: true"),
        remotes("0ignore_discovered_servers: true"),
    ],
    "time to connect": [listener('dial_timeout: "2s"'), listener('dial_timeout: "5s"')],
    "domains": ["accounts { A {} }\n", "accounts { A {} }\ndefault_js_domain { A: hub }\n"],
}


def theirs(lines: list[str]) -> list[str]:
    told = [line for line in lines if "LeafNode" in line or "Failed to reload" in line]
    return [line.split("] ", 1)[1] for line in told]


def ours(before: Options, text: str) -> tuple[Options, list[str]]:
    """The options that hold now, and what the log is told of links."""
    try:
        new = settled(text)
        found = reload.changes(before, new)
        checks.check_opening(new)
    except ConfigError as error:
        return before, [f"Failed to reload server configuration: {error}".strip()]
    return new, [change.line for change in found if "LeafNode" in change.line]


def settled(text: str) -> Options:
    options = load_text(HEAD + text, "CONF").options
    checks.settle(options)
    checks.check_start(options)
    return options


@pytest.mark.differential
@pytest.mark.parametrize("name", EDITS)
def test_edits_do_the_same(name: str, commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    cert = f'cert_file: "{made.server.cert}", key_file: "{made.server.key}", ca_file: "{made.ca.cert}"'
    texts = [text.replace("CERT", cert) for text in EDITS[name]]
    options, found = settled(texts[0]), []
    for text in texts[1:]:
        options, lines = ours(options, text)
        found.append(sorted(lines))
    with Edited(tmp_path / "edited.cfg", HEAD + texts[0], commands[0]) as server:
        expected = [sorted(theirs(server.reload(HEAD + text))) for text in texts[1:]]
    for text, mine, reference in zip(texts[1:], found, expected, strict=True):
        assert list(map(plain, mine)) == list(map(plain, reference)), text


def plain(line: str) -> str:
    """Users are pointers there."""
    head, found, _ = line.partition('field "Users"')
    return head + found
