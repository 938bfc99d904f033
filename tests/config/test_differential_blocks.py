"""Every block of a configuration through nats-server and through us: what `-t` says, and what a start makes of it."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jetbroker.accounts import graph
from jetbroker.config import checks, start
from jetbroker.daemon import cli
from jetbroker.daemon.runfiles import RunFiles
from jetbroker.errors import ConfigError
from jetbroker.logs.logger import Logger
from tests.config import corpus
from tests.support import certificates
from tests.support.depth import IS_DEEP
from tests.support.process import find_nats_server

NATS_SERVER = find_nats_server()
pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(NATS_SERVER is None, reason="nats-server is neither on the PATH nor in ~/go/bin"),
]

PLACE = re.compile(r"^conf:(\d+:\d+): ")
FATAL = re.compile(r"^(nats-server: |(\[\d+\] )?\d{4}/\S+ \S+ (\[FTL\] )?)")
LOGGED = re.compile(r"\[(INF|WRN)\]")
READY = "Server is ready"
SILENT_START_SECONDS = 1.0  # what logs elsewhere than to stderr and is still there after that has started

# nats-server looks at the keys of a map in a random order, and these depend on it.
RANDOM = re.compile(
    r'Detected (service|stream)( "\w+")? but already saw a|Detected response directive|Duplicate (user|response)'
)
NO_PLACE = re.compile(r"^(Parse error|variable reference|error parsing include file) ")
# It places these at the whole block, at any key or the end of an entry, or nowhere; we place them where the fault is.
PLACED_BETTER = re.compile(
    r"Error adding (stream|service) (import|export)|Duplicate service import|User entry requires a user"
    r"|duplicate remote|Nkey users do not take|Not a valid public nkey for a user|options are required"
    r"|cannot be cast to string|interface conversion: .* not string|Expect an account name and a subject"
)
# The number as a character there.
OTHER_WORDS = {"accounts { A { nkey: 5 } }"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The current directory, with the files that the configurations name."""
    path = tmp_path_factory.mktemp("blocks")
    made = certificates.make(path)
    for name, file in {
        "CERT": made.server.cert,
        "KEY": made.server.key,
        "OTHERKEY": made.client.key,
        "CA": made.ca.cert,
    }.items():
        shutil.copy(file, path / name)
    (path / "EMPTY").touch()
    with contextlib.chdir(path):
        yield path


def our_check() -> list[str]:
    """The errors `-t` shows; none when it is content."""
    try:
        cli.check_file("conf")
    except ConfigError as error:
        return str(error).strip().splitlines()
    return []


def their_check() -> list[str]:
    result = subprocess.run(
        [str(NATS_SERVER), "-t", "-c", "conf"], capture_output=True, text=True, timeout=30, check=False
    )
    said = result.stderr.strip().removeprefix("nats-server: ").splitlines()
    # What follows from another error is not ours.
    return [line for line in said if "nil pointer" not in line] if result.returncode else []


def write(path: Path, text: str) -> None:
    """A new file each time: ext4 waits for the disk when one that is written over is closed."""
    path.unlink(missing_ok=True)
    path.write_text(text)


def words(lines: list[str]) -> set[str]:
    return {PLACE.sub("", line) for line in lines if line}


@pytest.mark.parametrize("text", corpus.ALL)
def test_check(text: str, folder: Path) -> None:
    write(folder / "conf", text)
    ours, theirs = our_check(), their_check()
    if RANDOM.search("\n".join(ours)):
        return
    assert bool(ours) == bool(theirs), (ours, theirs)
    if text in OTHER_WORDS:
        return
    assert words(ours) >= words(theirs) - {"Expect an account name and a subject"}
    places = {line for line in theirs if PLACE.match(line) and not PLACED_BETTER.search(line)}
    assert places <= set(ours)
    assert all(PLACE.match(line) or NO_PLACE.match(line) for line in ours)


def our_start() -> str:
    """Why a start with the file fails, empty if it does not. Everything short of listening is done."""
    try:
        options = start.load("conf", [("host", "127.0.0.1"), ("port", -1)]).options
        graph.check(options)
        Logger(options).close()
        RunFiles(options).write_pid()
        checks.check_opening(options)
    except ConfigError as error:
        return str(error).strip()
    return ""


def their_start() -> str:
    command = [str(NATS_SERVER), "-a", "127.0.0.1", "-p", "-1", "-c", "conf"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        started = threading.Event()

        def stop() -> None:
            started.set()
            process.kill()

        timer = threading.Timer(SILENT_START_SECONDS, stop)
        timer.start()
        said = []
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line.strip())
            if READY in line:
                stop()
                break
        timer.cancel()
        process.wait()
    if started.is_set():
        return ""
    return "\n".join(FATAL.sub("", line) for line in said if line and not LOGGED.search(line))


@pytest.mark.parametrize("text", corpus.ALL[:: 1 if IS_DEEP else 3])
def test_start(text: str, folder: Path) -> None:
    write(folder / "conf", text)
    try:
        cli.check_file("conf")
    except ConfigError as error:
        if "should be converted" not in str(error):
            return  # refused by a start as well: `test_check` compares the words
    assert our_start() == their_start()
