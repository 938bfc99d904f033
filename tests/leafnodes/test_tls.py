"""Links over TLS: hub and spoke, either of them nats-server; what goes wrong, in nats-server's words."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg

from tests.support import certificates
from tests.support.certificates import Authority, Certificates
from tests.support.clients import settle
from tests.support.pairs import JETBROKER, NATS_SERVER, PAIRS, Pair, server, told
from tests.support.process import find_nats_server, free_port
from tests.support.tls import dial, secured, to_end, until

LOGIN = "authorization { user: leaf, password: secret, account: A }"
ACCOUNTS = "accounts { A: { users: [ {user: a, password: a} ] } }\n"
CONNECT = b'CONNECT {"user":"leaf","pass":"secret","name":"peer","version":"2.14.5","protocol":3}\r\n'
KINDS = [JETBROKER, NATS_SERVER]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates.make(tmp_path_factory.mktemp("certificates"))


def hub(tls: str, login: str = LOGIN, more: str = ACCOUNTS) -> str:
    return f'leafnodes {{ listen: "127.0.0.1:{{leaf_port}}", {login}\n{tls} }}\n{more}'


def spoke(tls: str = "", url: str = "nats-leaf://leaf:secret@127.0.0.1:{leaf_port}", reconnect: str = "30s") -> str:
    return f'leafnodes {{ reconnect: "{reconnect}", remotes: [ {{ urls: ["{url}"]\n{tls} }} ] }}\n'


def trusting(made: Certificates, more: str = "") -> str:
    return f'tls {{ ca_file: "{made.ca.cert}"\n{more} }}'


def showing(made: Certificates, who: certificates.Certificate, more: str = "") -> str:
    return trusting(made, f'cert_file: "{who.cert}", key_file: "{who.key}"\n{more}')


async def echo(client: NatsClient, subject: str) -> None:
    async def answer(msg: Msg) -> None:
        await msg.respond(msg.data[::-1])

    await client.subscribe(subject, cb=answer)
    await settle(client)


@asynccontextmanager
async def clients(pair: Pair) -> AsyncIterator[tuple[NatsClient, NatsClient]]:
    """One at the hub and one at the spoke."""
    at_hub = await nats.connect(pair.hub.url, user="a", password="a")
    at_spoke = await nats.connect(pair.spoke.url)
    try:
        yield at_hub, at_spoke
    finally:
        await at_hub.close()
        await at_spoke.close()


async def talk(pair: Pair) -> None:
    """A request in each direction."""
    async with clients(pair) as (at_hub, at_spoke):
        for serving, asking, subject in ((at_hub, at_spoke, "up"), (at_spoke, at_hub, "down")):
            await echo(serving, subject)
            await told(asking, subject)
            assert (await asking.request(subject, b"abc" * 10_000, timeout=5)).data == b"cba" * 10_000


WAYS: dict[str, Callable[[Certificates], tuple[str, str]]] = {
    "INFO says so": lambda made: (hub(made.tls_block()), spoke(trusting(made))),
    "first": lambda made: (
        hub(made.tls_block("handshake_first: true")),
        spoke(trusting(made, "handshake_first: true")),
    ),
    "first, or after INFO": lambda made: (hub(made.tls_block("handshake_first: 200ms")), spoke(trusting(made))),
    "first, though INFO would come": lambda made: (
        hub(made.tls_block("handshake_first: 5s")),
        spoke(trusting(made, "handshake_first: true")),
    ),
    "not verified": lambda made: (hub(made.tls_block()), spoke("tls { insecure: true }")),
    "a client certificate": lambda made: (hub(made.tls_block(verify=True)), spoke(showing(made, made.client))),
    "a pinned certificate": lambda made: (
        hub(made.tls_block(f'pinned_certs: ["{made.client.spki_sha256}"]', verify=True)),
        spoke(showing(made, made.client)),
    ),
    "by a name, with TLS 1.3": lambda made: (
        hub(made.tls_block('min_version: "1.3"', server=made.ca.sign("named", dns=["localhost"]))),
        spoke(trusting(made, 'min_version: "1.3"'), "tls://leaf:secret@localhost:{leaf_port}"),
    ),
    "an address that has no name": lambda made: (
        hub(made.tls_block(server=made.ca.sign("address", ips=["127.0.0.1"]))),
        spoke(trusting(made), 'tls://localhost:1", "tls://leaf:secret@127.0.0.1:{leaf_port}', "100ms"),
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kinds", PAIRS, ids=lambda kinds: f"hub {kinds[0]}, spoke {kinds[1]}")
async def test_a_link_over_tls(kinds: tuple[str, str], way: str, made: Certificates, tmp_path: Path) -> None:
    with Pair(kinds, tmp_path, *WAYS[way](made)) as pair:
        await talk(pair)


@pytest.mark.parametrize("kinds", PAIRS, ids=lambda kinds: f"hub {kinds[0]}, spoke {kinds[1]}")
async def test_a_certificate_names_the_user(kinds: tuple[str, str], made: Certificates, tmp_path: Path) -> None:
    tls = f'tls {{ cert_file: "{made.server.cert}", key_file: "{made.server.key}", ca_file: "{made.ca.cert}", '
    tls += "verify_and_map: true }"
    known = made.ca.sign("edge", emails=["edge@example.com"], usage="client")
    login = 'authorization { users: [ {user: "other@example.com"}, {user: "edge@example.com", account: A} ] }'
    url = "nats-leaf://ann@127.0.0.1:{leaf_port}"
    with Pair(kinds, tmp_path, hub(tls, login), spoke(showing(made, known), url)) as pair:
        await talk(pair)
        pair.hub.wait_for('[WRN] User "ann" found in connect proto, but user required from cert')


# --- what goes wrong ---


def stranger(made: Certificates) -> Authority:
    return Authority(made.directory / "strange", common_name="Another CA")


@cache
def elsewhere(made: Certificates) -> certificates.Certificate:
    return made.ca.sign("elsewhere", dns=["example.com"])


WRONG: dict[str, Callable[[Certificates], tuple[str, str]]] = {
    "unknown authority": lambda made: (hub(made.tls_block()), spoke(f'tls {{ ca_file: "{stranger(made).cert}" }}')),
    "no authority": lambda made: (hub(made.tls_block()), spoke()),
    "wrong name": lambda made: (
        hub(made.tls_block(server=elsewhere(made))),
        spoke(trusting(made), "nats-leaf://leaf:secret@localhost:{leaf_port}"),
    ),
    "wrong address": lambda made: (
        hub(made.tls_block(server=elsewhere(made))),
        spoke(trusting(made)),
    ),
    "expired": lambda made: (hub(made.tls_block(server=made.expired_server)), spoke(trusting(made))),
    "no client certificate": lambda made: (hub(made.tls_block(verify=True)), spoke(trusting(made))),
    "not pinned": lambda made: (
        hub(made.tls_block(f'pinned_certs: ["{"0" * 64}"]', verify=True)),
        spoke(showing(made, made.client)),
    ),
    "INFO comes first": lambda made: (hub(made.tls_block()), spoke(trusting(made, "handshake_first: true"))),
    "TLS comes first": lambda made: (
        hub(made.tls_block("handshake_first: true, timeout: 1.5")),
        spoke(trusting(made)),
    ),
    "hub in clear": lambda made: (hub(""), spoke(trusting(made))),
    "hub in clear, TLS first": lambda made: (hub(""), spoke(trusting(made, "handshake_first: true"))),
}


def told_of(lines: list[str]) -> list[str]:
    """What the log of a server says of its links and their TLS, comparable."""
    found = []
    for line in lines:
        text = re.sub(r"^\[\d+\] \S+ \S+ ", "", line)
        if "lid:" not in text or "TLS handshake timeout" in text or "Error reading INFO" in text:
            continue
        if "connect msg sent" in text or "Failed pinned" in text:
            continue  # who has shaken hands may not know yet that the other side is not content
        text = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", text)
        text = re.sub(r"lid:\d+", "lid:N", text)
        text = re.sub(r"(expired or is not yet valid|unknown authority)[^(]*(\(possibly [^()]*\))?[^(]*", r"\1 ", text)
        text = re.sub(r"tls: (bad certificate|unknown certificate authority|expired certificate)", "tls: ALERT", text)
        text = re.sub(r"read tcp \S+: read: connection reset by peer", "EOF", text)
        text = re.sub(r"closed: (Read Error|Client Closed).*", "closed: READ", text)
        found.append(text.strip())
    return sorted(found)


def play(kind: str, name: str, made: Certificates, folder: Path) -> tuple[list[str], list[str]]:
    folder.mkdir()
    pair = Pair((kind, kind), folder, *WRONG[name](made))
    try:
        for one in pair.servers:
            one.start()
        for one in pair.servers:
            one.wait_for("Leafnode connection closed")
            if name == "TLS comes first" and one is pair.hub:
                one.wait_for("handshake error")
    finally:
        for one in pair.servers:
            one.kill()
    return told_of(pair.hub.log), told_of(pair.spoke.log)


@pytest.mark.parametrize("name", WRONG)
def test_no_link_as_at_nats_server(name: str, made: Certificates, tmp_path: Path) -> None:
    if find_nats_server() is None:
        pytest.skip("no nats-server on this machine")
    assert play(JETBROKER, name, made, tmp_path / "ours") == play(NATS_SERVER, name, made, tmp_path / "theirs")


@pytest.mark.parametrize("kind", KINDS)
def test_insecure_is_warned_of(kind: str, made: Certificates, tmp_path: Path) -> None:
    config = tmp_path / "hub.conf"
    config.write_text(hub(made.tls_block("insecure: true")).replace("{leaf_port}", str(free_port())))
    with server(kind, config) as one:
        one.wait_for(
            "[WRN] TLS certificate chain and hostname of solicited leafnodes will not be verified. "
            "DO NOT USE IN PRODUCTION!"
        )


# --- bytes by hand ---


class Listening:
    """A jetbroker hub, and connections to it by hand."""

    def __init__(self, folder: Path, config: str) -> None:
        self.port = free_port()
        self._path = folder / "hub.conf"
        self.configure(config)
        self.daemon = server(JETBROKER, self._path)

    def configure(self, config: str) -> None:
        """What the next start or reload reads."""
        self._path.write_text(config.replace("{leaf_port}", str(self.port)))

    def __enter__(self) -> Listening:
        self.daemon.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.daemon.stop()


class Inside:
    """TLS in memory over a socket: what is sent together arrives together."""

    def __init__(self, connection: socket.socket, context: ssl.SSLContext) -> None:
        self.connection = connection
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def shake(self, behind: bytes) -> None:
        """The last words of the handshake and `behind` go out in one write."""
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                self.connection.sendall(self.outgoing.read())
                self.incoming.write(self.connection.recv(65536))
        self.tls.write(behind)
        self.connection.sendall(self.outgoing.read())

    def until(self, end: bytes) -> bytes:
        found = b""
        while end not in found:
            try:
                found += self.tls.read(65536)
            except ssl.SSLWantReadError:
                data = self.connection.recv(65536)
                if not data:
                    break
                self.incoming.write(data)
        return found


@pytest.mark.parametrize("first", [False, True])
def test_a_connect_in_the_same_segment_as_the_end_of_the_handshake(
    made: Certificates, tmp_path: Path, *, first: bool
) -> None:
    with Listening(tmp_path, hub(made.tls_block("handshake_first: true" if first else ""))) as listening:
        with dial(listening.port) as connection:
            if not first:
                assert b'"tls_required":true' in until(connection, b"\r\n")
            inside = Inside(connection, made.client_context())
            inside.shake(CONNECT + b"PING\r\n")
            said = inside.until(b"PONG\r\n")
            assert b'"connect_info":true' in said and said.count(b"INFO {") == (2 if first else 1)


def test_what_comes_in_clear_behind_info_is_never_a_command(made: Certificates, tmp_path: Path) -> None:
    """Somebody in between could put it there: it belongs to the handshake, which it breaks."""
    config = tmp_path / "spoke.conf"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        config.write_text(spoke(trusting(made)).replace("{leaf_port}", str(port)))
        with server(JETBROKER, config) as one:
            connection, _ = listening.accept()
            with connection:
                info = b'INFO {"client_id":1,"leafnode_urls":[],"tls_required":true,"info_on_connect":true}\r\n'
                connection.sendall(info + b"PING\r\nLS+ x\r\n")
                one.wait_for("TLS leafnode handshake error")
                assert b"PONG" not in to_end(connection)


def test_a_tls_url_never_goes_on_in_clear(tmp_path: Path) -> None:
    pair = Pair((JETBROKER, JETBROKER), tmp_path, hub(""), spoke(url="tls://leaf:secret@127.0.0.1:{leaf_port}"))
    try:
        pair.hub.start()
        pair.spoke.start()
        pair.spoke.wait_for("TLS leafnode handshake error: tls: first record does not look like a TLS handshake")
        assert not any("connect msg sent" in line for line in pair.spoke.log)
    finally:
        for one in pair.servers:
            one.kill()


def test_who_never_ends_a_handshake_is_cut_off(made: Certificates, tmp_path: Path) -> None:
    with Listening(tmp_path, hub(made.tls_block("timeout: 0.5"))) as listening:
        for hello in (b"", b"\x16\x03\x01"):
            lines = len(listening.daemon.log)
            with dial(listening.port) as connection:
                until(connection, b"\r\n")
                connection.sendall(hello)
                assert to_end(connection) == b""
            listening.daemon.wait_for("TLS handshake timeout", lines)
            listening.daemon.wait_for("Leafnode connection closed: TLS Handshake Failure", lines)


def test_half_a_connect_of_many_is_bounded_in_memory(tmp_path: Path) -> None:
    """Each may keep half a line: together they may keep a bounded amount, and those who kept longest have to go."""
    with Listening(tmp_path, hub("", "authorization { user: leaf, password: secret, account: A, timeout: 30 }")) as one:
        before = one.daemon.rss_bytes()
        connections = [dial(one.port) for _ in range(900)]
        try:
            for connection in connections:
                until(connection, b"\r\n")
                connection.sendall(b"CONNECT {" + b" " * 60_000)
            one.daemon.wait_for("Leafnode connection closed: Authentication Timeout")
            assert one.daemon.rss_bytes() - before < 80 * 1024 * 1024
            assert b"Authentication Timeout" in to_end(connections[0])
        finally:
            for connection in connections:
                connection.close()


def test_a_reload_shows_the_new_certificate_to_those_who_come_and_keeps_those_who_are_there(
    made: Certificates, tmp_path: Path
) -> None:
    with Listening(tmp_path, hub(made.tls_block("handshake_first: true"))) as listening:
        daemon = listening.daemon
        with dial(listening.port) as first:
            here = secured(first, made.client_context())
            here.sendall(CONNECT + b"PING\r\n")
            until(here, b"PONG\r\n")
            renewed = made.ca.sign("renewed", dns=["localhost"])
            listening.configure(hub(made.tls_block("handshake_first: true", server=renewed)))
            lines = len(daemon.log)
            daemon.send(signal.SIGHUP)
            daemon.wait_for("Reloaded server configuration", lines)
            with dial(listening.port) as second:
                coming = secured(second, made.client_context())
                shown = [each.getpeercert(binary_form=True) for each in (here, coming)]
            made_by = [made.server, renewed]
            assert shown == [ssl.PEM_cert_to_DER_cert(each.cert.read_text()) for each in made_by]
            here.sendall(b"PING\r\n")
            assert until(here, b"PONG\r\n").endswith(b"PONG\r\n")


@pytest.mark.parametrize("kinds", PAIRS, ids=lambda kinds: f"hub {kinds[0]}, spoke {kinds[1]}")
async def test_a_link_over_tls_under_load_loses_nothing(
    kinds: tuple[str, str], made: Certificates, tmp_path: Path
) -> None:
    """More than the sockets hold, in both directions at once."""
    with Pair(kinds, tmp_path, hub(made.tls_block()), spoke(trusting(made))) as pair:
        payload = bytes(range(256)) * 128
        count = 600

        async def fill(publisher: NatsClient, subject: str) -> None:
            for number in range(count):
                await publisher.publish(subject, b"%06d" % number + payload)
                if number % 50 == 49:
                    await settle(publisher)

        async with clients(pair) as (at_hub, at_spoke):
            taken = [await at_hub.subscribe("load.up"), await at_spoke.subscribe("load.down")]
            await echo(at_hub, "set.up")
            await echo(at_spoke, "set.down")
            await told(at_spoke, "set.up")
            await told(at_hub, "set.down")
            filling = asyncio.gather(fill(at_spoke, "load.up"), fill(at_hub, "load.down"))
            for subscription in taken:
                for number in range(count):
                    got = await subscription.next_msg(timeout=10)
                    assert got.data[:6] == b"%06d" % number and got.data[6:] == payload
            await filling
