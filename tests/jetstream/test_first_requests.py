"""Requests that come before the engine is loaded: it is loaded behind the start, and they wait for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import CONNECT, Daemon
from tests.support.leaf_peer import Peer, dial
from tests.support.process import free_port


def test_a_client_that_listens_to_the_api_hears_the_first_request_once(tmp_path: Path) -> None:
    body = json.dumps({"name": "S", "subjects": ["s"]}).encode()
    with Daemon("-js", "-sd", str(tmp_path)) as daemon, daemon.open() as client:
        client.send(CONNECT + b"SUB answers 1\r\nSUB $JS.API.> 2\r\n")
        for request, data in ((b"STREAM.CREATE.S", body), (b"STREAM.NAMES", b"")):
            client.send(b"PUB $JS.API.%b answers %d\r\n%b\r\n" % (request, len(data), data))
        heard = b""
        while heard.count(b"MSG answers 1 ") < 2:
            heard += client.until(b"\r\n")
        heard += client.exchange(b"")
    assert heard.count(b"MSG $JS.API.STREAM.CREATE.S 2 ") == 1
    assert heard.count(b"MSG $JS.API.STREAM.NAMES 2 ") == 1


def test_a_pull_from_what_there_is_not_is_answered_once(tmp_path: Path) -> None:
    with Daemon("-js", "-sd", str(tmp_path)) as daemon, daemon.open() as client:
        client.send(CONNECT + b"SUB answers 1\r\nPUB $JS.API.CONSUMER.MSG.NEXT.S.C answers 0\r\n\r\n")
        client.send(b"PUB $JS.API.STREAM.NAMES answers 0\r\n\r\n")
        heard = b""
        while b"stream_names_response" not in heard:
            heard += client.until(b"\r\n")
        heard += client.exchange(b"")
    assert heard.count(b" 503") + heard.count(b"MSG answers 1 0\r\n") == 1


@pytest.fixture
def both_ports(tmp_path: Path) -> Iterator[tuple[Daemon, int]]:
    """A broker with JetStream, and its port for leafs."""
    port = free_port()
    path = tmp_path / "broker.conf"
    path.write_text(
        f'leafnodes: {{listen: "127.0.0.1:{port}"}}\n'
        f'jetstream: {{store_dir: "{tmp_path}", domain: hub}}\ndefault_js_domain: {{A: ""}}\n'
        "accounts: {A: {jetstream: enabled, users: [{user: a, password: a}]}}\nno_auth_user: a\n"
    )
    with Daemon("-c", str(path)) as daemon:
        yield daemon, port


def test_a_leaf_that_listens_to_the_api_hears_the_first_request_once(both_ports: tuple[Daemon, int]) -> None:
    daemon, port = both_ports
    leaf = Peer(dial(port), {port: "LEAF"})
    leaf.say(b'CONNECT {"user":"a","pass":"a","name":"leaf"}\r\nLS+ >\r\n')
    leaf.until_pong()
    with daemon.open() as client:
        client.send(CONNECT + b"SUB answers 1\r\nPUB $JS.API.STREAM.x answers 0\r\n\r\n")
        client.send(b"PUB $JS.API.STREAM.NAMES answers 0\r\n\r\n")
        heard = b""
        while heard.count(b"MSG answers 1 ") < 1:
            heard += client.until(b"\r\n")
    told = [line for line in leaf.until_pong() if line.startswith("LMSG $JS.API.")]
    leaf.close()
    assert told == ["LMSG $JS.API.STREAM.x answers 0|", "LMSG $JS.API.STREAM.NAMES answers 0|"]
