"""Real clients: nats-py over ws:// and wss://, the `websockets` library with compression; monitoring and files."""

from __future__ import annotations

import json
import re
import ssl
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from tests.support import certificates
from tests.support.certificates import Certificates
from tests.support.clients import settle
from tests.support.daemon import Daemon
from tests.support.http import get_json, monitor_port
from tests.support.websocket import DEFLATE, WebsocketClient, compressed, websocket_port
from tests.websocket.conftest import Start, StartPair

CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"protocol":1,"name":"n","lang":"l","version":"1"}\r\n'
PLAIN = 'websocket { listen: "127.0.0.1:-1", no_tls: true, compression: true }\nhttp: "127.0.0.1:-1"\n'


@pytest.fixture(scope="module")
def plain(start: Start) -> Daemon:
    return start(PLAIN)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates.make(tmp_path_factory.mktemp("certificates"))


def secure_block(made: Certificates, more: str = "", *, verify: bool = False) -> str:
    return f'websocket {{ listen: "127.0.0.1:-1", {more} {made.tls_block(verify=verify)} }}'


async def use(client: Client) -> None:
    """Messages of all sizes both ways, requests."""
    sizes = [0, 1, 63, 64, 65, 4096, 70_000, 1_000_000]
    received = await client.subscribe("sizes")
    for size in sizes:
        await client.publish("sizes", b"x" * size)
    for size in sizes:
        assert len((await received.next_msg(timeout=10)).data) == size

    async def echo(message: Msg) -> None:
        await message.respond(message.data)

    await client.subscribe("echo", cb=echo)
    for text in (b"a", b"b" * 10_000):
        assert (await client.request("echo", text, timeout=10)).data == text


async def test_nats_py(plain: Daemon) -> None:
    client = await nats.connect(f"ws://127.0.0.1:{websocket_port(plain)}", allow_reconnect=False)
    await use(client)
    await client.drain()


async def test_nats_py_with_tls(start: Start, made: Certificates) -> None:
    daemon = start(secure_block(made))
    assert any("Listening for websocket clients on wss://127.0.0.1:" in line for line in daemon.log)
    assert not any("DO NOT USE IN PRODUCTION" in line for line in daemon.log)
    url = f"wss://127.0.0.1:{websocket_port(daemon)}"
    client = await nats.connect(url, tls=made.client_context(), allow_reconnect=False)
    await use(client)
    await client.close()


async def test_messages_between_both_ports(plain: Daemon) -> None:
    over_tcp = await nats.connect(plain.url, allow_reconnect=False)
    over_websocket = await nats.connect(f"ws://127.0.0.1:{websocket_port(plain)}", allow_reconnect=False)
    for here, there in ((over_tcp, over_websocket), (over_websocket, over_tcp)):
        received = await here.subscribe("between")
        await settle(here)
        for number in range(1000):
            await there.publish("between", b"%d" % number)
        for number in range(1000):
            assert (await received.next_msg(timeout=10)).data == b"%d" % number
        await received.unsubscribe()
    await over_tcp.close()
    await over_websocket.close()


def until(client: ClientConnection, end: bytes) -> bytes:
    data = b""
    while end not in data:
        part = client.recv(timeout=10)
        data += part if isinstance(part, bytes) else part.encode()
    return data


@pytest.mark.parametrize("compression", ["deflate", None])
def test_websockets_library(plain: Daemon, compression: str | None) -> None:
    with connect(f"ws://127.0.0.1:{websocket_port(plain)}", compression=compression) as client:
        assert until(client, b"\r\n").startswith(b"INFO {")
        client.send(CONNECT + b"SUB a 1\r\nPUB a 200\r\n" + b"x" * 200 + b"\r\n")
        client.send("PING\r\n")
        assert until(client, b"PONG\r\n").startswith(b"MSG a 1 200\r\n" + b"x" * 200 + b"\r\n")
        assert client.ping("are you there").wait(timeout=10)
        client.send([b"PI", b"NG", b"\r\n"])
        until(client, b"PONG\r\n")


@pytest.mark.differential
def test_info(start_pair: StartPair) -> None:
    """Fields and values; nats-server's own keys (xkey) and names apart."""
    config = 'websocket { listen: "127.0.0.1:-1", no_tls: true, advertise: "example.org:8080" }\nserver_name: s\n'
    found = []
    for daemon in start_pair(config):
        port = websocket_port(daemon)
        with WebsocketClient.open(port, "X-Forwarded-For: 9.9.9.9\r\n") as client:
            info = json.loads(client.info[5:])
            for name in ("server_id", "go", "xkey", "git_commit"):
                info.pop(name, None)
            assert info.pop("port") == port
            info["client_id"] = 0
            second = json.loads(re.findall(rb"INFO (.*)\r\n", client.exchange(CONNECT) + client.until(b"} \r\n"))[0])
            found.append((info, second["connect_info"], second["client_ip"], second.get("connect_urls")))
    assert found[0] == found[1]


