"""Frames on the wire: the same answers as nats-server's, whole, in pieces, compressed or not."""

from __future__ import annotations

import re
import zlib
from random import Random

import pytest

from jetbroker.connections.frames import Inflater
from tests.support.daemon import Daemon
from tests.support.websocket import (
    DEFLATE,
    NO_MASKING,
    Received,
    WebsocketClient,
    binary,
    compressed,
    deflate,
    frame,
    websocket_port,
)
from tests.websocket.conftest import Pair, StartPair

CONFIG = """
websocket { listen: "127.0.0.1:-1", no_tls: true, compression: true }
max_payload: 100000
"""
BROWSER = "User-Agent: Mozilla/5.0 (X11)\r\n"
SAFARI = "User-Agent: Mozilla/5.0 Version/17 Safari/605\r\n"
CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"protocol":0}\r\n'
ECHO = CONNECT + b"SUB a 1\r\nPUB a 70\r\n" + b"hello" * 14 + b"\r\nPING\r\n"
LARGE = CONNECT + (b"PUB a 99990\r\n" + b"x" * 99990 + b"\r\n") * 12 + b"PING\r\n"
BYE = b"\x03\xe8bye"
TEXT, BINARY, CONTINUED, PING, PONG, CLOSE = 1, 2, 0, 9, 10, 8


def fragments(*parts: bytes, between: bytes = b"") -> bytes:
    """One message in as many frames, with another frame between any two of them."""
    last = len(parts) - 1
    made = (frame(CONTINUED if at else BINARY, part, final=at == last) for at, part in enumerate(parts))
    return between.join(made)


