"""jetbroker.testing.Server: what users' own tests start."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import nats
import pytest

from jetbroker.testing import Server, ServerError
from tests.support import certificates


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


async def test_a_server_keeps_its_port_and_begins_anew() -> None:
    logins = "authorization { user: ann, password: sesame }"
    with Server(jetstream=True, config=logins) as server:
        url = server.url
        assert await streams_of(url, "S") == ["S"]
        server.kill()
        server.start()
        assert (server.url, await streams_of(url)) == (url, ["S"])
        server.reset()
        assert (server.url, await streams_of(url)) == (url, [])


async def streams_of(url: str, *made: str) -> list[str]:
    """The names of all streams, after these were made."""
    client = await nats.connect(url, user="ann", password="sesame", allow_reconnect=False)
    context = client.jetstream()
    for name in made:
        await context.add_stream(name=name, subjects=[name])
    found = [str(info.config.name) for info in await context.streams_info()]
    await client.close()
    return found


def test_tls_comes_from_the_configuration(tmp_path: Path) -> None:
    with Server(config=certificates.make(tmp_path).tls_block()) as server:
        assert server.url == f"tls://127.0.0.1:{server.port}"


def test_a_port_that_is_taken() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        with pytest.raises(ServerError, match=f"port {port} of 127.0.0.1 cannot be had: Address already in use"):
            Server(port=port)


FORKS = """
import os, sys
from jetbroker.testing import Server, ServerError
with Server(jetstream=True) as server:
    pid = os.fork()
    if not pid:
        for call in (server.reset, server.kill, server.start):
            try:
                call()
            except ServerError as error:
                print(error, flush=True)
        sys.exit(0)
    print(os.waitpid(pid, 0)[1], server.ended(), os.path.isdir(server.store_dir), flush=True)
"""


def test_a_fork_leaves_its_parent_s_server_alone() -> None:
    done = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    *told, parent = done.stdout.splitlines()
    assert len(told) == 3 and all("this is a fork of it" in line for line in told)
    assert parent == "0 None True"


LEAKS = """
from jetbroker.testing import Server
server = Server(jetstream=True).start()
print(server.pid, server.store_dir)
"""


def test_a_program_that_leaks_a_server_ends_it_and_leaves_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", LEAKS], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0
    pid, folder = done.stdout.split()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
    assert not Path(folder).parent.exists()


def test_a_server_that_is_forgotten_ends_with_a_warning() -> None:
    server = Server().start()
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    assert connection.recv(5) == b"INFO "  # it has been taken: else it would be reset
    with pytest.warns(ResourceWarning, match="never closed"):
        del server
        gc.collect()
    with connection:
        while connection.recv(4096):
            pass


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
