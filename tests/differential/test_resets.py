"""How a connection ends for who said something wrong: its input was read (an end), or was not (a reset)."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from tests.differential.conftest import Pair
from tests.support.process import STOP_TIMEOUT_S

pytestmark = pytest.mark.differential

CONFIG = "max_payload: 1000\nmax_control_line: 1024\n"
TOO_LARGE = b"-ERR 'Maximum Payload Violation'\r\n"
UNKNOWN = b"-ERR 'Unknown Protocol Operation'\r\n"
TOO_LONG = b"-ERR 'maximum control line exceeded'\r\n"


def last_words(port: int, sent: bytes) -> tuple[bytes, str]:
    """What a client that has logged in hears after `sent`, and how its connection ends."""
    with socket.create_connection(("127.0.0.1", port), timeout=STOP_TIMEOUT_S) as client:
        client.sendall(b'CONNECT {"verbose":false,"headers":true}\r\nPING\r\n')
        heard = b""
        while not heard.endswith(b"PONG\r\n"):
            heard += client.recv(65536)
        heard = b""
        client.sendall(sent)
        try:
            while received := client.recv(65536):
                heard += received
        except ConnectionResetError:
            return heard, "reset"
        return heard, "end"


@pytest.mark.parametrize(
    ("sent", "answer", "end"),
    [
        (b"PUB foo 1001\r\n", TOO_LARGE, "end"),
        (b"PUB foo 1001\r\n" + b"x" * 100, TOO_LARGE, "end"),
        (b"PUB foo 1001\r\n" + b"x" * 1001 + b"\r\n", TOO_LARGE, "reset"),
        (b"PUB foo 30000\r\n" + b"x" * 30_000 + b"\r\n", TOO_LARGE, "reset"),
        (b"HPUB foo 12 1001\r\nNATS/1.0\r\n\r\n" + b"x" * 989 + b"\r\n", TOO_LARGE, "reset"),
        (b"GARBAGE" + b"x" * 100 + b"\r\n", UNKNOWN, "end"),
        (b"GARBAGE" + b"x" * 1000 + b"\r\n", UNKNOWN, "reset"),
        (b"PUB foo " + b"x" * 3000 + b"\r\n", TOO_LONG, "reset"),
    ],
    ids=["size", "begun", "whole", "much", "headers", "garbage", "more garbage", "line"],
)
def test_input_that_nobody_reads_ends_with_a_reset_behind_the_error(
    pair_of: Callable[[str], Pair], sent: bytes, answer: bytes, end: str
) -> None:
    pair = pair_of(CONFIG)
    assert last_words(pair.reference.port, sent) == (answer, end)
    assert last_words(pair.broker.port, sent) == (answer, end)


def test_a_reset_waits_for_what_was_delivered_before(pair_of: Callable[[str], Pair]) -> None:
    published = b"SUB foo 1\r\n" + b"PUB foo 900\r\n%b\r\n" % (b"x" * 900) * 200
    port = pair_of(CONFIG).broker.port
    heard, _ = last_words(port, published + b"PUB foo 1001\r\n" + b"y" * 1001)
    assert heard.count(b"MSG foo 1 900\r\n") == 200
    assert heard.endswith(TOO_LARGE)
