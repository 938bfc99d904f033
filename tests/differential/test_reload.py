"""SIGHUP after each edit of a configuration: nats-server and jetbroker log the same and do the same to clients.

Where ours is different on purpose (docs/differences.md) the row says what ours does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import certificates
from tests.support.compare import assert_same
from tests.support.daemon import Raw
from tests.support.reloads import Edited, watched

NAME = "server_name: S\n"
REFUSED = "Failed to reload server configuration: "
NKEY = "UCNGL4W5QX66CFX6A6DCBVDH5VOHMI7B2UZZU7TXAUQQSI2JPHULCKBR"


def files(folder: Path) -> str:
    """Certificates in the folder, and the beginning of a block that names them."""
    made = certificates.make(folder)
    return f'cert_file: "{made.server.cert}", key_file: "{made.server.key}"'


# --- what the log says ---

# Each row is the edits of one running server; the first text is what it starts with. DIR is the folder of the file.
EDITS: dict[str, list[str]] = {
    "limits": [
        "",
        "max_payload: 100\n",
        "max_control_line: 512\n",
        "max_connections: 7\n",
        "max_connections: 0\n",
        "max_traced_msg_len: 10\n",
        "",
        "max_subscriptions: 5\n",
        "max_sub_tokens: 5\n",
        "max_pending: 5000000\n",
        "max_closed_clients: 5\n",
        "max_payload: 9000000\nmax_pending: 8000000\n",
    ],
    "timers": [
        "",
        'ping_interval: "10s"\nping_max: 5\nwrite_deadline: "3s"\n',
        "ping_interval: 7\n",
        "",
        "write_timeout: close\n",
        "write_timeout: default\n",
        'lame_duck_duration: "60s"\n',
        'lame_duck_grace_period: "2s"\n',
        'lame_duck_duration: "x"\n',
    ],
    "logging": [
        "",
        "debug: true\n",
        "logtime: false\n",
        "logtime_utc: true\n",
        "trace: true\ndebug: true\n",
        "trace_headers: true\n",
        "",
        "log_size_limit: 100000\n",
        "log_max_num: 3\n",
        "remote_syslog: 5\n",
    ],
    "ports": ["", 'ports_file_dir: "DIR"\n', 'ports_file_dir: "DIR"\nmax_payload: 5\n', ""],
    "files": ["", 'pid_file: "DIR/pid"\n', 'pid_file: "DIR/other"\n', "", 'pid_file: "DIR/none/pid"\n'],
    "features": [
        "",
        "no_header_support: true\n",
        "disable_sublist_cache: true\n",
        "no_fast_producer_stall: true\n",
        "no_fast_producer_stall: false\n",
        "proxy_protocol: true\n",
        "no_system_account: true\n",
        "allow_non_tls: true\n",
        "connect_error_reports: 4\nreconnect_error_reports: 5\n",
        "",
        "server_tags: [a, b]\nserver_metadata: {a: b}\n",
        "server_tags: [b, a]\nserver_metadata: {a: c}\n",
        "server_tags: b\n",
    ],
    "addresses": [
        "",
        'client_advertise: "h:1234"\n',
        'client_advertise: "h"\n',
        'client_advertise: "h:1:2"\n',
        'client_advertise: "h:x"\n',
        "",
        "http_port: -1\n",
        'http_base_path: "/x"\n',
        "https: 5\n",
        "websocket {port: -1, no_tls: true}\n",
        "server_name: T\n",
    ],
    "websocket": [
        "websocket {port: -1, no_tls: true}\n",
        "websocket {port: -1, no_tls: true}\n",
        "websocket {port: -1, no_tls: true, same_origin: true}\n",
        "",
    ],
    "websocket origins": [
        'websocket {port: -1, no_tls: true, allowed_origins: ["http://a", "http://b"]}\n',
        'websocket {port: -1, no_tls: true, allowed_origins: ["http://b", "http://a"]}\n',
        'websocket {port: -1, no_tls: true, allowed_origins: ["http://b"]}\n',
        'websocket {port: -1, no_tls: true, compression: true, allowed_origins: ["http://a", "http://b"]}\n',
    ],
    "authorization": [
        "",
        "authorization {user: u, password: p}\n",
        "authorization {user: u, password: q}\n",
        "authorization {token: t}\n",
        "authorization {timeout: 5}\n",
        "authorization {timeout: 0.5}\n",
        "authorization {users: [{user: u, password: p}]}\n",
        f"authorization {{users: [{{nkey: {NKEY}}}]}}\n",
        f"authorization {{users: [{{nkey: {NKEY}}}]}}\n",
        f"accounts {{A {{users: [{{nkey: {NKEY}}}]}}}}\n",
        f"accounts {{A {{users: [{{nkey: {NKEY}}}]}}}}\n",
        "accounts {A {users: [{user: u, password: p}]}}\n",
        "mappings {a: b}\n",
        "authorization {user: a, password: b, proxy_required: true}\n",
        "",
    ],
    "no_auth_user": [
        "authorization {users: [{user: u, password: p}, {user: v, password: p}]}\nno_auth_user: u\n",
        "authorization {users: [{user: u, password: p}, {user: v, password: p}]}\nno_auth_user: v\n",
        "authorization {users: [{user: u, password: p}, {user: v, password: p}]}\n",
        "authorization {users: [{user: v, password: p}]}\n",
        "authorization {users: [{user: v, password: p}]}\nno_auth_user: v\n",
    ],
    "system account": [
        "accounts {X {}, Y {}}\nsystem_account: X\n",
        "accounts {X {}, Y {}}\nsystem_account: X\n",
        "accounts {X {}, Y {}}\nsystem_account: Y\n",
        "accounts {X {}, Y {}}\n",
    ],
    "system account named": ["", "accounts {$SYS {users: [{user: s, password: p}]}}\n", "system_account: $SYS\n", ""],
    "jetstream": [
        'jetstream {store_dir: "DIR/js", max_mem: 10M, max_file: 10M, sync_interval: "1m"}\n',
        'jetstream {store_dir: "DIR/js", max_mem: 20M, max_file: 1G, sync_interval: "1m"}\n',
        'jetstream {store_dir: "DIR/js", max_mem: 10M, max_file: 1G, sync_interval: "1m"}\n',
        'jetstream {store_dir: "DIR/js", sync_interval: "1m"}\n',
        'jetstream {store_dir: "DIR/other", max_mem: 20M, max_file: 1G, sync_interval: "1m"}\n',
        'jetstream {max_mem: 20M, max_file: 1G, sync_interval: "1m"}\n',
        'jetstream {store_dir: "DIR/js", max_mem: 20M, max_file: 1G, sync_interval: "2m"}\n',
        'jetstream {store_dir: "DIR/js", max_mem: 20M, max_file: 1G, sync_interval: always}\n',
        'jetstream {store_dir: "DIR/js", max_mem: 20M, max_file: 1G, sync_interval: "1m", domain: d}\n',
        'jetstream {store_dir: "DIR/js", max_mem: 20M, max_file: 1G, sync_interval: "1m", strict: false}\n',
        'jetstream {store_dir: "DIR/js", max_mem: 20M, max_file: 1G, sync_interval: "1m", max_buffered_msgs: 5}\n',
        "",
    ],
    "jetstream limits": [
        'jetstream {store_dir: "DIR/js", sync_interval: "1m"}\n',
        'jetstream {store_dir: "DIR/js", sync_interval: "1m", limits {max_ack_pending: 5, max_request_batch: 6}}\n',
        'jetstream {store_dir: "DIR/js", sync_interval: "1m", limits {max_ha_assets: 7, duplicate_window: "90s"}}\n',
        'jetstream {store_dir: "DIR/js", sync_interval: "1m", limits {batch {max_msgs: 3, timeout: "1m"}}}\n',
        'jetstream {store_dir: "DIR/js", sync_interval: "1m", limits {max_ack_pending: 0}}\n',
        'jetstream {store_dir: "DIR/js", sync_interval: "1m", request_queue_limit: 10000}\n',
        'jetstream {store_dir: "DIR/js", sync_interval: "1m", info_queue_limit: 9}\n',
        'jetstream {store_dir: "DIR/js", sync_interval: "1m", max_outstanding_catchup: 64M}\n',
        'jetstream {store_dir: "DIR/js", sync_interval: "1m", max_outstanding_catchup: "64X"}\n',
        'jetstream {store_dir: "DIR/js", sync_interval: "1m", request_queue_limit: 5000, limits {max_streams: 4}}\n',
    ],
    "jetstream dynamic": [
        'jetstream {store_dir: "DIR/js", sync_interval: "1m"}\n',
        'jetstream {store_dir: "DIR/js", max_mem: 20M, sync_interval: "1m"}\n',
    ],
    "tls": [
        "",
        "tls {CERT}\n",
        "tls {CERT}\n",
        "tls {CERT, timeout: 5}\n",
        "tls {CERT, handshake_first: true}\n",
        "tls {CERT, handshake_first: 300ms}\n",
        'tls {CERT, ca_file: "DIR/ca.pem", verify: true}\n',
        'tls {CERT, ca_file: "DIR/ca.pem", verify: true}\n',
        'tls {CERT, ca_file: "DIR/ca.pem", verify_and_map: true}\n',
        "tls {CERT, connection_rate_limit: 5}\n",
        'tls {CERT, min_version: "1.3"}\n',
        'tls {cert_file: "DIR/none.pem", key_file: "DIR/ca.pem"}\n',
        'tls {cert_file: "DIR/CONF", key_file: "DIR/ca.pem"}\n',
        "",
    ],
    "faults": [
        "",
        "a b {\n",
        "nope: 1\n",
        "nope: 1\nnope2: 2\n",
        'ping_interval: 5\nmax_payload: "x"\n',
        "authorization {users: [{user: u, password: p}, {user: u, password: p}]}\n",
        "no_auth_user: nobody\n",
        'accounts {A {imports: [{stream: {account: B, subject: "x"}}]}}\n',
        'mappings { "a.*": [{destination: b, weight: 120}] }\n',
    ],
    "many": [
        "",
        'max_payload: 100\nmax_control_line: 500\nmax_connections: 6\nping_max: 3\nping_interval: "30s"\n'
        'write_deadline: "4s"\ndebug: true\nserver_tags: [a]\nserver_metadata: {a: b}\nclient_advertise: "h:1"\n'
        "authorization {user: a, password: b, timeout: 6}\n",
        "",
    ],
}
# lines that JetStream writes when it starts and ends are its own; a trace of the system account nobody has;
# of a new `ports_file_dir` nats-server wants to remove a file before it has written it
NOT_COMPARED = re.compile(r"\[TRC\]|\[DBG\]|JetStream Shutdown|Error cleaning up ports file")


@pytest.mark.parametrize("name", EDITS)
def test_log_lines(name: str, commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    found = []
    cert = files(tmp_path) if name == "tls" else ""
    for number, command in enumerate(commands):
        texts = [NAME * ("server_name" not in text) + text.replace("CERT", cert) for text in EDITS[name]]
        path = tmp_path / f"{number}.conf"
        texts = [text.replace("DIR/js", f"{tmp_path}/js{number}").replace("DIR", str(tmp_path)) for text in texts]
        with Edited(path, texts[0].replace("CONF", path.name), command) as server:
            found.append([server.reload(text.replace("CONF", path.name)) for text in texts[1:]])
    rows = []
    for text, *both in zip(EDITS[name][1:], *found, strict=True):
        expected, got = ([compared(line) for line in lines if not NOT_COMPARED.search(line)] for lines in both)
        if any(line.startswith(REFUSED) for line in expected):  # of several faults nats-server tells in any order
            expected, got = (sorted(line.removeprefix(REFUSED) for line in lines) for lines in (expected, got))
        rows.append((text, expected, got))
    assert_same(rows)


def compared(line: str) -> str:
    """Without what cannot be the same: ports; further lines of one text have no label in nats-server's log."""
    line = re.sub(r"(\{\S* )\d+", r"\1PORT", line)
    return re.sub(r"/js\d", "/js", line.removeprefix("[ERR] "))


