"""What a start costs: some test helpers of clients give a server 0.35 s from exec to "Server is ready"."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from pathlib import Path

from tests.support.daemon import Daemon
from tests.support.process import ROOT, free_port

# Each of these costs milliseconds and is not needed before a client, a file or a failure asks for it.
LATE = {
    "bcrypt",
    "email",
    "importlib.metadata",
    "jetbroker.config.loader",
    "jetbroker.jetstream.account",
    "jetbroker.jetstream.streams.stream",
    "jetbroker.daemon.signals",
    "lmdb",
    "msgpack",
    "numpy",
    "pydantic",
    "pyarrow",
    "rich",
    "shutil",
    "tempfile",
    "zipfile",
}


def test_what_is_not_needed_at_start_is_not_imported(tmp_path: Path) -> None:
    command = (sys.executable, "-X", "importtime", "-m", "jetbroker")
    with Daemon("-js", "-sd", str(tmp_path), command=command) as daemon:
        imported = {match[1] for line in daemon.log if (match := re.match(r"import time:.*\| +(\S+)$", line))}
    assert "jetbroker.jetstream.server" in imported
    assert imported & LATE == set()


def test_the_limit_of_open_files_is_raised() -> None:
    """As far as the system allows: each client is a file."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    command = ("sh", "-c", 'ulimit -S -n 512 && exec "$@"', "sh", sys.executable, "-m", "jetbroker")
    with Daemon(command=command) as daemon:
        limits = Path(f"/proc/{daemon.pid}/limits").read_text()
    (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert line.split()[3:5] == [str(hard), str(hard)]


def test_ports_are_open_before_the_broker_is_loaded_unless_it_recovers_streams(tmp_path: Path) -> None:
    """All of them: who finds the clients' port open, as test helpers do, dials the others at once."""
    loaded = (
        "import socket, sys, types\n"
        "def run(options):\n"
        "    for port in (options.port, options.http_port, options.websocket.port):\n"
        "        with socket.socket() as client:\n"
        "            print(client.connect_ex(('127.0.0.1', port)) == 0)\n"
        "    return 0\n"
        "sys.modules['jetbroker.daemon.broker'] = types.SimpleNamespace(run=run)\n"
        "from jetbroker.daemon import broker, cli\n"
        "cli.main(sys.argv[1:])\n"
    )
    config = tmp_path / "server.conf"
    store = tmp_path / "store"
    config.write_text(
        f"listen: '127.0.0.1:{free_port()}'\nhttp: '127.0.0.1:{free_port()}'\n"
        f"websocket {{ listen: '127.0.0.1:{free_port()}', no_tls: true }}\njetstream {{ store_dir: '{store}' }}\n"
    )
    arguments = [sys.executable, "-c", loaded, "-c", str(config)]
    for expected in ("True\n" * 3, "False\n" * 3):
        ended = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, check=True)
        assert (ended.stdout, ended.stderr) == (expected, "")
        (store / "jetstream").mkdir(parents=True, exist_ok=True)