@pytest.mark.differential
def test_monitoring(start_pair: StartPair) -> None:
    config = """
        websocket { listen: "127.0.0.1:-1", no_tls: true, compression: true, allowed_origins: ["http://x"]
                    handshake_timeout: "3s", advertise: "example.org:1" }
        http: "127.0.0.1:-1"
    """
    rows = []
    for daemon in start_pair(config):
        port = websocket_port(daemon)
        monitoring = monitor_port(daemon)
        with WebsocketClient.open(port) as client:
            client.exchange(CONNECT + b"SUB a.* 7\r\n")
            block = get_json(monitoring, "/varz")["websocket"]
            assert block.pop("port") == port
            row = get_json(monitoring, "/connz?subs=1")["connections"][0]
        for name in ("cid", "port", "start", "last_activity", "rtt", "uptime", "idle", "pending_bytes"):
            row.pop(name, None)
        rows.append((block, row))
    assert rows[0] == rows[1]


def test_ports_file(start: Start, tmp_path: Path) -> None:
    daemon = start(f'websocket {{ listen: "0.0.0.0:-1", no_tls: true }}\nports_file_dir: "{tmp_path}"\n')
    (path,) = tmp_path.iterdir()
    assert json.loads(path.read_text())["websocket"] == [f"ws://127.0.0.1:{websocket_port(daemon)}"]


@pytest.mark.differential
def test_certificates_name_the_user(start_pair: StartPair, made: Certificates) -> None:
    tls = made.tls_block("verify_and_map: true", verify=True)
    users = 'authorization { users [ {user: "CN=client"}, {user: other, password: other} ] }'
    stranger = made.ca.sign("nobody", usage="client")
    for daemon in start_pair(f'websocket {{ listen: "127.0.0.1:-1", {tls} }}\n{users}'):
        url = f"wss://localhost:{websocket_port(daemon)}"
        with connect(url, ssl=made.client_context(made.client)) as client:
            info = json.loads(until(client, b"\r\n")[5:])
            assert info["tls_required"] and info["tls_available"] and info["auth_required"]
            client.send(CONNECT + b"PING\r\n")
            until(client, b"PONG\r\n")
        with connect(url, ssl=made.client_context(stranger)) as client:
            until(client, b"\r\n")
            client.send(b'CONNECT {"user":"other","pass":"other"}\r\nPING\r\n')
            assert b"-ERR 'Authorization Violation'" in until(client, b"\r\n")
        with pytest.raises((ssl.SSLError, OSError, WebSocketException)):
            connect(url, ssl=made.client_context()).__enter__()


@pytest.mark.differential
def test_what_speaks_no_tls(start_pair: StartPair, made: Certificates) -> None:
    answers = []
    for daemon in start_pair(secure_block(made)):
        after = len(daemon.log)
        with WebsocketClient(websocket_port(daemon)) as client:
            client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            line = daemon.wait_for("TLS handshake error", after)
            answers.append((client.raw_to_end(), re.sub(r".*\[ERR\]|:\d+", "", line)))
        for sent in (b"", b"CONNECT {}\r\n"):
            after = len(daemon.log)
            with WebsocketClient(websocket_port(daemon)) as client:
                client.send(sent)
            if sent:
                assert "websocket: TLS handshake error from 127.0.0.1:" in daemon.wait_for("error", after)
    assert answers[0] == answers[1]


@pytest.mark.differential
def test_tls_handshakes_end_with_the_time_for_the_upgrade(start_pair: StartPair, made: Certificates) -> None:
    more = f'handshake_timeout: "200ms", {made.tls_block("timeout: 60")}'
    for daemon in start_pair(f'websocket {{ listen: "127.0.0.1:-1", {more} }}'):
        with WebsocketClient(websocket_port(daemon)) as client:
            assert client.raw_to_end() == b""
            line = daemon.wait_for("TLS handshake error")
            assert "websocket: TLS handshake error from 127.0.0.1:" in line
            assert line.endswith("i/o timeout")


def test_max_connections(start: Start) -> None:
    """What ends a client of TCP ends one of WebSockets, with a close frame that says so."""
    daemon = start('websocket { listen: "127.0.0.1:-1", no_tls: true, compression: true }\nmax_connections: 1\n')
    port = websocket_port(daemon)
    with WebsocketClient.open(port) as first, WebsocketClient.open(port, DEFLATE) as second:
        received = second.to_end()
        assert received.data == b"-ERR 'maximum connections exceeded'\r\n"
        assert (received.code, received.text) == (1008, "Maximum Connections Exceeded")
        first.exchange(CONNECT)
    with WebsocketClient.open(port, DEFLATE) as third:
        third.send(compressed(CONNECT + b"PING\r\n"))
        third.until(b"PONG\r\n")
