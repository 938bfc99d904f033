"""What a start costs: some test helpers of clients give a server 0.35 s from exec to "Server is ready"."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

from tests.support.daemon import Daemon

# Each of these costs milliseconds and is not needed before a client, a file or a failure asks for it.
LATE = {
    "bcrypt",
    "email",
    "importlib.metadata",
    "jetbroker.config.loader",
    "jetbroker.jetstream.account",
    "jetbroker.jetstream.stream",
    "jetbroker.signals",
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
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        with Daemon() as daemon:
            limits = Path(f"/proc/{daemon.pid}/limits").read_text()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert line.split()[3:5] == [str(hard), str(hard)]
