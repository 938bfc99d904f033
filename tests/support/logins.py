"""Configurations with logins, for jetbroker and nats-server alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bcrypt
import nats
import pytest
from nats.aio.client import Client

from tests.support.daemon import Daemon
from tests.support.process import find_nats_server

HASHED = bcrypt.hashpw(b"hashed-secret", bcrypt.gensalt(4)).decode()
ACCOUNTS = f"""
accounts {{
  A {{ users: [ {{user: ann, password: a}}, {{user: hal, password: "{HASHED}"}} ], jetstream: enabled }}
  B {{ users: [ {{user: bob, password: b}} ], jetstream: enabled }}
  C {{ users: [ {{user: cat, password: c}} ] }}
  SYS {{ users: [ {{user: sys, password: s}} ] }}
}}
system_account: SYS
"""
SERVERS = [
    "jetbroker",
    pytest.param(
        "nats-server", marks=pytest.mark.skipif(find_nats_server() is None, reason="no nats-server on this machine")
    ),
]


def server(kind: str, tmp_path: Path, config: str) -> Daemon:
    (tmp_path / "conf").write_text(config)
    arguments = ("-js", "-sd", str(tmp_path / "store"), "-c", str(tmp_path / "conf"))
    program = find_nats_server()
    if kind == "nats-server" and program is not None:
        return Daemon(*arguments, command=[program])
    return Daemon(*arguments)


async def connect(daemon: Daemon, **options: Any) -> Client:
    return await nats.connect(daemon.url, **{"allow_reconnect": False, "connect_timeout": 5, **options})
