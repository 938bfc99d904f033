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
    "jetbroker.signals",
    "lmdb",
    "msgpack",
    "numpy",
    "pyarrow",
    "rich",
    "shutil",
    "tempfile",
    "zipfile",
}
CPU_S = 1.5  # a third of a second on an idle machine; this bound is for busy ones


def test_what_is_not_needed_at_start_is_not_imported(tmp_path: Path) -> None:
    command = (sys.executable, "-X", "importtime", "-m", "jetbroker")
    with Daemon("-js", "-sd", str(tmp_path), command=command) as daemon:
        imported = {match[1] for line in daemon.log if (match := re.match(r"import time:.*\| +(\S+)$", line))}
    assert "jetbroker.jetstream.server" in imported
    assert imported & LATE == set()


def test_cpu_time_to_ready(tmp_path: Path) -> None:
    with Daemon("-js", "-sd", str(tmp_path)) as daemon:
        tasks = Path(f"/proc/{daemon.pid}/task").iterdir()
        used = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
        assert used < CPU_S
