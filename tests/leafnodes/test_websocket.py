"""Links over WebSockets: hub and spoke, either of them nats-server; what goes wrong, in nats-server's words."""

from __future__ import annotations

import base64
import hashlib
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import certificates
from tests.support.certificates import Certificates
from tests.support.clients import settle
from tests.support.daemon import Daemon
from tests.support.pairs import JETBROKER, NATS_SERVER, PAIRS, Pair, server, told
from tests.support.process import find_nats_server, free_port
from tests.support.tls import until
from tests.support.websocket import WebsocketClient, binary, compressed, frame, request

from .test_tls import clients, echo, talk, trusting

LEAFS = (
    'leafnodes { listen: "127.0.0.1:-1", authorization { user: leaf, password: secret, account: A, timeout: 30 } }\n'
)
ACCOUNTS = "accounts { A: { users: [ {user: a, password: a} ] } }\n"
CONNECT = b'CONNECT {"user":"leaf","pass":"secret","name":"peer","version":"2.14.5","protocol":3}\r\n'
INFO = b'INFO {"client_id":1,"leafnode_urls":[],"server_name":"peer","info_on_connect":true}\r\n'
FINAL_INFO = b'INFO {"client_id":1,"connect_info":true,"remote_account":"A"}\r\n'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates.make(tmp_path_factory.mktemp("certificates"))


def hub(more: str = "no_tls: true", leafs: str = LEAFS) -> str:
    """Its WebSocket port is the one that spokes dial."""
    return f'websocket {{ listen: "127.0.0.1:{{leaf_port}}"\n{more} }}\n{leafs}{ACCOUNTS}'


def spoke(scheme: str = "ws", more: str = "", path: str = "") -> str:
    url = f"{scheme}://leaf:secret@127.0.0.1:{{leaf_port}}{path}"
    return f'leafnodes {{ reconnect: "30s", remotes: [ {{ url: "{url}"\n{more} }} ] }}\n'


