"""The synchronous client: what it makes of answers, silence and nonsense."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jetbroker.client.requester import Requester
from jetbroker.client.server import ClientError, Server
from tests.support import process

INFO = b'INFO {"headers":true,"max_payload":1024}\r\n'


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """A server by hand that says `answer` to the first publish; `%s` in it stands for the reply subject."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as lines:
            connection.sendall(INFO)
            for line in lines:
                if line.startswith(b"PING"):
                    connection.sendall(b"PING\r\nPONG\r\n")
                elif line.startswith((b"PUB", b"HPUB")):
                    connection.sendall(answer.replace(b"%s", line.split()[2]))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"nats://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def test_an_answer_is_an_object_and_a_refusal_has_an_error() -> None:
    with process.jetbroker() as server, Requester(Server((server.url,))) as requester:
        assert requester.request("nobody.there", b"")["error"]["description"] == "nobody.there: nobody listens"
        with pytest.raises(ClientError, match="nobody listens"):
            requester.api("INFO", {})
    with answering(b'PING\r\nMSG _INBOX.x.0 1 2\r\n{}\r\nMSG %s 1 8\r\n{"of":1}\r\n') as url:
        with Requester(Server((url,))) as requester:
            assert requester.request("a", b"", b"NATS/1.0\r\nb: c\r\n\r\n") == {"of": 1}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"MSG %s 1 2\r\n[]\r\n", "a: the answer is no JSON object"),
        (b"MSG %s 1 x\r\n\r\n", "sends a message without a size"),
        (b"HMSG %s 1 9 2\r\n\r\n", "sends a message without a size"),
        (b"MSG %s 1 99999999999\r\n\r\n", "sends a message without a size"),
        (b"MSG else 1 2\r\n{}\r\n", "sends what nobody asked for"),
        (b"-ERR 'Permissions Violation'\r\n", "says 'Permissions Violation'"),
    ],
)
def test_nonsense_is_one_sentence(answer: bytes, told: str) -> None:
    with answering(answer) as url, Requester(Server((url,))) as requester:
        with pytest.raises(ClientError, match=told):
            requester.request("a", b"")


def test_silence_has_an_end() -> None:
    with answering(b"") as url, Requester(Server((url,)), timeout=0.2) as requester:
        with pytest.raises(ClientError, match=r"a: no answer within 0\.2 s"):
            requester.request("a", b"")


def test_a_lost_connection_is_one_sentence() -> None:
    with process.jetbroker() as server, Requester(Server((server.url,))) as requester:
        server.kill()
        with pytest.raises(ClientError, match=f"^{server.url}: "):
            requester.request("a", b"")


@pytest.mark.parametrize(
    "url", ["", "localhost:4222", "http://x", "nats://", "nats://[x", "nats://h:99999999", "nats://a..b"]
)
def test_a_wrong_url_is_told(url: str) -> None:
    with pytest.raises(ClientError, match="is no URL of a server"):
        Server((url,))
