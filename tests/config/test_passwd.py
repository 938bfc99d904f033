"""`jetbroker passwd`: hashes that open a broker, asked for at a terminal, read from a pipe, or made up."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import nats
import pytest

from jetbroker.auth.passwords import fits_hash
from tests.support.daemon import Daemon
from tests.support.process import ROOT

COMMAND = [sys.executable, "-m", "jetbroker", "passwd"]
PASSWORD = "correct horse battery"


def passwd(*arguments: str, given: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        input=given,
        capture_output=True,
        timeout=30,
        check=False,
    )


def at_terminal(*lines: str) -> tuple[int, str]:
    """The exit code and what stood on the screen, when these lines are typed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "-c", "4"], cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    screen = b""
    typed = iter(lines)
    while True:
        try:
            data = os.read(ours, 1024)
        except OSError:  # the other end is closed
            break
        if not data:
            break
        screen += data
        if data.rstrip().endswith(b"password:"):
            os.write(ours, next(typed).encode() + b"\n")
    os.close(ours)
    return process.wait(30), screen.decode()


@pytest.mark.parametrize(
    ("arguments", "given", "environment"),
    [
        (["-c", "4"], PASSWORD.encode() + b"\nmore\n", {}),
        (["-c", "4"], PASSWORD.encode() + b"\r\n", {}),
        (["-c", "4"], PASSWORD.encode(), {}),
        (["--cost=4", "--pass", PASSWORD], b"", {}),
        (["-c", "4"], b"", {"PASSWORD": PASSWORD}),
    ],
)
def test_a_hash(arguments: list[str], given: bytes, environment: dict[str, str]) -> None:
    done = passwd(*arguments, given=given, **environment)
    assert (done.returncode, done.stderr) == (0, b"")
    found = done.stdout.decode().rstrip("\n")
    assert re.fullmatch(r"\$2a\$04\$[./A-Za-z0-9]{53}", found)
    assert fits_hash(found, PASSWORD)
    assert not fits_hash(found, PASSWORD + "!")


def test_the_default_cost_is_that_of_nats_tools() -> None:
    assert passwd(given=PASSWORD.encode()).stdout.startswith(b"$2a$11$")


def test_a_generated_password() -> None:
    done = passwd("-g", "-c", "4")
    password, hashed = re.fullmatch(
        r"Generated password: (\w{22})\n +bcrypt hash: (\S+)\n", done.stdout.decode()
    ).groups()  # type: ignore[union-attr]
    assert fits_hash(hashed, password)
    assert password.encode() not in passwd("-g", "-c", "4").stdout


@pytest.mark.parametrize(
    ("arguments", "given", "text"),
    [
        ([], b"short\n", "password should be at least 10 characters long"),
        ([], b"", "password should be at least 10 characters long"),
        (["-p", "x" * 73], b"", "bcrypt takes passwords of at most 72 bytes"),
        (["-c", "3"], PASSWORD.encode(), "bcrypt cost should be between 4 and 31"),
        (["-c", "32"], PASSWORD.encode(), "bcrypt cost should be between 4 and 31"),
        ([], b"\xff" * 12, "password should be valid UTF-8"),
    ],
)
def test_what_is_refused(arguments: list[str], given: bytes, text: str) -> None:
    done = passwd(*arguments, given=given)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"jetbroker: ")
    assert text in done.stderr.decode()


def test_help() -> None:
    done = passwd("--help")
    assert done.returncode == 0
    for word in (b"--cost", b"--generate", b"--pass", b"authorization {"):
        assert word in done.stdout


def test_at_a_terminal_twice_and_unseen() -> None:
    code, screen = at_terminal(PASSWORD, PASSWORD)
    assert code == 0
    assert PASSWORD not in screen
    assert fits_hash(screen.split()[-1], PASSWORD)


def test_at_a_terminal_two_passwords() -> None:
    code, screen = at_terminal(PASSWORD, PASSWORD + "!")
    assert code == 1
    assert "entered and re-entered passwords do not match" in screen


async def test_the_hash_opens_a_broker(tmp_path: Path) -> None:
    hashed = passwd("-c", "4", given=PASSWORD.encode()).stdout.decode().strip()
    path = tmp_path / "conf"
    path.write_text(f'authorization {{ user: ann, password: "{hashed}" }}\n')
    with Daemon("-c", str(path)) as daemon:
        assert not [line for line in daemon.log if "Plaintext" in line]
        client = await nats.connect(daemon.url, user="ann", password=PASSWORD, allow_reconnect=False)
        await client.close()
