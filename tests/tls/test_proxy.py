"""PROXY headers: read wherever they are cut, and answered as nats-server answers them."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetbroker.connections.proxy_header import ProxiedAddress, ProxyHeader, ProxyHeaderError
from tests.support import certificates, http, tls
from tests.support.process import find_nats_server
from tests.support.tls import HELLO, dial, normalised, to_end, until

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
INET = socket.inet_aton("10.1.2.3") + socket.inet_aton("10.0.0.1") + struct.pack(">HH", 5678, 4222)
INET6 = socket.inet_pton(socket.AF_INET6, "2001:db8::1") * 2 + struct.pack(">HH", 5678, 4222)
MAPPED = socket.inet_pton(socket.AF_INET6, "::ffff:1.2.3.4") * 2 + struct.pack(">HH", 5678, 4222)


def binary(command: int, family: int, data: bytes) -> bytes:
    return SIGNATURE + bytes([command, family]) + struct.pack(">H", len(data)) + data


GOOD = {
    b"PROXY TCP4 192.168.1.50 10.0.0.1 12345 4222\r\n": ProxiedAddress("192.168.1.50", 12345),
    b"PROXY TCP6 2001:db8::1 2001:db8::2 12345 4222\r\n": ProxiedAddress("2001:db8::1", 12345),
    b"PROXY TCP6 ::ffff:1.2.3.4 ::1 12345 4222\r\n": ProxiedAddress("1.2.3.4", 12345),
    b"PROXY UNKNOWN\r\n": None,
    b"PROXY UNKNOWN any words here\r\n": None,
    binary(0x21, 0x11, INET): ProxiedAddress("10.1.2.3", 5678),
    binary(0x21, 0x21, INET6): ProxiedAddress("2001:db8::1", 5678),
    binary(0x21, 0x21, MAPPED): ProxiedAddress("1.2.3.4", 5678),
    binary(0x21, 0x11, INET + b"\x04" + b"x" * 65000): ProxiedAddress("10.1.2.3", 5678),
    binary(0x20, 0x00, b""): None,
    binary(0x20, 0x00, b"abcdef"): None,
    binary(0x20, 0x11, INET): None,
    binary(0x21, 0x01, b"abc"): None,
}
BAD = [
    b"PROXY TCP4 nope 10.0.0.1 12345 4222\r\n",
    b"PROXY TCP4 1.1.1.1 10.0.0.1 99999 4222\r\n",
    b"PROXY TCP4 1.1.1.1 10.0.0.1 1 x\r\n",
    b"PROXY TCP4 1.1.1.1 10.0.0.1 1 -1\r\n",
    b"PROXY TCP4 1.1.1.1 10.0.0.1 1\r\n",
    b"PROXY TCP4 ::1 ::1 1 2\r\n",
    b"PROXY TCP6 1.1.1.1 ::1 1 2\r\n",
    b"PROXY TCP6 fe80::1%lo ::1 1 2\r\n",
    b"PROXY UDP4 1.1.1.1 1.1.1.1 1 2\r\n",
    b"PROXY unknown\r\n",
    b"PROXY \r\n",
    b"PROXY TCP4 " + b"1" * 200 + b"\r\n",
    binary(0x21, 0x00, b"abc"),
    binary(0x21, 0x12, INET),
    binary(0x21, 0x31, b"x" * 216),
    binary(0x11, 0x11, INET),
    binary(0x22, 0x11, INET),
    binary(0x21, 0x11, INET[:5]),
    binary(0x21, 0x21, INET6[:35]),
    SIGNATURE[:6] + b"XXXXXX\x21\x11\0\0",
]
NONE = [HELLO, b"\x16\x03\x01\x02\x00\x01", b"PROXI TCP4\r\n", b"\r\n\r\nPING\r\n"]
CUT = [
    b"",
    b"PRO",
    b"PROXY ",
    b"PROXY TCP",
    SIGNATURE[:8],
    SIGNATURE,
    SIGNATURE + b"\x21\x11",
    binary(0x21, 0x11, INET)[:16],
    binary(0x21, 0x11, INET)[:20],
    binary(0x21, 0x11, INET + b"x" * 500)[:100],
    binary(0x20, 0x11, INET + b"x" * 500)[:100],
]


def read(pieces: list[bytes]) -> ProxyHeader:
    header = ProxyHeader()
    for at, piece in enumerate(pieces):
        header.feed(piece)
        if header.finished:
            header.rest += b"".join(pieces[at + 1 :])
            break
    return header


def cuts(data: bytes) -> list[list[bytes]]:
    places = range(1, len(data)) if len(data) < 300 else [*range(1, 60), 1000, len(data) - 1]
    one_by_one = [data[at : at + 1] for at in range(min(len(data), 300))] + [data[300:]]
    return [[data], one_by_one, *([data[:at], data[at:]] for at in places)]


@pytest.mark.parametrize("data", GOOD)
def test_reads_wherever_it_is_cut(data: bytes) -> None:
    for pieces in cuts(data + HELLO):
        header = read(pieces)
        assert header.finished
        assert header.found
        assert header.address == GOOD[data]
        assert header.rest == HELLO


@pytest.mark.parametrize("data", BAD)
def test_refuses_wherever_it_is_cut(data: bytes) -> None:
    texts = set()
    for pieces in cuts(data + HELLO):
        with pytest.raises(ProxyHeaderError) as caught:
            read(pieces)
        texts.add(str(caught.value))
    assert len(texts) == 1


@pytest.mark.parametrize("data", NONE)
def test_what_is_no_header_is_handed_back(data: bytes) -> None:
    for pieces in cuts(data):
        header = read(pieces)
        assert header.finished
        assert not header.found
        assert header.rest == data


@given(st.lists(st.binary(max_size=40), max_size=6), st.sampled_from([b"", b"PROXY ", SIGNATURE, b"PROXY TCP4 "]))
def test_any_bytes_end_in_a_verdict(pieces: list[bytes], head: bytes) -> None:
    try:
        header = read([head, *pieces])
    except ProxyHeaderError:
        return
    if header.finished and not header.found:
        assert header.rest == head + b"".join(pieces)


# --- with servers ---


def answer(port: int, data: bytes) -> Any:
    connection = dial(port)
    info = until(connection, b"\r\n")
    connection.sendall(data + HELLO)
    return normalised(info), normalised(until(connection, b"connect_info"))


def cut_off(port: int, data: bytes) -> Any:
    connection = dial(port)
    info = until(connection, b"\r\n")
    connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)
    return normalised(info), normalised(to_end(connection))


@pytest.mark.differential
@pytest.mark.skipif(find_nats_server() is None, reason="no nats-server on this machine")
def test_same_as_nats_server(tmp_path: Path) -> None:
    seen = []
    for kind in ("nats-server", "jetbroker"):
        with tls.server(kind, tmp_path, "proxy_protocol: true\n", "-D") as daemon:
            assert any("PROXY protocol enabled for client connections" in line for line in daemon.log)
            answers: list[Any] = []
            for play, rows in ((answer, [*GOOD, *BAD, b""]), (cut_off, CUT)):
                for data in rows:
                    before = len(daemon.log)
                    answers.append((data, play(daemon.port, data), tls.log_of(daemon, before)))
            seen.append(answers)
    for reference, ours in zip(*seen, strict=True):
        assert ours == reference


@pytest.mark.differential
@pytest.mark.skipif(find_nats_server() is None, reason="no nats-server on this machine")
@pytest.mark.parametrize("more", ["", "allow_non_tls: true\n"])
def test_with_tls_the_same_as_nats_server(tmp_path: Path, more: str) -> None:
    made = certificates.make(tmp_path)
    head = b"PROXY TCP4 192.168.1.50 10.0.0.1 12345 4222\r\n"
    seen = []
    for kind in ("nats-server", "jetbroker"):
        config = made.tls_block() + "proxy_protocol: true\n" + more
        with tls.server(kind, tmp_path, config, "-D") as daemon:
            answers = [
                tls.talk(made.client_context(), daemon.port, head=head),
                tls.talk(made.client_context(), daemon.port, head=binary(0x21, 0x21, INET6)),
                tls.talk(made.client_context(), daemon.port),
                answer(daemon.port, head),
            ]
            seen.append(answers)
    assert seen[1] == seen[0]


def test_monitoring_shows_the_client_and_the_log_the_proxy(tmp_path: Path) -> None:
    with tls.server("jetbroker", tmp_path, 'proxy_protocol: true\nhttp: "127.0.0.1:-1"\n', "-D") as daemon:
        connection = dial(daemon.port)
        until(connection, b"\r\n")
        connection.sendall(b"PROXY TCP4 192.168.1.50 10.0.0.1 12345 4222\r\n" + HELLO)
        until(connection, b"connect_info")
        (row,) = http.get_json(http.monitor_port(daemon), "/connz")["connections"]
        assert (row["ip"], row["port"]) == ("192.168.1.50", 12345)
        ours = connection.getsockname()[1]
        connection.close()
        assert f"127.0.0.1:{ours} - cid:" in daemon.wait_for("Client connection closed")