def final_block(data: bytes) -> bytes:
    """Compressed as a stream that ends."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    return deflater.compress(data) + deflater.flush()


RIGHT = {
    "binary": (binary(ECHO), ""),
    "text": (frame(TEXT, ECHO), ""),
    "one command in several messages": (binary(ECHO[:5]) + frame(TEXT, ECHO[5:100]) + binary(ECHO[100:]), ""),
    "fragments": (fragments(ECHO[:7], b"", ECHO[7:90], ECHO[90:]), ""),
    "control frames between fragments": (fragments(ECHO[:9], ECHO[9:], between=frame(PING, b"hi")), ""),
    "empty messages": (binary(b"") + fragments(b"", b"") + binary(ECHO), ""),
    "ping": (frame(PING, b"abc"), ""),
    "empty ping": (frame(PING, b""), ""),
    "longest ping": (frame(PING, b"a" * 125), ""),
    "pong": (frame(PONG, b"abc"), ""),
    "length in two bytes for no reason": (bytes([0x82, 0xFE, 0, 6, 0, 0, 0, 0]) + b"PING\r\n", ""),
    "length in eight bytes for no reason": (bytes([0x82, 0xFF, *bytes(7), 6, 0, 0, 0, 0]) + b"PING\r\n", ""),
    "length in two bytes": (binary(ECHO * 2), ""),
    "long frame": (binary(LARGE), ""),
    "long fragments": (fragments(LARGE[:70_001], LARGE[70_001:]), ""),
    "no masking": (frame(BINARY, ECHO, masked=False) + frame(PING, b"x", masked=False), NO_MASKING),
    "long frame, no masking": (frame(BINARY, LARGE, masked=False), NO_MASKING),
    "compressed": (compressed(ECHO), DEFLATE),
    "compressed and not": (compressed(CONNECT) + binary(ECHO) + compressed(ECHO[len(CONNECT) :]), DEFLATE),
    "compressed fragments": (
        frame(BINARY, deflate(ECHO)[:9], final=False, reserved=4) + frame(CONTINUED, deflate(ECHO)[9:]),
        DEFLATE,
    ),
    "compressed fragments, empty ones": (
        frame(BINARY, b"", final=False, reserved=4)
        + frame(CONTINUED, deflate(ECHO), final=False)
        + frame(PING, b"")
        + frame(CONTINUED, b""),
        DEFLATE,
    ),
    "compressed stream that ends": (frame(BINARY, final_block(ECHO), reserved=4), DEFLATE),
    "compressed stream that ends, and more": (frame(BINARY, final_block(ECHO) + b"zz", reserved=4), DEFLATE),
    "compressed nothing": (frame(BINARY, b"\0", reserved=4) + binary(ECHO), DEFLATE),
    "not compressed though it may be": (binary(ECHO), DEFLATE),
    "browser": (binary(CONNECT + b"SUB a 1\r\nPUB a 9000\r\n" + b"y" * 9000 + b"\r\nPING\r\n"), BROWSER),
    "close without a status": (binary(ECHO) + frame(CLOSE, b""), ""),
    "close": (binary(ECHO) + frame(CLOSE, b"\x03\xe8"), ""),
    "close, 3000": (frame(CLOSE, b"\x0b\xb8"), ""),
    "close, 1012": (frame(CLOSE, b"\x03\xf4hi"), ""),
    "close, text is not UTF-8": (frame(CLOSE, b"\x03\xe8\xff\xfe"), ""),
    "data behind close": (frame(CLOSE, b"\x03\xe8") + binary(ECHO), ""),
}
WRONG = {
    "ping too long": (frame(PING, b"a" * 126), ""),
    "ping in fragments": (frame(PING, b"a", final=False), ""),
    "ping marked as compressed": (frame(PING, b"a", reserved=4), ""),
    "compressed ping": (frame(PING, b"a", reserved=4), DEFLATE),
    "second reserved bit": (frame(BINARY, ECHO, reserved=2), ""),
    "third reserved bit": (frame(BINARY, ECHO, reserved=1), DEFLATE),
    "compressed, not agreed": (compressed(ECHO), ""),
    "not masked": (frame(BINARY, ECHO, masked=False), ""),
    "unknown opcode": (frame(3, b"x"), ""),
    "unknown control opcode": (frame(11, b"x"), ""),
    "continues nothing": (frame(CONTINUED, ECHO), ""),
    "continues what is over": (fragments(ECHO, b"") + frame(CONTINUED, b""), ""),
    "new message inside another": (frame(BINARY, b"PI", final=False) + binary(b"NG\r\n"), ""),
    "continuation marked as compressed": (
        frame(BINARY, b"PI", final=False) + frame(CONTINUED, b"NG\r\n", reserved=4),
        DEFLATE,
    ),
    "length with 64 bits": (frame(BINARY, b"", size=1 << 63), ""),
    "close with one byte": (frame(CLOSE, b"a"), ""),
    **{f"close, {code}": (frame(CLOSE, code.to_bytes(2, "big")), "") for code in (0, 999, 1004, 1005, 1006, 1015)},
    **{f"close, {code}": (frame(CLOSE, code.to_bytes(2, "big")), "") for code in (1016, 2000, 2999, 5000, 65535)},
    "too much compressed": (compressed(CONNECT + b"+OK\r\n" * 200_000), DEFLATE),
}
LAST_WORDS = {
    "unknown command": b"FOO\r\n",
    "payload too large": b"PUB a 200000\r\n",
    "line too long": b"SUB " + b"x" * 5000,
    "protocol": b'CONNECT {"protocol":9}\r\n',
}


@pytest.fixture(scope="module")
def pair(start_pair: StartPair) -> Pair:
    return start_pair(CONFIG)


def play(daemon: Daemon, sent: bytes, more: str) -> Received:
    """What comes behind INFO when this is sent, and a close frame behind it."""
    with WebsocketClient.open(websocket_port(daemon), more) as client:
        client.send(sent + frame(CLOSE, BYE, masked=more != NO_MASKING))
        return client.to_end()


@pytest.mark.differential
@pytest.mark.parametrize("name", RIGHT)
def test_right(pair: Pair, name: str) -> None:
    ours, theirs = (play(daemon, *RIGHT[name]) for daemon in pair)
    assert ours == theirs
    assert ours.closed


@pytest.mark.differential
@pytest.mark.parametrize("name", WRONG)
def test_wrong(pair: Pair, name: str) -> None:
    """nats-server often loses the close frame that it wants to send; what it logs tells."""
    logged = []
    for daemon in pair:
        after = len(daemon.log)
        received = play(daemon, *WRONG[name])
        logged.append(re.sub(r".*- read error: ", "", daemon.wait_for("read error", after)))
        assert "Read Error" in daemon.wait_for("closed", after)
        if daemon is pair[0] or received.code:
            code = 1009 if logged[-1] == "maximum payload exceeded" else 1002
            assert (received.code, received.text, received.closed) == (code, logged[-1], True)
    assert logged[0] == logged[1]


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", deflate(ECHO) + b"\xff\xff\xff\xff"])
def test_what_cannot_be_inflated(pair: Pair, data: bytes) -> None:
    after = len(pair[0].log)
    assert play(pair[0], frame(BINARY, data, reserved=4), DEFLATE).code == 1002
    assert "read error: flate: corrupt input" in pair[0].wait_for("read error", after)


@pytest.mark.differential
@pytest.mark.parametrize("name", LAST_WORDS)
def test_last_words_of_the_protocol(pair: Pair, name: str) -> None:
    """-ERR, then a close frame with the reason. nats-server loses both when a command is unknown."""
    ours, theirs = (play(daemon, binary(CONNECT + LAST_WORDS[name]), "") for daemon in pair)
    assert ours.data.startswith(b"-ERR '")
    if name == "unknown command":
        assert (ours.code, ours.text) == (1002, "Protocol Violation")
    else:
        assert ours == theirs


@pytest.mark.differential
@pytest.mark.parametrize("more", [BROWSER, BROWSER + DEFLATE, SAFARI + DEFLATE, DEFLATE, ""])
def test_frame_sizes(pair: Pair, more: str) -> None:
    """Browsers get small frames; Safari reads no fragments of compressed messages."""
    noise = Random(1).randbytes(9000).replace(b"\r", b"r")  # cannot be compressed
    largest = []
    for daemon in pair:
        with WebsocketClient.open(websocket_port(daemon), more) as client:
            client.exchange(CONNECT + b"SUB a 1\r\n")
            client.frame_sizes.clear()
            client.exchange(b"PUB a 9000\r\n" + noise + b"\r\n")
            largest.append(max(client.frame_sizes))
    small = "Mozilla" in more and not (DEFLATE in more and "Safari" in more)
    assert [size <= 4096 for size in largest] == [small, small]


@pytest.mark.parametrize("name", ["fragments", "control frames between fragments", "compressed fragments", "close"])
def test_every_cut(pair: Pair, name: str) -> None:
    sent, more = RIGHT[name]
    whole = play(pair[0], sent, more)
    for at in range(1, len(sent)):
        with WebsocketClient.open(websocket_port(pair[0]), more) as client:
            client.send_pieces((sent[:at], sent[at:] + frame(CLOSE, BYE)))
            assert client.to_end() == whole


@pytest.mark.parametrize("name", ["one command in several messages", "compressed fragments, empty ones"])
def test_byte_by_byte(pair: Pair, name: str) -> None:
    sent, more = RIGHT[name]
    with WebsocketClient.open(websocket_port(pair[0]), more) as client:
        client.send_pieces(sent[at : at + 1] for at in range(len(sent)))
        client.send(frame(CLOSE, BYE))
        assert client.to_end() == play(pair[0], sent, more)


def test_large_messages_that_are_compressed(pair: Pair) -> None:
    """More than max_payload may come out of one message: a publish of that size would not fit otherwise."""
    publish = b"PUB a 100000\r\n" + b"x" * 100_000 + b"\r\n"
    with WebsocketClient.open(websocket_port(pair[0]), DEFLATE) as client:
        client.send(compressed(CONNECT + publish * 7 + b"PING\r\n"))
        assert client.until(b"PONG\r\n") == b"PONG\r\n"


@pytest.mark.differential
def test_shutdown_says_why(start_pair: StartPair) -> None:
    for daemon in start_pair(CONFIG):
        with WebsocketClient.open(websocket_port(daemon)) as client:
            client.exchange(CONNECT)
            daemon.stop()
            assert client.to_end() == Received(b"", (), 1001, "Server Shutdown", True)


def test_what_follows_the_end_of_a_compressed_message_is_not_kept() -> None:
    inflater = Inflater(1000)
    inflater.add(final_block(b"hello"), last=False)
    assert inflater.read() == b"hello"
    for last in (False, False, True):
        inflater.add(b"more", last=last)
        assert inflater.hungry
    assert inflater.finished
