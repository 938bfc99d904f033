"""The broker as a subprocess that can be killed and started again on the same store and port."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

START_SECONDS = 15.0


class Broker:
    """`command` with a store, a port and a log below `directory`."""

    def __init__(self, command: Sequence[str], directory: Path) -> None:
        self.command = list(command)
        self.directory = directory
        self.store = directory / "store"
        self.log = directory / "broker.log"
        self.port = -1  # any free one at first, then the same again
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> float:
        """Starts it and waits until it listens; returns the seconds that took."""
        started = time.perf_counter()
        arguments = ["-js", "-sd", str(self.store), "-a", "127.0.0.1", "-p", str(self.port)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.command, *arguments, "--ports_file_dir", str(self.directory)], stdout=log, stderr=log
            )
        self.port = self._wait_for_port(self.process, started + START_SECONDS)
        return time.perf_counter() - started

    def _wait_for_port(self, process: subprocess.Popen[bytes], deadline: float) -> int:
        while time.perf_counter() < deadline:
            if process.poll() is not None:
                raise SystemExit(f"the broker did not start:\n{self.log.read_text(errors='replace')[-2000:]}")
            for path in self.directory.glob(f"*_{process.pid}.ports"):
                urls = json.loads(path.read_text() or "{}").get("nats")
                if urls:
                    return urlsplit(urls[0]).port or 0
            time.sleep(0.01)
        raise SystemExit(f"the broker does not listen after {START_SECONDS:.0f} s, see {self.log}")

    def kill(self) -> None:
        """kill -9: nothing is flushed, nothing is said good-bye to."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(START_SECONDS)
        self.process = None
