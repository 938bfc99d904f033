"""SIGHUP: a configuration takes effect as a whole or not at all; what runs goes on."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import ssl
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import nats
import pytest
from nats.aio.msg import Msg
from nats.js.api import StorageType, StreamConfig

from tests.support import certificates
from tests.support.clients import settle
from tests.support.daemon import CONNECT, Raw
from tests.support.http import get_json
from tests.support.process import JETBROKER_COMMAND
from tests.support.reloads import Edited, watched

USERS = "authorization { users: [ {user: ann, password: p}, {user: bob, password: q} ] }\n"
ANN = b'CONNECT {"verbose":false,"user":"ann","pass":"p"}\r\n'
BOB = b'CONNECT {"verbose":false,"user":"bob","pass":"q"}\r\n'
REFUSED = "[ERR] Failed to reload server configuration: "


def started(folder: Path, text: str, *arguments: str) -> Edited:
    return Edited(folder / "server.conf", text, JETBROKER_COMMAND, *arguments)


def include_loop(folder: Path) -> str:
    (folder / "inner").write_text("include server.conf\n")
    return "include inner\n"


def unreadable(folder: Path) -> str:
    made = certificates.make(folder)
    (folder / "broken").write_text("no certificate")
    return f'max_payload: 10\ntls {{ cert_file: "{folder}/broken", key_file: "{made.server.key}" }}\n'


FAULTS: dict[str, tuple[Callable[[Path], str], str]] = {
    "syntax": (lambda folder: "max_payload: 10\na b {\n", "Parse error on line 2"),
    "unknown key": (lambda folder: "max_payload: 10\nnope: 1\n", 'DIR/CONF:2:1: unknown field "nope"'),
    "certificate": (unreadable, "DIR/CONF:2:1: error parsing X509 certificate/key pair"),
    "include loop": (include_loop, "include"),
    "missing include": (lambda folder: "max_payload: 10\ninclude none\n", "error parsing include file"),
    "empty": (lambda folder: "", "DIR/CONF: config has no values or is empty"),
    "log file": (
        lambda folder: f'max_payload: 10\nlog_file: "{folder}/none/log"\n',
        "error opening file: open DIR/none/log: no such file or directory",
    ),
    "only at start": (
        lambda folder: "max_payload: 10\nmax_subscriptions: 5\n",
        "config reload not supported for MaxSubs",
    ),
    "import": (
        lambda folder: "max_payload: 10\naccounts { A { imports: [ {stream: {account: B, subject: s}} ] } }\n",
        "DIR/CONF:2:",
    ),
    "no such user": (lambda folder: "max_payload: 10\nno_auth_user: x\n", "no_auth_user"),
    "address": (
        lambda folder: 'max_payload: 10\nclient_advertise: "a:b:c"\n',
        "invalid ClientAdvertise value of a:b:c",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_changes_nothing(name: str, tmp_path: Path) -> None:
    make, why = FAULTS[name]
    with started(tmp_path, USERS) as server, server.open() as ann:
        ann.exchange(ANN + b"SUB s 1\r\n")
        lines = server.reload(make(tmp_path))
        assert lines[0].startswith(REFUSED) and why in lines[0]
        assert not [line for line in lines if "Reloaded" in line]
        assert ann.exchange(b"PUB s 20\r\n" + b"x" * 20 + b"\r\n") == b"MSG s 1 20\r\n" + b"x" * 20 + b"\r\nPONG\r\n"
        with server.open() as bob, server.open() as stranger:
            assert bob.exchange(BOB) == b"PONG\r\n"
            assert json.loads(bob.info[5:])["max_payload"] == 1 << 20
            stranger.send(CONNECT)
            assert stranger.to_end() == b"-ERR 'Authorization Violation'\r\n"
        assert any("Reloaded server configuration" in line for line in server.reload(USERS + "max_payload: 10\n"))


def test_a_missing_file_changes_nothing(tmp_path: Path) -> None:
    with started(tmp_path, USERS) as server, server.open() as ann:
        ann.exchange(ANN)
        server.path.unlink()
        assert server.reload()[0].startswith(REFUSED)
        assert watched(ann) == b"PONG\r\n"


def test_without_a_file_there_is_nothing_to_read(tmp_path: Path) -> None:
    server = started(tmp_path, "")
    server._command = [word for word in server._command if word not in ("-c", str(server.path))]
    with server:
        assert server.reload() == [REFUSED + "can only reload config when a file is provided using -c or --config"]


def test_who_is_no_user_any_more_is_cut_off(tmp_path: Path) -> None:
    with started(tmp_path, USERS) as server, server.open() as ann, server.open() as bob:
        ann.exchange(ANN)
        bob.exchange(BOB)
        server.reload("authorization { users: [ {user: bob, password: q} ] }\n")
        assert (watched(ann), watched(bob)) == (b"", b"PONG\r\n")
        with server.open() as again:
            again.send(ANN)
            assert again.to_end() == b"-ERR 'Authorization Violation'\r\n"


def test_flags_stay_in_force(tmp_path: Path) -> None:
    with started(tmp_path, "debug: false\n", "-D", "--pass", "p", "--user", "u") as server:
        server.reload("max_payload: 9\n")
        with server.open() as client:
            client.send(CONNECT)
            assert client.to_end() == b"-ERR 'Authorization Violation'\r\n"
        server.wait_for("[DBG]", len(server.log) - 1)


def test_limits_hold_for_those_connected(tmp_path: Path) -> None:
    with started(tmp_path, "max_payload: 100\n") as server, ExitStack() as stack:
        clients = [stack.enter_context(server.open()) for _ in range(4)]
        for client in clients:
            client.exchange(CONNECT)
            client.line()
        server.reload("max_payload: 5\nmax_control_line: 64\n")
        clients[0].send(b"PUB s 6\r\n123456\r\n")
        assert clients[0].to_end() == b"-ERR 'Maximum Payload Violation'\r\n"
        clients[1].send(b"SUB " + b"s" * 70 + b" 1\r\n")
        assert clients[1].to_end() == b"-ERR 'maximum control line exceeded'\r\n"
        lines = server.reload("max_connections: 1\nmax_payload: 5\nmax_control_line: 64\n")
        assert "[INF] Closed 1 connections to fall within max_connections" in lines
        ends = sorted(watched(client) for client in clients[2:])
        assert ends == [b"-ERR 'maximum connections exceeded'\r\n", b"PONG\r\n"]


def test_certificates_are_read_again(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    first, second = certificates.make(old), certificates.make(new)
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def install(made: certificates.Certificate) -> None:
        shutil.copy(made.cert, cert)
        shutil.copy(made.key, key)

    install(first.server)
    text = f'tls {{ cert_file: "{cert}", key_file: "{key}" }}\n'
    with started(tmp_path, text) as server:
        assert served(server.port) == first.server.der
        cert.write_text("half of")
        assert server.reload()[0].startswith(REFUSED)
        assert served(server.port) == first.server.der
        install(second.server)
        assert "[INF] Reloaded: tls = enabled" in server.reload()
        assert served(server.port) == second.server.der
        assert "[INF] Reloaded: tls = enabled" not in server.reload()


def served(port: int) -> bytes | None:
    """The certificate a new connection is shown."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
        while b"\r\n" not in plain.recv(4096):
            pass
        with context.wrap_socket(plain) as secure:
            return secure.getpeercert(binary_form=True)


