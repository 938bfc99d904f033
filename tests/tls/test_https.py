"""The monitoring port with TLS, and what it tells of connections with TLS."""

from __future__ import annotations

import http.client
import json
import re
import signal
import ssl
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.support import certificates, tls
from tests.support.certificates import Certificates
from tests.support.daemon import Daemon
from tests.support.process import find_nats_server
from tests.support.tls import HELLO, dial, secured, to_end, until


def port_of(daemon: Daemon) -> int:
    match = re.search(r"Starting https monitor on 127\.0\.0\.1:(\d+)", "\n".join(daemon.log))
    assert match, daemon.log
    return int(match[1])


def get(daemon: Daemon, made: Certificates, target: str) -> Any:
    connection = http.client.HTTPSConnection("127.0.0.1", port_of(daemon), context=made.client_context(), timeout=10)
    try:
        connection.request("GET", target)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """What `/connz` says of TLS; the cipher suite differs by library."""
    found = {name: row[name] for name in ("tls_version", "tls_first", "tls_peer_certs", "reason") if name in row}
    return found | {"suite": row.get("tls_cipher_suite", "")[:4]}


@pytest.mark.differential
@pytest.mark.skipif(find_nats_server() is None, reason="no nats-server on this machine")
@pytest.mark.parametrize("more", ["", "handshake_first: true"])
def test_connections_are_shown_as_nats_server_shows_them(tmp_path: Path, more: str) -> None:
    made = certificates.make(tmp_path)
    client = made.ca.sign("c", subject=[("O", "Tests"), ("OU", "a, b"), ("CN", "ann")], usage="client")
    config = 'https: "127.0.0.1:-1"\n' + made.tls_block(more, verify=True)
    seen = []
    for kind in ("nats-server", "jetbroker"):
        with tls.server(kind, tmp_path, config, "-D") as daemon:
            connection = dial(daemon.port)
            if not more:
                until(connection, b"\r\n")
            inside = secured(connection, made.client_context(client))
            inside.sendall(HELLO)
            until(inside, b"connect_info")
            rows = [shown(row) for row in get(daemon, made, "/connz?auth=1")["connections"]]
            rows += [shown(row) for row in get(daemon, made, "/connz")["connections"]]
            inside.close()
            daemon.wait_for("Client connection closed")
            broken = dial(daemon.port)
            broken.sendall(b"PING\r\nPING\r\n")
            to_end(broken)
            daemon.wait_for("TLS Handshake Failure")
            closed = get(daemon, made, "/connz?state=closed&sort=cid")["connections"]
            seen.append(rows + [shown(row) for row in closed])
    assert seen[1] == seen[0]
    assert seen[1][0]["tls_peer_certs"][0]["spki_sha256"] == client.spki_sha256


def test_a_plain_request_is_told_so(tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    with tls.server("jetbroker", tmp_path, 'https: "127.0.0.1:-1"\n' + made.tls_block()) as daemon:
        connection = dial(port_of(daemon))
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert to_end(connection).startswith(b"HTTP/1.0 400 Bad Request\r\n")
        daemon.wait_for("client sent an HTTP request to an HTTPS server")


def test_a_reload_brings_the_new_certificate(tmp_path: Path) -> None:
    made = certificates.make(tmp_path)

    def certificate() -> bytes | None:
        with secured(dial(port_of(daemon)), made.client_context()) as inside:
            return inside.getpeercert(binary_form=True)

    head = 'https: "127.0.0.1:-1"\n'
    with tls.server("jetbroker", tmp_path, head + made.tls_block()) as daemon:
        assert certificate() == made.server.der
        (tmp_path / "jetbroker.conf").write_text(head + made.tls_block(server=made.other_server))
        daemon.send(signal.SIGHUP)
        daemon.wait_for("Reloaded server configuration")
        assert certificate() == made.other_server.der
        assert get(daemon, made, "/healthz") == {"status": "ok"}


def test_nothing_below_tls12_by_the_command_line(tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    given = ("--tls", "--tlscert", str(made.server.cert), "--tlskey", str(made.server.key))
    more = ("--tlsverify", "--tlscacert", str(made.ca.cert))
    with Daemon("-a", "127.0.0.1", *given, *more) as daemon:
        context = made.client_context(made.client)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        assert b"PONG" in tls.talk(context, daemon.port)[1]
        context.set_ciphers("ALL:@SECLEVEL=0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(ssl.SSLError):
            tls.talk(context, daemon.port)
        context = made.client_context(made.client)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("AES128-SHA:AES256-SHA")  # no forward secrecy: not without being asked for
        with pytest.raises(ssl.SSLError):
            tls.talk(context, daemon.port)