# --- what connected clients see ---


def connect(user: str = "", password: str = "", token: str = "") -> bytes:
    given = {"user": user, "pass": password, "auth_token": token}
    options = {"verbose": False, "protocol": 1, **{name: value for name, value in given.items() if value}}
    return b"CONNECT " + json.dumps(options).encode() + b"\r\n"


@dataclass(frozen=True)
class Scene:
    """A configuration, clients by what they say, another configuration, and what each says then.

    `ours`: what they see of us, where that is different on purpose.
    """

    before: str
    after: str
    clients: Sequence[bytes]
    then: Sequence[bytes] = ()
    ours: Sequence[bytes] | None = None


ANN = connect("ann", "p")
BOB = connect("bob", "q")
VIOLATION = b"-ERR 'Authorization Violation'\r\n"


def users(*entries: str) -> str:
    return f"authorization {{ users: [{', '.join(f'{{{entry}}}' for entry in entries)}] }}\n"


def accounts(a: str, b: str = "users: [{user: bob, password: q}]") -> str:
    return f"accounts {{ A {{{a}}}\n B {{{b}}} }}\n"


A, B = "user: ann, password: p", "user: bob, password: q"
OF_ANN, OF_BOB = f"users: [{{{A}}}]", f"users: [{{{B}}}]"
SUBSCRIBED = ANN + b"SUB a 1\r\nSUB b.* 2\r\nSUB c q 3\r\nSUB b.x q 4\r\n"
BOTH = b"PUB x 1\r\na\r\nPUB y 1\r\na\r\n"
SCENES: dict[str, Scene] = {
    "subscribe denied": Scene(users(A), users(A + ', permissions: {subscribe: {deny: ["b.*", "c q"]}}'), [SUBSCRIBED]),
    "subscribe allowed": Scene(users(A), users(A + ', permissions: {subscribe: {allow: ["a"]}}'), [SUBSCRIBED]),
    "publish denied": Scene(
        users(A), users(A + ", permissions: {publish: {deny: [x]}}"), [ANN + b"SUB > 1\r\n"], [BOTH]
    ),
    "publish allowed": Scene(
        users(A + ", permissions: {publish: {deny: [x]}}"), users(A), [ANN + b"SUB > 1\r\n"], [BOTH]
    ),
    "password changed": Scene(users(A), users("user: ann, password: z"), [ANN]),
    "the one password changed": Scene(f"authorization {{{A}}}\n", "authorization {user: ann, password: z}\n", [ANN]),
    "the one user changed": Scene(f"authorization {{{A}}}\n", "authorization {user: z, password: p}\n", [ANN]),
    "token changed": Scene("authorization {token: t}\n", "authorization {token: u}\n", [connect(token="t")]),
    "token removed": Scene("authorization {token: t}\n", "", [connect(token="t")]),
    "the one user removed": Scene(f"authorization {{{A}}}\n", "", [ANN]),
    "users removed": Scene(users(A, B), "", [ANN, BOB]),
    "users introduced": Scene("", users(A), [connect(), ANN, connect("x", "p"), connect("ann", "no"), b""]),
    "one user introduced": Scene("", f"authorization {{{A}}}\n", [connect(), b""]),
    "token introduced": Scene("", "authorization {token: t}\n", [connect(), connect(token="t"), connect(token="x")]),
    "user removed": Scene(users(A, B), users(B), [ANN, BOB]),
    "the one user becomes one of many": Scene(f"authorization {{{A}}}\n", users(A, B), [ANN]),
    "the one user gives way to many": Scene(f"authorization {{{A}}}\n", users(B), [ANN]),
    "one of many becomes the one": Scene(users(A), f"authorization {{{A}}}\n", [ANN]),
    # theirs stay: nats-server keeps the users of before beside the new one
    "users give way to another one": Scene(users(A), "authorization {user: z, password: p}\n", [ANN], ours=[b""]),
    "users give way to a token": Scene(users(A), "authorization {token: z}\n", [ANN], ours=[b""]),
    "accounts swapped": Scene(accounts(OF_ANN, OF_BOB), accounts(OF_BOB, OF_ANN), [ANN, BOB]),
    "account removed": Scene(accounts(OF_ANN, OF_BOB), f"accounts {{ A {{{OF_ANN}}} }}\n", [ANN, BOB]),
    "all accounts removed": Scene(accounts(OF_ANN, OF_BOB), "", [ANN, BOB]),
    "kind of connection forbidden": Scene(users(A), users(A + ', allowed_connection_types: ["WEBSOCKET"]'), [ANN]),
    "no_auth_user removed": Scene(users(A, B) + "no_auth_user: ann\n", users(B), [connect(), BOB]),
    "max_payload lowered": Scene(
        "", "max_payload: 5\n", [connect(), connect()], [b"PUB a 6\r\n123456\r\n", b"PUB a 5\r\n12345\r\n"]
    ),
    "max_control_line lowered": Scene(
        "", "max_control_line: 20\n", [connect(), connect()], [b"PUB " + b"a" * 30 + b" 0\r\n\r\n", b"PUB a 0\r\n\r\n"]
    ),
    "max_connections lowered": Scene("", "max_connections: 0\n", [connect(), connect()]),
    "client_advertise": Scene("", 'client_advertise: "h:1"\n', [connect()]),
    "tls switched on": Scene("", "tls {CERT}\n", [connect()]),
    "stream export removed": Scene(
        accounts(OF_ANN + ", exports: [{stream: s}]", OF_BOB + ", imports: [{stream: {account: A, subject: s}}]"),
        accounts(OF_ANN, OF_BOB),
        [ANN, BOB + b"SUB s 1\r\n"],
        [b"PUB s 1\r\nx\r\n", b""],
    ),
    "stream import added": Scene(
        accounts(OF_ANN, OF_BOB),
        accounts(OF_ANN + ", exports: [{stream: s}]", OF_BOB + ", imports: [{stream: {account: A, subject: s}}]"),
        [ANN, BOB + b"SUB s 1\r\n"],
        [b"PUB s 1\r\nx\r\n", b""],
    ),
    "mapping added": Scene(
        "", "mappings {a: b}\n", [connect(), connect() + b"SUB b 1\r\nSUB a 2\r\n"], [b"PUB a 1\r\nx\r\n", b""]
    ),
    # theirs stays: nats-server forgets a mapping of $G only when another one takes its place
    "mapping removed": Scene(
        "mappings {a: b}\n",
        "",
        [connect(), connect() + b"SUB b 1\r\nSUB a 2\r\n"],
        [b"PUB a 1\r\nx\r\n", b""],
        ours=[b"PONG\r\n", b"MSG a 2 1\r\nx\r\nPONG\r\n"],
    ),
    # theirs are closed: a user that nobody asked for is looked for at each reload
    "nothing changed": Scene("", "", [connect(), ANN], ours=[b"PONG\r\n", b"PONG\r\n"]),
}