def test_files_move(tmp_path: Path) -> None:
    (tmp_path / "ports").mkdir()
    with started(tmp_path, f'pid_file: "{tmp_path}/one"\n') as server:
        server.reload(f'pid_file: "{tmp_path}/two"\nports_file_dir: "{tmp_path}/ports"\n')
        assert (tmp_path / "one").read_text() == (tmp_path / "two").read_text() == str(server.pid)
        (ports,) = (tmp_path / "ports").iterdir()
        assert json.loads(ports.read_text()) == {"nats": [f"nats://127.0.0.1:{server.port}"]}
        server.reload("max_payload: 5\n")
        assert list((tmp_path / "ports").iterdir()) == []


def test_monitoring_shows_the_new_values(tmp_path: Path) -> None:
    with started(tmp_path, "max_payload: 5\n", "-m", "-1") as server:
        port = int(server.wait_for("Starting http monitor on").rpartition(":")[2])
        before = get_json(port, "/varz")
        server.reload("max_payload: 6\nping_max: 7\nserver_tags: [t]\nserver_metadata: {m: n}\n" + USERS)
        after = get_json(port, "/varz")
        names = ("max_payload", "ping_max", "tags", "metadata", "auth_required")
        assert [after[name] for name in names] == [6, 7, ["t"], {"m": "n"}, True]
        assert after["config_digest"] != before["config_digest"]
        assert after["config_load_time"] > before["config_load_time"]
        assert after["start"] == before["start"]


