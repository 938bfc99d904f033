"""Traces follow a reload: where an account has them published, and into which others they lead."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.support.daemon import Daemon

CONFIG = """
accounts {{
  A {{ users: [{{user: a, password: a}}], exports: [{{stream: "ex.>"}}]
  {traces} }}
  B {{ users: [{{user: b, password: b}}], imports: [{{stream: {{account: A, subject: "ex.>"}} {allowed} }}] }}
}}
"""
CONNECT = b'CONNECT {"verbose":false,"user":"%b","pass":"%b","headers":true}\r\n'
SAMPLED = b"NATS/1.0\r\ntraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n\r\n"


def steps(heard: bytes) -> list[list[str]]:
    """The types of each event's steps."""
    events = [json.loads(line) for line in heard.split(b"\r\n") if line.startswith(b'{"server"')]
    return [[step["type"] for step in event["events"]] for event in events]


def test_traces_follow_a_reload(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"

    def configure(traces: str, allowed: str) -> None:
        path.write_text(CONFIG.format(traces=traces, allowed=allowed))

    configure("", "")
    with Daemon("-c", str(path)) as daemon, daemon.open() as publisher, daemon.open() as other:
        publisher.exchange(CONNECT % (b"a", b"a") + b"SUB t.> 1\r\n")
        other.exchange(CONNECT % (b"b", b"b") + b"SUB ex.> 1\r\n")

        def traced() -> list[list[str]]:
            publisher.send(b"HPUB ex.a %d %d\r\n%b\r\n" % (len(SAMPLED), len(SAMPLED), SAMPLED))
            heard = publisher.exchange(b"")
            assert b"traceparent" in other.exchange(b"")  # it is delivered in any case
            return steps(heard)

        def reload(traces: str, allowed: str) -> None:
            configure(traces, allowed)
            lines = len(daemon.log)
            daemon.send(signal.SIGHUP)
            daemon.wait_for("Reloaded server configuration", lines)

        assert traced() == []
        reload("msg_trace: t.x", "")
        assert traced() == [["in", "se"]]
        reload("msg_trace: {dest: t.y, sampling: 100}", ", allow_trace: true")
        assert traced() == [["in", "se", "eg"]]
        reload("", ", allow_trace: true")
        assert traced() == []
