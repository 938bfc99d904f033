"""What test helpers and service units of clients expect of an executable named nats-server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import certificates
from tests.support.daemon import CONNECT, Daemon, run
from tests.support.http import get, monitor_port
from tests.support.process import ROOT, jetbroker

SCRIPT = f"#!{sys.executable}\nimport sys\nfrom jetbroker.daemon.cli import main\nsys.exit(main())\n"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """An executable of that name."""
    path = tmp_path / "bin" / "nats-server"
    path.parent.mkdir()
    path.write_text(SCRIPT)
    path.chmod(0o755)
    return path


def called(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{program.parent}:{os.environ['PATH']}"}
    return subprocess.run(
        ["nats-server", *arguments], env=environment, capture_output=True, text=True, timeout=30, check=False
    )


def test_it_goes_by_its_name(program: Path, tmp_path: Path) -> None:
    assert called(program, "--version").stdout == "nats-server: v2.14.5\n"
    assert called(program, "-v").stdout == "nats-server: v2.14.5\n"
    assert called(program, "-t").stderr.startswith("nats-server: must specify")
    assert called(program, "-sl", "nope=1").stderr == 'nats-server: unknown signal "nope"\n'
    (tmp_path / "conf").write_text("a b {\n")
    refused = called(program, "-c", str(tmp_path / "conf"))
    assert (refused.returncode, refused.stderr[:26]) == (1, "nats-server: Parse error o")
    good = tmp_path / "good"
    good.write_text("max_payload: 5\n")
    assert called(program, "-t", "-c", str(good)).stderr.startswith(f"nats-server: configuration file {good} is valid")


def test_it_starts_with_the_words_of_its_name(program: Path) -> None:
    with Daemon(command=[sys.executable, str(program)]) as server:
        assert "[INF] Starting nats-server" in server.log[0]


def test_the_ports_file_is_named_after_it(program: Path, tmp_path: Path) -> None:
    with Daemon("--ports_file_dir", str(tmp_path), command=[sys.executable, str(program)]) as server:
        assert (tmp_path / f"nats-server_{server.pid}.ports").exists()


def test_our_own_name_says_which_release() -> None:
    assert run("--version").stdout.startswith("jetbroker: v") and "nats-server v2.14.5" in run("--version").stdout


def test_lines_that_are_waited_for_come_in_order(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text('websocket { listen: "127.0.0.1:-1", no_tls: true }\n')
    arguments = ("-c", str(tmp_path / "conf"), "-m", "-1", "-js", "-sd", str(tmp_path / "store"))
    with Daemon(*arguments) as server:
        text = "\n".join(server.log)
        lines = [
            "[INF] Starting jetbroker",
            "[INF]   Git:      [",
            "[INF] Using configuration file: ",
            "[INF] Starting http monitor on 127.0.0.1:",
            f'Store Directory: "{tmp_path}/store/jetstream"',
            "[INF] Listening for websocket clients on ws://127.0.0.1:",
            f"[INF] Listening for client connections on 127.0.0.1:{server.port}",
            "[INF] Server is ready",
        ]
        assert sorted(lines, key=text.index) == lines
        assert get(monitor_port(server), "/varz").status == 200
        assert get(monitor_port(server), "/connz").status == 200


def test_ipv6_stands_in_brackets(tmp_path: Path) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    server = Daemon("-D", "--ports_file_dir", str(tmp_path))
    server._command = ["::1" if word == "127.0.0.1" else word for word in server._command]
    with server:
        assert any(f"Listening for client connections on [::1]:{server.port}" in line for line in server.log)
        (ports,) = tmp_path.iterdir()
        assert f'"nats://[::1]:{server.port}"' in ports.read_text()
        with socket.create_connection(("::1", server.port), timeout=10) as client:
            client.sendall(CONNECT + b"PING\r\n")
            assert b'"client_ip":"::1"' in client.recv(4096)
            server.wait_for("[::1]:")


@pytest.mark.parametrize("flag", ["--cluster", "--routes", "--cluster_name", "--cluster_listen"])
def test_flags_of_clusters_are_refused(flag: str) -> None:
    result = run(flag, "nats://127.0.0.1:5222")
    assert result.returncode == 1
    assert flag.lstrip("-") in result.stderr


def test_every_flag_of_the_helpers(tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    (tmp_path / "conf").write_text("ping_max: 3\n")
    flags = [
        "-config",
        str(tmp_path / "conf"),
        "--name=n",
        f"-sd={tmp_path}/store",
        "-js",
        "-DV",
        "--debug",
        "-m",
        "-1",
    ]
    flags += ["-user", "u", "-pass", "p", "-P", f"{tmp_path}/pid", "--log", f"{tmp_path}/log", "--tls"]
    flags += [f"--tlscert={made.server.cert}", "--tlskey", str(made.server.key), "-tlscacert", str(made.ca.cert)]
    process = subprocess.Popen(
        [sys.executable, "-m", "jetbroker", "-addr", "127.0.0.1", "-p", "-1", *flags, "--tlsverify"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        log = tmp_path / "log"
        while process.poll() is None and not (log.exists() and "Server is ready" in log.read_text()):
            time.sleep(0.01)
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        assert "TLS required for client connections" in log.read_text()
        assert (tmp_path / "pid").read_bytes() == str(process.pid).encode()
        done = run("--signal", f"quit={tmp_path}/pid")
        assert (done.returncode, done.stderr) == (0, "")
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
    assert (tmp_path / "pid").exists()


KEYS = """
port = -1
net: "127.0.0.1"
server_name "helper"
max_payload 64KB, ping_interval: "30s", ping_max: 3   # a comment
allow_non_tls: true
tls { cert_file: "CERT", key_file: "KEY", ca_file: "CA", verify: true, timeout: 2.5, handshake_first: 300ms }
accounts {
  A {
    users: [ { user: ann, password: p, permissions { publish: { allow: [">"] }, subscribe: { deny: "x" } } } ]
    jetstream { max_mem: 1MB, max_file: 1Gb, max_streams: 5, max_consumers: 5, max_ack_pending: 10
      memory_max_stream_bytes: 1MB, store_max_stream_bytes: 10MiB, max_stream_bytes: false }
    exports: [ { stream: "s.>" }, { service: "q" } ]
  }
  B { users: [ { user: bob, password: q } ], imports: [ { stream: { account: A, subject: "s.>" }, prefix: a }
      { service: { account: A, subject: q }, to: r } ] }
  SYS { users: [ { user: admin, password: s } ] }
}
system_account: SYS
no_auth_user: ann
jetstream { enabled: true, strict: true, store_dir: "STORE", max_mem_store: 64MiB, max_file_store: 10GiB
  domain: hub, max_buffered_size: 1MB, max_buffered_msgs: 10 }
