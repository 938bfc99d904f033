"""Starts that fail, odd command lines, and what JetStream tells of itself: exit codes and texts are nats-server's."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.process import ROOT, STOP_TIMEOUT_S

pytestmark = pytest.mark.differential

ANY = ("-a", "127.0.0.1", "-p", "-1")
LISTEN = "listen: '127.0.0.1:-1'\n"
ONLY_OURS = ("Sync Interval:", "has no effect yet")
ONLY_THEIRS = ("Manually disable standalone mode",)
BANNER = re.compile(r"\[INF\] *([_|\\/ ]+|https://docs\.nats\.io/jetstream)?$")  # nats-server's picture

# as a link of that name starts it
STAND_IN = (
    sys.executable,
    "-c",
    "import sys; sys.argv[0] = 'nats-server'; from jetbroker.daemon.cli import main; sys.exit(main())",
)

# flags only; DIR is the current directory
COMMAND_LINES: Sequence[Sequence[str]] = (
    ("-t",),
    ("-t", "-c", "nofile"),
    ("-c", "nofile"),
    ("-c", "."),
    ("nope",),
    ("-nope",),
    ("-a",),
    ("-p", "x"),
    ("-D=x",),
    ("---p",),
    ("-=5",),
    ("-p", "99999"),
    ("-n", "a b"),
    ("--tls",),
    ("--tlsverify", "--tlscert", "x"),
    ("--tlscert", "x", "--tlskey", "y"),
    ("-sl", "=5"),
    ("-sl", "stop=/nofile"),
    ("-P", "/nope/pid", *ANY),
    ("-l", "/nope/log", *ANY),
    ("-l", "/proc", *ANY),
    ("-ms", "-1", *ANY),
    ("-m", "99999", *ANY),
    ("-m", "-1", "-ms", "-1", *ANY),
    ("-a", "192.0.2.1", "-p", "-1"),
    ("-js", "-sd", "/proc/x", *ANY),
    ("-js", "-sd", "DIR/file", *ANY),
    ("-D", *ANY),
    ("-V", "-T=false", *ANY),
    ("--user", "a", "--pass", "b", "-m", "-1", *ANY),
)

# the file; a start with it
FILES = (
    "",
    "}",
    "foo: 1\n",
    LISTEN + "no_auth_user: x\n",
    LISTEN + "max_payload: 9MB\nmax_pending: 8MB\n",
    LISTEN + "max_payload: 9MB\nping_interval: 5\nwrite_deadline: 3\n",
    LISTEN + "lame_duck_grace_period: '3m'\n",
    LISTEN + "system_account: X\n",
    LISTEN + "http: '127.0.0.1:-1'\nhttps: '127.0.0.1:-1'\n",
    LISTEN + "https: '127.0.0.1:-1'\n",
    LISTEN + "http_port: 99999\n",
    "port: 99999\n",
    LISTEN + "log_file: '/nope/x'\n",
    LISTEN + "pid_file: '/nope/x'\n",
    LISTEN + "websocket { port: -1 }\n",
    LISTEN + "websocket { listen: '127.0.0.1:-1', no_tls: true, advertise: 'a:b:c' }\n",
    LISTEN + "websocket { port: 99999, no_tls: true }\n",
    LISTEN + "jetstream { domain: 'a.b' }\n",
    LISTEN + "jetstream: on\naccounts { $SYS { jetstream: on } }\n",
    LISTEN + "server_name: N\njetstream { store_dir: 'DIR/s', max_mem: 10MB, max_file: 1GB, domain: hub }\n",
    LISTEN + "server_name: N\njetstream { store_dir: 'DIR/s', max_mem: 0, max_file: 1GB, strict: false }\n",
    LISTEN + "jetstream { store_dir: 'DIR/s', enabled: false }\n",
    *(
        f"{LISTEN}server_name: N\njetstream {{ store_dir: 'DIR/s', max_mem: 10MB, max_file: 1GB }}\n"
        "leafnodes { remotes [ {url: 'nats://127.0.0.1:1', account: '$SYS', disabled: true, "
        f"deny_imports: '{denied}'}} ] }}\n"
        for denied in ("$NRG.>", "$NRG.x", "x")
    ),
    LISTEN + "accounts { A { mappings: { a: 'b.{{foo(1)}}' } } }\n",
)


def started(command: Sequence[str], folder: Path, arguments: Sequence[str]) -> tuple[int | str, list[str], list[str]]:
    """How it ended, stdout, stderr. A server that gets ready is ended, and told of only up to then."""
    given = [word.replace("DIR", str(folder)) for word in arguments]
    with subprocess.Popen(
        [*command, *given],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        lines: list[str] = []
        assert process.stderr is not None and process.stdout is not None
        for line in process.stderr:
            lines.append(line)
            if "Server is ready" in line:
                process.terminate()
                break
        else:
            process.wait(STOP_TIMEOUT_S)
        code: int | str = "ready" if process.returncode is None else process.returncode
        process.stderr.read()
        said = process.stdout.read().splitlines()[:2]  # the usage goes on as it likes
    return code, [line.replace("jetbroker", "nats-server") for line in said], told(lines, folder)


def told(lines: Sequence[str], folder: Path) -> list[str]:
    """Without times, ids, ports, sizes of this machine, and what only one of both tells."""
    text = "".join(lines).replace(str(folder), "DIR").replace("jetbroker:", "nats-server:")
    text = text.replace("Starting jetbroker", "Starting nats-server")
    text = re.sub(r"(?m)^(\[\d+\] )?(\d{4}/\S+ \S+ )?", "", text)
    text = re.sub(r"\bN[A-Z2-7]{55}\b|\w+_\d+\.ports", "ID", text)
    text = re.sub(r"Node: .*", "Node", text) if '"N"' not in text and "Name:     ID" in text else text
    text = re.sub(r"(127\.0\.0\.1|0\.0\.0\.0):\d+", r"\1:PORT", text)
    text = re.sub(r"(Version:  \S+|Git: |Go build:|Max Memory: ).*", r"\1", text)
    text = re.sub(r"(sha256:)\w+|Took \S+", r"\1", text)
    found = [line for line in text.splitlines() if not BANNER.match(line)]
    # nats-server goes through a block's keys in no order
    found.sort(key=lambda line: (0, line) if line.startswith("conf:") else (1, ""))
    return [line for line in found if line and not any(words in line for words in ONLY_OURS + ONLY_THEIRS)]


@pytest.mark.parametrize("arguments", COMMAND_LINES, ids=" ".join)
def test_command_lines(arguments: Sequence[str], commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    theirs = started(commands[0], tmp_path, arguments)
    ours = started(STAND_IN, tmp_path, arguments)
    assert ours == theirs


@pytest.mark.parametrize("text", FILES)
def test_files(text: str, commands: list[tuple[str, ...]], tmp_path: Path) -> None:
    (tmp_path / "conf").write_text(text.replace("DIR", str(tmp_path)))
    theirs, ours = (started(command, tmp_path, ("-c", "conf")) for command in commands)
    assert ours == theirs
