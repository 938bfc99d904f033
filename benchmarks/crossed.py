"""Which files a message crosses in the broker: `python -m benchmarks.crossed`.

Compiles a copy of the package that tells which of its functions are called (a minute or two the first time), starts it,
and sends one message over warm connections: a core publish with a subscriber, a JetStream publish with its ack, and a
fetch of one message with its ack. A file counts when one of its functions was called meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / ".build" / "traced"
COPIED = ("jetbroker", "setup.py", "pyproject.toml", "README.md", "LICENSE", "benchmarks")

# In the broker's process: "begin" and "end" on stdin, the files between them on stdout.
BROKER = """
import asyncio, gc, json, os, runpy, sys
called, freeze = set(), gc.freeze

def note(frame, event, argument):
    if event == "call":
        called.add(frame.f_code.co_filename)

def command():
    if os.read(0, 16).strip() == b"begin":
        os.write(1, b"[]\\n")
        called.clear()
        sys.setprofile(note)
    else:
        sys.setprofile(None)
        own = (name[name.rindex("jetbroker/"):] for name in called if "jetbroker/" in name)
        found = sorted({name.rsplit(".", 1)[0] for name in own})  # a header and its source are one
        os.write(1, json.dumps(found).encode() + b"\\n")

def ready():
    freeze()
    asyncio.get_running_loop().add_reader(0, command)

gc.freeze = ready
sys.argv = ["jetbroker", *sys.argv[1:]]
runpy.run_module("jetbroker", run_name="__main__")
"""


def build() -> None:
    """Bring the copy up to date and compile what changed."""
    COPY.mkdir(parents=True, exist_ok=True)
    for source in (*COPY.rglob("*.pyx"), *COPY.rglob("*.pxd"), *COPY.rglob("*.py")):
        if not (ROOT / source.relative_to(COPY)).exists():
            source.unlink()
    for name in COPIED:
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("*.so", "__pycache__")
            shutil.copytree(ROOT / name, COPY / name, ignore=ignored, dirs_exist_ok=True)
        else:
            shutil.copy2(ROOT / name, COPY / name)
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(command, cwd=COPY, check=True, env={**os.environ, "JETBROKER_TRACED": "1"})


class Peer:
    """A connection that reads until it has seen what it waits for."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.ask(b'CONNECT {"verbose":false,"headers":true}\r\nPING\r\n', b"PONG\r\n")

    def ask(self, sent: bytes, awaited: bytes) -> bytes:
        """Send and wait; returns all that came."""
        self.socket.sendall(sent)
        seen = b""
        while awaited not in seen:
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError(f"closed after {seen!r}")
            seen += data
        return seen


def publish(subject: bytes, reply: bytes, body: bytes) -> bytes:
    """PUB with a reply subject, which may be empty."""
    return b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(body), body)


def cases(port: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """What is measured, by name; what it needs is there when it is given."""
    core, stream = Peer(port), Peer(port)
    core.ask(b"SUB c.x 1\r\nPING\r\n", b"PONG\r\n")
    yield "core publish", lambda: core.ask(publish(b"c.x", b"", b"hello"), b"hello\r\n")
    stream.ask(b"SUB in.> 1\r\nPING\r\n", b"PONG\r\n")
    create = json.dumps({"name": "S", "subjects": ["s"], "storage": "file"}).encode()
    stream.ask(publish(b"$JS.API.STREAM.CREATE.S", b"in.a", create), b"did_create")
    yield "JetStream publish", lambda: stream.ask(publish(b"s", b"in.p", b"body"), b'"seq"')
    config = {"durable_name": "C", "ack_policy": "explicit"}
    consumer = json.dumps({"stream_name": "S", "config": config}).encode()
    stream.ask(publish(b"$JS.API.CONSUMER.CREATE.S.C", b"in.a", consumer), b"num_pending")

    def fetch() -> None:
        seen = stream.ask(publish(b"$JS.API.CONSUMER.MSG.NEXT.S.C", b"in.f", b"1"), b"body\r\n")
        ack = next(word for word in seen.split() if word.startswith(b"$JS.ACK."))
        stream.ask(publish(ack, b"in.k", b"+ACK"), b"MSG in.k")

    yield "fetch with its ack", fetch


def wait_for_start(broker: subprocess.Popen[str]) -> None:
    """Read its log until it is ready. Raises RuntimeError when it ends before."""
    for line in broker.stderr or ():
        if "Server is ready" in line:
            return
    raise RuntimeError("the broker did not start")


def told(broker: subprocess.Popen[str], command: str) -> list[str]:
    """What the broker answers to a command: the files that were crossed since "begin"."""
    if broker.stdin is None or broker.stdout is None:
        raise RuntimeError("no pipes to the broker")
    broker.stdin.write(f"{command}\n")
    broker.stdin.flush()
    return list(json.loads(broker.stdout.readline()))


def main() -> None:
    """Print the files of each case."""
    argparse.ArgumentParser(prog="python -m benchmarks.crossed", description=__doc__).parse_args()
    build()
    with socket.socket() as free, tempfile.TemporaryDirectory(prefix="jetbroker-") as store:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        command = [sys.executable, "-c", BROKER, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", store]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, cwd=COPY, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as broker:
            wait_for_start(broker)
            for name, case in cases(port):
                case()
                case()
                told(broker, "begin")
                case()
                found = told(broker, "end")
                print(f"{name}: {len(found)} files")
                print("".join(f"    {file}\n" for file in found), end="")
            broker.terminate()


if __name__ == "__main__":
    main()
