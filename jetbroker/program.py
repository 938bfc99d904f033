"""The name this process goes by, and what it was built from."""

import contextlib
import os
import sys
from pathlib import Path

NATS_SERVER = "nats-server"  # started under this name it stands in for it, to the letter


def program_name() -> str:
    """The name it was started under: `jetbroker`, or `nats-server` through a link of that name."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    return "jetbroker" if name in ("", "-c", "-m", "__main__.py") else name


def build_id() -> str:
    """The commit it was built from (see setup.py), `not set` when nobody knows."""
    with contextlib.suppress(FileNotFoundError):
        return Path(__file__).with_name("BUILD").read_text().strip()
    return "not set"
