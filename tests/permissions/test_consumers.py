"""What a user may not receive is kept from it when a consumer sends it, and does not hold up what follows."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.support.daemon import Daemon, Raw

CONFIG = """
jetstream { store_dir: "%s" }
authorization { users = [
  { user: u, password: p, permissions { subscribe: { deny: ["orders.secret", "orders.x q"] } } }
  { user: all, password: p }
] }
"""
LOGIN = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"user":"%b","pass":"p"}\r\n'


def ask(client: Raw, api: str, body: dict[str, object]) -> None:
    data = json.dumps(body).encode()
    client.send(b"PUB $JS.API.%b re %d\r\n%b\r\n" % (api.encode(), len(data), data))
    answer = client.until(b"}\r\n")
    assert b'"error"' not in answer, answer


def test_a_denied_message_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text(CONFIG % tmp_path)
    with Daemon("-c", str(tmp_path / "conf")) as daemon, daemon.open() as admin, daemon.open() as reader:
        admin.exchange(LOGIN % b"all" + b"SUB re 1\r\n")
        reader.exchange(LOGIN % b"u" + b"SUB orders.> 9\r\nUNSUB 9\r\nSUB in.plain 1\r\nSUB in.queue q 2\r\n")
        ask(admin, "STREAM.CREATE.O", {"name": "O", "subjects": ["orders.*"], "storage": "memory"})
        for name in (b"a", b"secret", b"x", b"b"):
            admin.exchange(b"PUB orders.%b 0\r\n\r\n" % name)
        for inbox, queue in (("in.plain", {}), ("in.queue", {"deliver_group": "q"})):
            config = {"deliver_subject": inbox, "ack_policy": "none", **queue}
            ask(admin, "CONSUMER.CREATE.O", {"stream_name": "O", "config": config})
        received = reader.until(b"MSG orders.b 1 ") + reader.until(b"MSG orders.b 2 ")
        assert sorted(set(re.findall(rb"MSG orders\.(\w+) (\d) ", received))) == [
            (b"a", b"1"),
            (b"a", b"2"),
            (b"b", b"1"),
            (b"b", b"2"),
            (b"x", b"1"),
        ]
