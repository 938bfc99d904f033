"""The name this process goes by."""

import os
import sys

NATS_SERVER = "nats-server"  # started under this name it stands in for it, to the letter


def program_name() -> str:
    """The name it was started under: `jetbroker`, or `nats-server` through a link of that name."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    return "jetbroker" if name in ("", "-c", "-m", "__main__.py") else name
