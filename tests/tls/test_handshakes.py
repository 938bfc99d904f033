"""What a client sees, and the log says, before its first command: the same as with nats-server."""

from __future__ import annotations

import ssl
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.support import certificates, tls
from tests.support.certificates import Certificates
from tests.support.process import find_nats_server
from tests.support.tls import HELLO, Play, dial, normalised, talk, to_end, until

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(find_nats_server() is None, reason="no nats-server on this machine"),
]

CONFIGS = {
    "tls": "",
    "verify": "",
    "first": "handshake_first: true",
    "fallback": "handshake_first: 300ms",
    "mixed": "",
    "mixed_first": "handshake_first: 300ms",
    "throttled": "connection_rate_limit: 1",
    "tls13": 'min_version: "1.3"',
    "one_curve": "curve_preferences: [CurveP384]",
    "one_cipher": "cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]",
    "unpinned": 'pinned_certs: ["' + "0" * 64 + '"]',
}


def config(name: str, made: Certificates) -> str:
    block = made.tls_block("timeout: 0.5\n  " + CONFIGS[name], verify=name in ("verify", "unpinned"))
    return block + ("allow_non_tls: true\n" if name.startswith("mixed") else "")


# --- scenarios: what a client does ---


def secure(port: int, made: Certificates) -> Any:
    return talk(made.client_context(), port)


def older(port: int, made: Certificates) -> Any:
    context = made.client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return tried(context, port)


def too_old(port: int, made: Certificates) -> Any:
    context = made.client_context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    return tried(context, port)


def other_curve(port: int, made: Certificates) -> Any:
    context = made.client_context()
    context.set_ecdh_curve("prime256v1")
    return tried(context, port)


def the_curve(port: int, made: Certificates) -> Any:
    context = made.client_context()
    context.set_ecdh_curve("secp384r1")
    return tried(context, port)


def other_cipher(port: int, made: Certificates) -> Any:
    context = made.client_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    return tried(context, port)


def tried(context: ssl.SSLContext, port: int) -> Any:
    """As `talk`, or the alert that came instead."""
    try:
        return talk(context, port)
    except ssl.SSLError as error:
        return error.reason


def with_certificate(port: int, made: Certificates) -> Any:
    return talk(made.client_context(made.client), port)


def without_certificate(port: int, made: Certificates) -> Any:
    return refused(made.client_context(), port)


def expired(port: int, made: Certificates) -> Any:
    return refused(made.client_context(made.expired_client), port)


def stranger(port: int, made: Certificates) -> Any:
    return refused(made.client_context(made.stranger), port)


def wrong_usage(port: int, made: Certificates) -> Any:
    return refused(made.client_context(made.ca.sign("only-server", usage="server")), port)


def not_pinned(port: int, made: Certificates) -> Any:
    connection = dial(port)
    until(connection, b"\r\n")
    inside = tls.secured(connection, made.client_context(made.client))
    return to_end(inside)


def refused(context: ssl.SSLContext, port: int) -> Any:
    """The alert; with TLS 1.3 the client hears of it behind its own part of the handshake."""
    connection = dial(port)
    until(connection, b"\r\n")
    try:
        inside = tls.secured(connection, context)
        inside.sendall(HELLO)
        return inside.recv(100)
    except ssl.SSLError as error:
        # for a certificate of another purpose the libraries have different alerts
        return "SSLV3_ALERT_BAD_CERTIFICATE" if error.reason == "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE" else error.reason


def inside_first(port: int, made: Certificates) -> Any:
    return talk(made.client_context(), port, first=True)


def says(data: bytes, *, end: bytes = b"") -> Play:
    """INFO (if any), `data` in clear, then what comes to `end` or to the end."""

    def play(port: int, made: Certificates) -> Any:
        connection = dial(port)
        info = until(connection, b"\r\n")
        connection.sendall(data)
        return normalised(info), normalised(until(connection, end) if end else to_end(connection))

    play.__name__ = f"says {data[:12]!r}"
    return play


def says_at_once(port: int, made: Certificates) -> Any:
    connection = dial(port)
    connection.sendall(HELLO)
    return normalised(to_end(connection))


def silent(port: int, made: Certificates) -> Any:
    return normalised(to_end(dial(port)))


def hangs_up(port: int, made: Certificates) -> Any:
    connection = dial(port)
    info = until(connection, b"\r\n")
    connection.close()
    return normalised(info)


def too_many(port: int, made: Certificates) -> Any:
    """Three at once where one per second may begin a handshake."""
    connections = [dial(port) for _ in range(3)]
    return sorted(b"throttling" in to_end(connection) for connection in connections)


def wait_for_info(port: int, made: Certificates) -> Any:
    return talk(made.client_context(), port)


PLAYS: dict[str, list[Play]] = {
    "tls": [
        secure,
        older,
        too_old,
        says(HELLO),
        says(b"\x16\x03\x01\x02\x00"),
        says(b"\x16\xff\xff\xff"),
        silent,
        hangs_up,
    ],
    "verify": [with_certificate, without_certificate, expired, stranger, wrong_usage, says(HELLO)],
    "first": [inside_first, says_at_once, silent],
    "fallback": [inside_first, wait_for_info, says(HELLO), says_at_once, silent],
    "mixed": [
        secure,
        says(b"PING\r\n", end=b"PONG\r\n"),
        says(HELLO, end=b"connect_info"),
        says(b"\x16\x03\x01\x02\x00"),
        says(b"junk\r\n"),
    ],
    "mixed_first": [inside_first, wait_for_info, says(HELLO, end=b"connect_info")],
    "tls13": [secure, older],
    "one_curve": [the_curve, other_curve],
    "one_cipher": [older, other_cipher],
    "unpinned": [not_pinned],
}


@pytest.mark.parametrize("name", PLAYS)
def test_same_as_nats_server(name: str, tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    seen: dict[str, Any] = {}
    for kind in ("nats-server", "jetbroker"):
        with tls.server(kind, tmp_path, config(name, made), "-D") as daemon:
            answers = {}
            for play in PLAYS[name]:
                before = len(daemon.log)
                answers[play.__name__] = (play(daemon.port, made), tls.log_of(daemon, before))
            seen[kind] = answers
    assert seen["jetbroker"] == seen["nats-server"]


def test_the_authority_does_not_come_behind_the_certificate(tmp_path: Path) -> None:
    """Clients that do not trust it say another thing then."""
    made = certificates.make(tmp_path)
    for kind in ("nats-server", "jetbroker"):
        with tls.server(kind, tmp_path, config("tls", made)) as daemon:
            with pytest.raises(ssl.SSLCertVerificationError) as refused_by_client:
                talk(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), daemon.port)
            assert refused_by_client.value.verify_message == "unable to get local issuer certificate"


def test_handshakes_are_throttled(tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    for kind in ("nats-server", "jetbroker"):
        with tls.server(kind, tmp_path, config("throttled", made)) as daemon:
            # a window of a second may end in between: then one more gets through
            assert too_many(daemon.port, made) in ([False, True, True], [False, False, True])
            daemon.wait_for("due to TLS rate limiting")


def test_start_tells_what_clients_have_to_do(tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    for name in ("tls", "first", "mixed_first"):
        told = []
        for kind in ("nats-server", "jetbroker"):
            with tls.server(kind, tmp_path, config(name, made)) as daemon:
                lines = [line.partition("] ")[2].split(" ", 2)[2].partition(" on 127")[0] for line in daemon.log]
                told.append([line for line in lines if "for client connections" in line or "Handshake First" in line])
        assert told[0] == told[1]
        assert told[1]
