"""Plays docs/TUTORIAL.md in a bare root that debootstrap made, and says how long each command takes.

python -m tools.newcomer ROOT       # `make test-newcomer` makes the root

It needs root's rights, and the ports 4222 and 8222. The root keeps what was installed: a second run is quicker.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from tests.support.walkthroughs import Command, commands, files, missing

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "TUTORIAL.md"
DASHBOARD = "http://127.0.0.1:8222/dashboard"
# to reach the registries as this machine does
OF_THIS_MACHINE = ("/etc/resolv.conf", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
OWN_AUTHORITIES = Path("/usr/local/share/ca-certificates")
PATIENCE_S = 3600.0


def inside(root: Path, folder: str, command: str) -> subprocess.Popen[str]:
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child=SIGTERM", f"--root={root}", f"--wd={folder}"]
    words += ["--mount-proc", "env", "-i", "HOME=/root", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"]
    words += ["DEBIAN_FRONTEND=noninteractive", "bash", "-c", command]
    return subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip


def processor_seconds(pid: int) -> float:
    """What a process that is still running has used, with all that it has started."""
    process = psutil.Process(pid)
    return float(sum(sum(one.cpu_times()[:4]) for one in [process, *process.children(recursive=True)]))


def of_ended_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Run:
    """One command, and the lines that it has printed so far."""

    def __init__(self, root: Path, folder: str, command: Command) -> None:
        self._command = command
        self.lines: list[str] = []
        self.processor = 0.0
        self._before = of_ended_children()
        self._process = inside(root, folder, command.text)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self.lines.append(line.rstrip())

    def wait(self) -> None:
        """Until it ends, or has shown what the page shows. Raises SystemExit when it does not."""
        deadline = time.monotonic() + PATIENCE_S
        while self._process.poll() is None and time.monotonic() < deadline:
            if self._command.runs_on and not missing(self._command.expected, list(self.lines)):
                self.processor = processor_seconds(self._process.pid)
                return
            time.sleep(0.05)
        self.processor = of_ended_children() - self._before
        self._reader.join(5)
        lacks = missing(self._command.expected, self.lines)
        if lacks or self._process.poll() != 0:
            raise SystemExit("\n".join([f"$ {self._command.text}", *self.lines, "does not show:", *lacks]))

    def end(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            self._process.wait()


def prepare(root: Path) -> None:
    for name in OF_THIS_MACHINE:
        if Path(name).is_file():
            (root / name[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(name, root / name[1:])
    if OWN_AUTHORITIES.is_dir():
        shutil.copytree(OWN_AUTHORITIES, root / str(OWN_AUTHORITIES)[1:], dirs_exist_ok=True)
    for old in ("src", "root/jetbroker"):
        shutil.rmtree(root / old, ignore_errors=True)
    subprocess.run(["git", "clone", "--quiet", "--bare", str(ROOT), str(root / "src" / "jetbroker.git")], check=True)
    with contextlib.closing(inside(root, "/", "apt-get update").stdout or sys.stdin) as output:
        output.read()


def steps(page: str) -> Iterator[Command]:
    """The page's commands as this root needs them: without sudo, and with an address."""
    for command in commands(page):
        text = command.text.removeprefix("sudo ").replace("ADDRESS", "/src/jetbroker.git")
        yield Command(text, command.expected, command.runs_on)


def main(arguments: Sequence[str]) -> int:
    """Returns the exit code."""
    root = Path(arguments[0]).resolve()
    page = PAGE.read_text()
    prepare(root)
    folder, running, total, processor = "/root", [], 0.0, 0.0
    try:
        for step in steps(page):
            if step.text.startswith("cd "):
                folder = f"{folder}/{step.text[3:]}"
                for name, text in files(page).items():
                    (root / folder[1:] / name).write_text(text)
                continue
            began = time.monotonic()
            run = Run(root, folder, step)
            running.append(run)
            run.wait()
            seconds = time.monotonic() - began
            total += seconds
            processor += run.processor
            print(f"{seconds:7.1f} s, {run.processor:6.1f} s of processor  {step.text}", flush=True)
            if step.runs_on:
                with urllib.request.urlopen(DASHBOARD, timeout=10) as answer:
                    print(f"           {DASHBOARD}: {answer.status}", flush=True)
    finally:
        for run in running:
            run.end()
    print(f"{total:7.1f} s, {processor:6.1f} s of processor  in all")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