@pytest.mark.parametrize("name", SCENES)
def test_connected_clients(name: str, commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    scene = SCENES[name]
    cert = files(tmp_path) if "CERT" in scene.after else ""
    seen: list[list[Any]] = []
    for number, command in enumerate(commands):
        with Edited(tmp_path / f"{number}.conf", NAME + scene.before, command) as server:
            seen.append(list(play(server, scene, NAME + scene.after.replace("CERT", cert))))
    (log, answers), (our_log, our_answers) = seen
    if scene.ours is None:  # nats-server goes through a client's subscriptions in no order
        assert [sorted(got.split(b"\r\n")) for got in our_answers] == [sorted(got.split(b"\r\n")) for got in answers]
    else:
        assert our_answers == scene.ours
    if scene.ours is None:
        assert sorted(our_log) == sorted(log)


def play(server: Edited, scene: Scene, after: str) -> Iterator[list[str] | list[bytes]]:
    """The log of the reload, then what each client got."""
    clients = [server.open() for _ in scene.clients]
    for client, said in zip(clients, scene.clients, strict=True):
        if said:
            client.exchange(said)
            client.line()  # the second INFO
    yield server.reload(after)
    yield [answer(client, said) for client, said in zip(clients, scene.then or [b""] * len(clients), strict=True)]
    for client in clients:
        client.close()


def answer(client: Raw, said: bytes) -> bytes:
    if said:
        client.send(said)
    return watched(client)