websocket { port: -1, no_tls: true, compression: true }
// the end
"""


def test_every_key_of_the_helpers(tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    text = KEYS.replace("CERT", str(made.server.cert)).replace("KEY", str(made.server.key))
    text = text.replace("CA", str(made.ca.cert)).replace("STORE", str(tmp_path / "store"))
    (tmp_path / "conf").write_text(text)
    checked = run("-t", "-c", str(tmp_path / "conf"))
    assert checked.returncode == 0, checked.stderr
    with Daemon("-c", str(tmp_path / "conf")) as server:
        assert not [line for line in server.log if "[ERR]" in line]


def test_all_addresses_are_those_of_ipv4_and_ipv6() -> None:
    with jetbroker("-a", "0.0.0.0") as server:
        hosts = ["127.0.0.1", *(["::1"] if has_ipv6_loopback() else [])]
        for host in hosts:
            with socket.create_connection((host, server.port), timeout=5) as peer, peer.makefile("rb") as lines:
                info = json.loads(lines.readline().removeprefix(b"INFO "))
            assert (info["host"], info["client_ip"]) == ("0.0.0.0", host)


def has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_the_first_request_may_name_the_domain(tmp_path: Path) -> None:
    (tmp_path / "conf").write_text("jetstream { domain: ABC }\n")
    arguments = ["-js", "-sd", str(tmp_path / "store"), "-c", str(tmp_path / "conf")]
    with Daemon(*arguments) as daemon, daemon.open() as client:
        client.exchange(CONNECT + b"SUB r 1\r\n")
        client.send(b"PUB $JS.ABC.API.INFO r 0\r\n\r\n")
        assert b"\r\nMSG r 1 " in client.until(b"account_info_response")
