"""What a start costs: some test helpers of clients give a server 0.35 s from exec to "Server is ready"."""

from __future__ import annotations

import re
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
