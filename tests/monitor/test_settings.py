"""Where the port listens, what starts refuse, accounts and logins, and that secrets stay secret."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from tests.support.daemon import ANY_PORT, Daemon, Raw, run
from tests.support.http import get, get_json, monitor_port
from tests.support.process import ROOT, ServerProcess, jetbroker

SECRETS = ("alice-CANARY-1", "wrong-CANARY-2", "token-CANARY-3", "$2b$04$CANARY")
CONFIG = f"""
http: "127.0.0.1:-1"
http_base_path: "/ops/nats/"
max_closed_clients: 3
server_tags: [ "eu", "test" ]
accounts {{
  A {{ users: [ {{ user: alice, password: "{SECRETS[0]}" }} ] }}
  B {{ users: [ {{ user: bob, password: "{SECRETS[3]}......................................" }} ] }}
}}
"""
ENDPOINTS = ("", "/varz", "/connz?auth=1&subs=detail&state=all", "/subsz?subs=1", "/jsz?config=1&streams=1", "/healthz")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    config = tmp_path_factory.mktemp("config") / "monitored.conf"
    config.write_text(CONFIG)
    with jetbroker("-c", str(config)) as running:
        yield running


async def alice(server: ServerProcess, **options: Any) -> Client:
    return await nats.connect(server.url, user="alice", password=SECRETS[0], allow_reconnect=False, **options)


async def test_base_path(server: ServerProcess) -> None:
    port = monitor_port(server)
    assert get_json(port, "/ops/nats/varz")["http_base_path"] == "/ops/nats/"
    assert get(port, "/ops/nats").status == 200
    for path in ("/varz", "/", "/ops/nats/", "/ops", "/ops/natsvarz", "/ops/nats/varz/"):
        assert get(port, path).status == 404, path


async def test_logins_and_accounts_are_shown_where_asked_for(server: ServerProcess) -> None:
    port = monitor_port(server)
    client = await alice(server, name="shown")
    try:
        (row,) = get_json(port, "/ops/nats/connz?auth=1&user=alice")["connections"]
        assert (row["authorized_user"], row["account"], row["name_tag"]) == ("alice", "A", "A")
        assert get_json(port, "/ops/nats/connz?acc=A")["num_connections"] == 1
        assert get_json(port, "/ops/nats/connz?acc=B")["connections"] == []
        assert get_json(port, "/ops/nats/connz?user=bob")["total"] == 1
        assert get_json(port, "/ops/nats/varz")["auth_required"] is True
        assert get_json(port, "/ops/nats/varz")["tags"] == ["eu", "test"]
    finally:
        await client.close()


def refused(server: ServerProcess, connect: dict[str, str]) -> None:
    with Raw(server.port) as raw:
        raw.send(b"CONNECT %b\r\nPING\r\n" % json.dumps(connect).encode())
        assert b"Authorization Violation" in raw.to_end()


async def test_no_endpoint_and_no_log_line_shows_a_secret(server: ServerProcess) -> None:
    port = monitor_port(server)
    client = await alice(server)
    try:
        refused(server, {"user": "mallory", "pass": SECRETS[1], "name": "m"})
        refused(server, {"auth_token": SECRETS[2], "name": "t"})
        seen = "".join(get(port, f"/ops/nats{path}").body.decode() for path in ENDPOINTS) + "\n".join(server.log)
    finally:
        await client.close()
    assert "mallory" in seen
    assert "[REDACTED]" in seen
    assert "CANARY" not in seen
    rows = {
        row.get("authorized_user"): row for row in get_json(port, "/ops/nats/connz?state=closed&auth=1")["connections"]
    }
    assert rows["mallory"]["reason"] == "Authentication Failure"
    assert "account" not in rows["mallory"]


async def test_closed_connections_are_bounded(server: ServerProcess) -> None:
    port = monitor_port(server)
    last = ""
    for number in range(6):
        last = f"bounded{number}"
        await (await alice(server, name=last)).close()
    async with asyncio.timeout(10):
        while True:
            found = get_json(port, "/ops/nats/connz?state=closed")
            assert found["total"] <= 3
            if any(row.get("name") == last for row in found["connections"]):
                break
            await asyncio.sleep(0.01)


def test_log_line_ports_file_and_order(tmp_path: Path) -> None:
    with jetbroker("-js", "-sd", str(tmp_path / "store"), "-m", "-1", "--ports_file_dir", str(tmp_path)) as server:
        lines = [line.partition("] ")[2] for line in server.log]
        port = monitor_port(server)
        starts = [at for at, line in enumerate(lines) if f"Starting http monitor on 127.0.0.1:{port}" in line]
        assert starts
        assert starts[0] < next(at for at, line in enumerate(lines) if "Starting JetStream" in line)
        (file,) = tmp_path.glob("*.ports")
        assert json.loads(file.read_text()) == {
            "nats": [f"nats://127.0.0.1:{server.port}"],
            "monitoring": [f"http://127.0.0.1:{port}"],
        }


def test_port_in_use_ends_the_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run(*ANY_PORT, "-js", "-sd", str(tmp_path / "store"), "-m", str(port), cwd=tmp_path)
    assert result.returncode == 1
    assert (
        "[FTL] Can't start monitoring: can't listen to the monitor port: "
        f"listen tcp 127.0.0.1:{port}: bind: address already in use"
    ) in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("port", ["70000", "-2"])
def test_ports_that_are_none(port: str, tmp_path: Path) -> None:
    result = run(*ANY_PORT, "-m", port, cwd=tmp_path)
    assert result.returncode == 1
    assert f"Can't start monitoring: can't listen to the monitor port: listen tcp: address {port}: invalid port" in (
        result.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [((), ""), (("-m", "0"), ""), ((), "http_port: 0")],
)
def test_no_port_no_monitoring(arguments: tuple[str, ...], text: str, tmp_path: Path) -> None:
    config = tmp_path / "quiet.conf"
    config.write_text(f"debug: false\n{text}\n")
    with jetbroker("-c", str(config), *arguments) as server:
        assert not [line for line in server.log if "http monitor" in line]


def test_a_start_loads_no_http() -> None:
    code = "import sys, jetbroker.daemon.broker, jetbroker.monitor.monitor; sys.exit('h11' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize(
    "key", ["http_port: -1", "monitor_port: -1", 'http: "127.0.0.1:-1"', "http: -1", 'http: ":-1"']
)
def test_keys(key: str, tmp_path: Path) -> None:
    config = tmp_path / "keys.conf"
    config.write_text(f"{key}\n")
    with jetbroker("-c", str(config)) as server:
        assert get_json(monitor_port(server), "/healthz") == {"status": "ok"}


def test_example_configuration() -> None:
    result = run("-t", "-c", "configs/monitoring.conf")
    assert result.returncode == 0, result.stderr
    assert "is valid" in result.stderr


async def test_lame_ducks_are_not_healthy_but_still_watched(tmp_path: Path) -> None:
    daemon = Daemon("-js", "-sd", str(tmp_path), "-m", "-1")
    with daemon:
        port = monitor_port(daemon)
        client = await nats.connect(daemon.url, allow_reconnect=False)
        js = client.jetstream()
        await js.add_stream(name="S", subjects=["s"])
        await js.publish("s", b"x")
        assert get_json(port, "/healthz") == {"status": "ok"}
        daemon.send(signal.SIGUSR2)
        daemon.wait_for("JetStream Shutdown")
        reply = get(port, "/healthz")
        assert reply.status == 500
        assert reply.json() == {
            "status": "error",
            "error": "failed to be ready for connections after 1ms: server",
        }
        assert get(port, "/healthz?details=1").json()["errors"][0]["type"] == "CONNECTION"
        for target in ("/varz", "/connz", "/subsz?subs=1", "/jsz?consumers=1"):
            assert get(port, target).status == 200, target
        await client.close()
        daemon.send(signal.SIGINT)
        assert not [line for line in daemon.log if "[ERR]" in line]
