"""Answers of the monitoring port are bounded in bytes."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from jetbroker import limits
from jetbroker.monitor.query import BadRequest
from jetbroker.monitor.sources import Room
from tests.support.daemon import CONNECT, Daemon
from tests.support.http import get_json, monitor_port

SUBJECT = b"x." * 1990  # nearly a control line


def test_parts_of_an_answer_are_taken_while_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MONITOR_ANSWER_BYTES", 20)
    room = Room()
    assert room.take({"a": "0123456789"}) == {"a": "0123456789"}
    with pytest.raises(BadRequest, match="more than 20 bytes"):
        room.take("xx")


@pytest.mark.parametrize("path", ["/subsz?subs=1&limit=65536", "/connz?subs=detail"])
def test_an_answer_that_would_be_very_large_is_refused(tmp_path: Path, path: str) -> None:
    with Daemon("-m", "-1", "-sd", str(tmp_path)) as daemon, daemon.open() as client:
        client.exchange(CONNECT)
        for number in range(limits.MONITOR_ANSWER_BYTES // len(SUBJECT) + 1):
            client.send(b"SUB %b%d %d\r\n" % (SUBJECT, number, number))
        client.exchange(b"")
        port = monitor_port(daemon)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30)
        assert refused.value.code == 400
        assert b"ask for less of it" in refused.value.read()
        assert len(json.dumps(get_json(port, "/subsz?subs=1&limit=10"))) > 10 * len(SUBJECT)