WAYS: dict[str, Callable[[Certificates], tuple[str, str]]] = {
    "masked": lambda made: (hub(), spoke()),
    "compressed, not masked": lambda made: (
        hub("no_tls: true, compression: true"),
        spoke(more="ws_compression: true, ws_no_masking: true"),
    ),
    "compressed": lambda made: (hub("no_tls: true, compression: true"), spoke(more="ws_compression: true")),
    "compression is not granted": lambda made: (hub(), spoke(more="ws_compression: true")),
    "behind a path": lambda made: (hub(), spoke(path="/some/where?x=1")),
    "over TLS": lambda made: (hub(made.tls_block()), spoke("wss", trusting(made))),
    "a tls block alone": lambda made: (hub(made.tls_block()), spoke("ws", trusting(made))),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kinds", PAIRS, ids=lambda kinds: f"hub {kinds[0]}, spoke {kinds[1]}")
async def test_a_link_over_a_websocket(kinds: tuple[str, str], way: str, made: Certificates, tmp_path: Path) -> None:
    with Pair(kinds, tmp_path, *WAYS[way](made)) as pair:
        await talk(pair)
        compressed, masked = "compression=true" in str(pair.spoke.log), "masking=true" in str(pair.spoke.log)
        assert compressed == (way in ("compressed", "compressed, not masked"))
        assert masked == (way != "compressed, not masked")


@pytest.mark.parametrize("kinds", PAIRS, ids=lambda kinds: f"hub {kinds[0]}, spoke {kinds[1]}")
async def test_large_messages_over_a_compressed_websocket(kinds: tuple[str, str], tmp_path: Path) -> None:
    ours, theirs = WAYS["compressed"](None)  # type: ignore[arg-type]
    payload = bytes(range(256)) * 3000
    with Pair(kinds, tmp_path, ours, theirs) as pair:
        async with clients(pair) as (at_hub, at_spoke):
            for listener, publisher, subject in ((at_hub, at_spoke, "up"), (at_spoke, at_hub, "down")):
                taken = await listener.subscribe(subject)
                await echo(listener, f"set.{subject}")
                await told(publisher, f"set.{subject}")
                for number in range(40):
                    await publisher.publish(subject, b"%03d" % number + payload)
                    await settle(publisher)
                for number in range(40):
                    got = await taken.next_msg(timeout=10)
                    assert got.data[:3] == b"%03d" % number and got.data[3:] == payload


# --- what goes wrong ---

WRONG: dict[str, Callable[[Certificates], tuple[str, str]]] = {
    "no leafnodes at the hub": lambda made: (hub(leafs=""), spoke()),
    "TLS at the hub alone": lambda made: (hub(made.tls_block()), spoke()),
    "TLS at the spoke alone": lambda made: (hub(), spoke("wss", trusting(made))),
    "an unknown authority": lambda made: (hub(made.tls_block()), spoke("wss")),
    "wrong password": lambda made: (hub(), spoke().replace("secret", "wrong")),
    "no WebSocket": lambda made: (LEAFS.replace(":-1", ":{leaf_port}") + ACCOUNTS, spoke()),
    "a WebSocket": lambda made: (hub(), spoke("nats-leaf")),
}


def told_of(lines: list[str]) -> list[str]:
    """What the log of a server says of its links, comparable."""
    found = []
    for line in lines:
        text = re.sub(r"^\[\d+\] \S+ \S+ ", "", line)
        if not ("lid" in text or "leaf node" in text or "websocket: " in text) or "Error reading INFO" in text:
            continue
        if "] read error: " in text or "- read error: " in text or "(SYSCALL)" in text:
            continue  # of a connection that was closed already
        text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", text)
        text = re.sub(r"(lid\w*):\d+", r"\1:N", text)
        text = re.sub(r"(unknown authority)[^(]*(\(possibly [^()]*\))?[^(]*", r"\1 ", text)
        text = re.sub(r"TLS handshake error from ADDRESS: (remote|\[SSL).*", "TLS handshake error: ALERT", text)
        text = re.sub(r"(malformed HTTP status code).*", r"\1", text)
        found.append(text.strip())
    return sorted(found)


def play(kind: str, name: str, made: Certificates, folder: Path) -> tuple[list[str], list[str]]:
    folder.mkdir()
    pair = Pair((kind, kind), folder, *WRONG[name](made))
    try:
        pair.hub.start()
        pair.spoke.start()
        pair.spoke.wait_for("Leafnode connection closed")
        if "TLS at the spoke" in name or "authority" in name:
            pair.spoke.wait_for("Error soliciting")
        if any("lid" in line for line in pair.hub.log):
            pair.hub.wait_for("Leafnode connection closed")
        elif name not in ("a WebSocket", "TLS at the spoke alone"):
            pair.hub.wait_for("[ERR]")
    finally:
        for one in pair.servers:
            one.kill()
    return told_of(pair.hub.log), told_of(pair.spoke.log)


@pytest.mark.parametrize("name", WRONG)
def test_no_link_as_at_nats_server(name: str, made: Certificates, tmp_path: Path) -> None:
    if find_nats_server() is None:
        pytest.skip("no nats-server on this machine")
    assert play(JETBROKER, name, made, tmp_path / "ours") == play(NATS_SERVER, name, made, tmp_path / "theirs")


# --- a spoke and answers by hand ---


class Answering:
    """What a spoke dials, and a connection of it."""

    def __init__(self, kind: str, folder: Path, more: str = "", reconnect: str = "30s") -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.settimeout(10)
        path = folder / f"{kind}.conf"
        config = spoke(more=more).replace('"30s"', f'"{reconnect}"')
        path.write_text(config.replace("{leaf_port}", str(self.listening.getsockname()[1])))
        self.spoke: Daemon = server(kind, path)

    def __enter__(self) -> Answering:
        self.spoke.start()
        self.connection, _ = self.listening.accept()
        self.connection.settimeout(10)
        self.request = until(self.connection, b"\r\n\r\n").decode()
        return self

    def __exit__(self, *_: object) -> None:
        self.spoke.kill()
        self.connection.close()
        self.listening.close()

    def header(self, name: str) -> str:
        found = re.search(rf"(?mi)^{name}: (.*?)\r$", self.request)
        return found[1] if found else ""

    def agreement(self, more: str = "", **changed: str) -> bytes:
        """An answer that makes a WebSocket; `changed` headers spoil it."""
        magic = self.header("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        headers = {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Accept": base64.b64encode(hashlib.sha1(magic.encode()).digest()).decode(),
        }
        headers |= {name.replace("_", "-"): value for name, value in changed.items()}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"HTTP/1.1 101 Switching Protocols\r\n{lines}{more}\r\n".encode()


REFUSALS: dict[str, Callable[[Answering], bytes]] = {
    "400": lambda it: b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    "200": lambda it: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    "other key": lambda it: it.agreement(Sec_WebSocket_Accept="x"),
    "no upgrade": lambda it: it.agreement(Upgrade="h2c"),
    "no connection": lambda it: it.agreement(Connection="close"),
    "half compressed": lambda it: it.agreement("Sec-WebSocket-Extensions: permessage-deflate\r\n"),
    "no HTTP": lambda it: b"SSH-2.0-OpenSSH\r\n",
    "no status": lambda it: b"HTTP/1.1 abc what\r\n\r\n",
    "a long status": lambda it: b"HTTP/1.1 1010 what\r\n\r\n",
    "a version": lambda it: b"HTTQ/1.1 101 what\r\n\r\n",
    "nothing": lambda it: b"",
    "half": lambda it: it.agreement()[:30],
}


def answered(kind: str, name: str, folder: Path) -> str:
    with Answering(kind, folder, "ws_compression: true") as it:
        it.connection.sendall(REFUSALS[name](it))
        it.connection.shutdown(socket.SHUT_WR)
        line = it.spoke.wait_for("Error soliciting websocket connection")
        it.spoke.wait_for("Leafnode connection closed: Read Error")
        return line.partition("Error soliciting")[2]


@pytest.mark.parametrize("name", REFUSALS)
def test_answers_that_make_no_websocket(name: str, tmp_path: Path) -> None:
    if find_nats_server() is None:
        pytest.skip("no nats-server on this machine")
    assert answered(JETBROKER, name, tmp_path) == answered(NATS_SERVER, name, tmp_path)


def test_no_answer_in_time(tmp_path: Path) -> None:
    with Answering(JETBROKER, tmp_path, 'first_info_timeout: "200ms"') as it:
        line = it.spoke.wait_for("Error soliciting websocket connection")
        assert line.endswith(": i/o timeout")
        it.spoke.wait_for("Leafnode connection closed: Read Error")


def test_an_endless_answer_is_bounded(tmp_path: Path) -> None:
    with Answering(JETBROKER, tmp_path) as it:
        it.connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\nX: " + b"x" * 40_000)
        it.spoke.wait_for("Error soliciting websocket connection")


def test_what_comes_with_the_answer_is_not_lost(tmp_path: Path) -> None:
    """The answer, INFO and what follows in one segment, and in pieces of one byte."""
    for number, pieces in enumerate((1, 10_000)):
        folder = tmp_path / str(number)
        folder.mkdir()
        with Answering(JETBROKER, folder, "ws_no_masking: true") as it:
            data = it.agreement("Nats-No-Masking: true\r\n")
            data += frame(2, INFO, masked=False) + frame(2, FINAL_INFO + b"PING\r\n", masked=False)
            size = -(-len(data) // pieces)
            it.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(0, len(data), size):
                it.connection.sendall(data[at : at + size])
            said = until(it.connection, b"PONG\r\n")
            assert b"CONNECT {" in said and b"PONG\r\n" in said


def test_the_request_asks_for_what_is_configured(tmp_path: Path) -> None:
    with Answering(JETBROKER, tmp_path, "ws_no_masking: true, ws_compression: true") as it:
        assert it.request.startswith("GET /leafnode HTTP/1.1\r\n")
        assert it.header("Host") == f"127.0.0.1:{it.listening.getsockname()[1]}"
        assert it.header("Nats-No-Masking") == "true"
        assert "permessage-deflate" in it.header("Sec-WebSocket-Extensions")


def test_other_websocket_ports_of_the_hub_are_dialled_next(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(10)
        address = f"127.0.0.1:{other.getsockname()[1]}"
        urls = f'"leafnode_urls":["127.0.0.1:1"],"ws_connect_urls":["{address}"],'.encode()
        with Answering(JETBROKER, tmp_path, reconnect="100ms") as it:
            info = INFO.replace(b'"leafnode_urls":[],', urls)
            it.connection.sendall(it.agreement() + frame(2, info, masked=False))
            it.spoke.wait_for("connect msg sent")
            it.connection.close()
            connection, _ = other.accept()
            with connection:
                assert until(connection, b"\r\n\r\n").startswith(b"GET /leafnode HTTP/1.1\r\n")


# --- a hub and frames by hand ---


@pytest.fixture
def port(tmp_path: Path, request: pytest.FixtureRequest) -> int:
    found = free_port()
    path = tmp_path / "hub.conf"
    path.write_text(hub("no_tls: true, compression: true").replace("{leaf_port}", str(found)))
    daemon = server(JETBROKER, path)
    daemon.start()
    request.addfinalizer(daemon.stop)
    return found


def opened(port: int, more: str = "") -> WebsocketClient:
    client = WebsocketClient(port)
    client.send(request(more, path="/leafnode"))
    assert client.read_head().startswith(b"HTTP/1.1 101")
    client.info = client.until(b"\r\n")
    return client


def test_a_login_in_frames_of_every_kind(port: int) -> None:
    deflate = "Sec-WebSocket-Extensions: permessage-deflate\r\n"
    for more, data in (
        ("", binary(CONNECT + b"PING\r\n")),
        (deflate, compressed(CONNECT + b"PING\r\n")),
        ("", b"".join(binary(bytes([byte])) for byte in CONNECT + b"PING\r\n")),
        ("Nats-No-Masking: true\r\n", frame(2, CONNECT + b"PING\r\n", masked=False)),
    ):
        with opened(port, more) as client:
            assert (b'"compression"' in client.info) == (more != deflate)
            client.send(data)
            assert b'"connect_info":true' in client.until(b"PONG\r\n")


def test_frames_that_break_the_rules_end_a_link(port: int) -> None:
    with opened(port) as client:
        client.send(frame(2, CONNECT, masked=False))
        ended = client.to_end()
        assert (ended.code, ended.text) == (1002, "mask bit missing")


def test_a_bomb_before_the_login_is_refused(port: int) -> None:
    with opened(port, "Sec-WebSocket-Extensions: permessage-deflate\r\n") as client:
        client.send(compressed(b"CONNECT {" + b" " * 10_000_000))
        assert client.to_end().code == 1009


def test_a_link_that_sends_a_close_frame_is_closed(port: int) -> None:
    with opened(port) as client:
        client.send(binary(CONNECT + b"PING\r\n"))
        client.until(b"PONG\r\n")
        client.send(frame(8, (1000).to_bytes(2, "big")))
        assert client.to_end().code == 1000