def test_the_trace_can_be_switched_on_and_off(tmp_path: Path) -> None:
    with started(tmp_path, "debug: false\n") as server, server.open() as client:
        client.exchange(CONNECT)
        client.line()
        server.reload("trace: true\n")
        client.exchange(b"PUB seen 2\r\nhi\r\n")
        server.wait_for("<<- [PUB seen 2]")
        server.reload("trace: false\n")
        seen = len(server.log)
        client.exchange(b"PUB unseen 2\r\nhi\r\n")
        server.reload()
        assert not [line for line in server.log[seen:] if "[TRC]" in line]


STORE = 'jetstream {{ store_dir: "{}" }}\n'


async def test_a_hundred_reloads_under_load(tmp_path: Path) -> None:
    """Streams are untouched, no message is lost, nobody is disconnected; every second configuration is refused."""
    good = STORE.format(tmp_path) + USERS
    with started(tmp_path, good) as server:
        ann = await nats.connect(server.url, user="ann", password="p", allow_reconnect=False)
        bob = await nats.connect(server.url, user="bob", password="q", allow_reconnect=False)
        js = ann.jetstream()
        await js.add_stream(StreamConfig(name="S", subjects=["s.>"]))
        got: list[bytes] = []
        done = asyncio.Event()

        async def receive(message: Msg) -> None:
            got.append(message.data)
            if message.data == b"end":
                done.set()

        await bob.subscribe("s.>", cb=receive)
        await settle(bob)
        over = asyncio.Event()

        async def publish() -> int:
            count = 0
            while not over.is_set():
                await asyncio.gather(*(js.publish("s.a", b"%d" % (count + n)) for n in range(20)))
                count += 20
            return count

        publishing = asyncio.create_task(publish())
        for turn in range(50):
            lines = await asyncio.to_thread(server.reload, good + f"ping_max: {turn + 3}\nmax_payload: {1000 + turn}\n")
            assert "Reloaded server configuration" in lines[-1]
            lines = await asyncio.to_thread(server.reload, good + "max_payload: 1\nnope: 1\n")
            assert lines[0].startswith(REFUSED)
        over.set()
        count = await publishing
        await js.publish("s.a", b"end")
        await asyncio.wait_for(done.wait(), 20)
        assert (await js.stream_info("S")).state.messages == count + 1 == len(got)
        assert set(got) == {b"%d" % n for n in range(count)} | {b"end"}
        assert ann.is_connected and bob.is_connected
        await ann.close()
        await bob.close()


async def test_jetstream_of_accounts(tmp_path: Path) -> None:
    base = STORE.format(tmp_path)

    def text(a: str, b: str = "") -> str:
        return (
            f"{base}accounts {{\n A {{ users: [{{user: ann, password: p}}]{a} }}\n"
            f" B {{ users: [{{user: bob, password: q}}]{b} }}\n}}\n"
        )

    with started(tmp_path, text(", jetstream: {max_streams: 2}")) as server:
        ann = await nats.connect(server.url, user="ann", password="p", allow_reconnect=False)
        bob = await nats.connect(server.url, user="bob", password="q", allow_reconnect=False)
        of_ann, of_bob = ann.jetstream(), bob.jetstream()
        await of_ann.add_stream(StreamConfig(name="S1", subjects=["s1"]))
        await of_ann.publish("s1", b"kept")
        with pytest.raises(nats.js.errors.Error):
            await of_bob.add_stream(StreamConfig(name="T", subjects=["t"]))
        await asyncio.to_thread(server.reload, text(", jetstream: {max_streams: 1}", ", jetstream: enabled"))
        with pytest.raises(nats.js.errors.BadRequestError):
            await of_ann.add_stream(StreamConfig(name="S2", subjects=["s2"]))
        await of_bob.add_stream(StreamConfig(name="T", subjects=["t"]))
        await asyncio.to_thread(server.reload, text("", ", jetstream: enabled"))
        with pytest.raises(nats.js.errors.Error):
            await of_ann.stream_info("S1")
        await asyncio.to_thread(server.reload, text(", jetstream: enabled"))
        assert (await of_ann.get_msg("S1", 1)).data == b"kept"
        await ann.close()
        await bob.close()


