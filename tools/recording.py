"""Records a session in a terminal as a picture, docs/images/session.svg: each command is run, its output shown.

python -m tools.recording

It needs port 4222 and 8222, and nats-py.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.support.walkthroughs import files

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "session.svg"
WIDTH = 118  # columns
SHOWN_LOG = re.compile(r"Starting JetStream|Listening for client|Server is ready")
STAMP = re.compile(r"^\[\d+\] \S+ \S+ ")
WITHOUT_FONTS = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
START = "jetbroker -a 127.0.0.1 -n shop -js -sd ./data -m 8222 &"
PUBLISH = "python orders.py &"
COMMANDS = (
    "jetbroker top --once | head -9",
    "wait %2",
    "kill -9 %1",
    "jetbroker store ls ./data",
    "jetbroker store cat ./data ORDERS --limit 3 --decode 'item string, price double' --columns seq,item,price",
)


def main() -> int:
    """Returns the exit code."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "orders.py").write_text(files((ROOT / "docs" / "TUTORIAL.md").read_text())["orders.py"])
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {"PATH": path, "HOME": name, "LANG": "C.UTF-8", "COLUMNS": str(WIDTH)}
        shell = subprocess.Popen(
            START.removesuffix(" &").split(), cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
        )
        say(console, START)
        for line in shell.stderr or ():
            if SHOWN_LOG.search(line):
                console.print(Text(STAMP.sub("", line.rstrip()), style="bright_black"))
            if "Server is ready" in line:
                break
        say(console, PUBLISH)
        program = subprocess.Popen(
            PUBLISH.removesuffix(" &").split(), cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
        )
        time.sleep(3)
        for command in COMMANDS:
            say(console, command)
            if command.startswith("kill"):
                shell.kill()
                shell.wait()
                continue
            if command.startswith("wait"):
                console.print(Text(program.communicate()[0].rstrip()))
                continue
            done = subprocess.run(
                ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=True
            )
            console.print(Text(done.stdout.rstrip()))
    PICTURE.write_text(console.export_svg(title="jetbroker", theme=MONOKAI, code_format=WITHOUT_FONTS))
    return 0


def say(console: Console, command: str) -> None:
    console.print(Text.assemble(("$ ", "green"), (command, "bold")))


if __name__ == "__main__":
    sys.exit(main())
