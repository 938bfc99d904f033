"""Requests that come before the engine is loaded: it is loaded behind the start, and they wait for it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.daemon import CONNECT, Daemon


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
