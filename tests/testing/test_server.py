"""jetbroker.testing.Server: what users' own tests start."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
from pathlib import Path

import pytest

from jetbroker.testing import Server, ServerError


def info(server: Server) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        return connection.recv(4096)


def test_a_server_listens_and_ends() -> None:
    with Server("-n", "tested", jetstream=True) as server:
        assert server.url == f"nats://127.0.0.1:{server.port}"
        assert b'"server_name":"tested"' in info(server)
        assert Path(server.store_dir, "jetstream").is_dir()
        assert server.stop() == 0
        assert server.stop() == 0
    assert not Path(server.store_dir).exists()


def test_the_store_stays_for_the_next_start(tmp_path: Path) -> None:
    server = Server(jetstream=True, store_dir=str(tmp_path))
    server.start()
    assert server.kill() == -9
    server.start()
    assert info(server).startswith(b"INFO ")
    assert server.stop() == 0


def test_a_server_that_ends_by_itself_is_asked_how() -> None:
    with Server() as server:
        assert server.running
        assert server.ended() is None
        os.kill(server.pid, signal.SIGKILL)
        assert server.ended(10.0) == -signal.SIGKILL
        assert server.kill() == -signal.SIGKILL
        assert not server.running


def test_a_server_that_does_not_start() -> None:
    with pytest.raises(ServerError, match="server name cannot contain spaces"):
        Server("-n", "a b").start()
    with pytest.raises(ServerError, match="not running"):
        Server().pid  # noqa: B018


def test_started_as_nats_server(tmp_path: Path) -> None:
    script = shutil.which("jetbroker", path=os.path.dirname(sys.executable))
    if script is None:
        pytest.skip("jetbroker is not installed in this environment")
    link = tmp_path / "nats-server"
    link.symlink_to(script)
    with Server(f"--ports_file_dir={tmp_path}", command=[str(link)]) as server:
        assert (tmp_path / f"nats-server_{server.pid}.ports").exists()