async def test_limits_of_bytes_hold_for_streams_that_are_there(tmp_path: Path) -> None:
    """Those of an account may rise and fall, those of the server rise."""

    def text(of_server: str, of_account: str) -> str:
        limits = f'jetstream {{ store_dir: "{tmp_path}/store", {of_server} }}\n'
        return f"{limits}accounts {{ A {{ users: [{{user: ann, password: p}}], jetstream: {{ {of_account} }} }} }}\n"

    async def fault(subject: str) -> int:
        """The code of what refuses a message of 1000 bytes, 0: it is stored."""
        answer = json.loads((await ann.request(subject, bytes(1000), timeout=10)).data)
        return int(answer["error"]["err_code"]) if "error" in answer else 0

    small, large = "max_file: 1500, max_mem: 1500", "max_file: 15000, max_mem: 15000"
    with started(tmp_path, text(small, large)) as server:
        ann = await nats.connect(server.url, user="ann", password="p", allow_reconnect=False)
        for name, storage in (("file", StorageType.FILE), ("memory", StorageType.MEMORY)):
            await ann.jetstream().add_stream(StreamConfig(name=name, subjects=[name], storage=storage))
            assert [await fault(name) for _ in range(3)] == [0, 0, 10023]
        await asyncio.to_thread(server.reload, text("max_file: 1M, max_mem: 1M", large))
        assert [await fault(name) for name in ("file", "memory")] == [0, 0]
        await asyncio.to_thread(server.reload, text("max_file: 1M, max_mem: 1M", small))
        assert [await fault(name) for name in ("file", "memory")] == [10002, 10002]
        await asyncio.to_thread(server.reload, text("max_file: 1M, max_mem: 1M", large))
        assert [await fault(name) for name in ("file", "memory")] == [0, 0]
        await ann.close()


async def test_jetstream_comes_to_a_broker_that_never_had_it(tmp_path: Path) -> None:
    with started(tmp_path, "max_payload: 100000\n") as server:
        client = await nats.connect(server.url)
        lines = await asyncio.to_thread(server.reload, STORE.format(tmp_path) + "max_payload: 100000\n")
        assert "[INF] Starting JetStream" in lines
        assert (
            await client.jetstream(timeout=30).add_stream(StreamConfig(name="S", subjects=["s"]))
        ).config.name == "S"
        await client.close()


async def test_jetstream_goes_and_comes_back(tmp_path: Path) -> None:
    with started(tmp_path, STORE.format(tmp_path)) as server:
        client = await nats.connect(server.url, allow_reconnect=False)
        js = client.jetstream(timeout=2)
        await js.add_stream(StreamConfig(name="S", subjects=["s"]))
        await js.publish("s", b"kept")
        assert "[INF] JetStream Shutdown" in await asyncio.to_thread(server.reload, "max_payload: 100000\n")
        with pytest.raises(nats.js.errors.Error):
            await js.stream_info("S")
        lines = await asyncio.to_thread(server.reload, STORE.format(tmp_path) + "max_payload: 100000\n")
        assert "[INF] Starting JetStream" in lines
        assert (await js.get_msg("S", 1)).data == b"kept"
        await js.publish("s", b"more")
        assert json.loads(Raw(server.port).info[5:])["jetstream"] is True
        await client.close()
