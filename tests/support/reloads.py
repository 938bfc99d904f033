"""A server whose configuration file is edited while it runs, and what its log and its clients see of that."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from pathlib import Path

from tests.support.daemon import Daemon, Raw

_BARRIER = "File log re-open ignored, not a file logger"
DONE = ("Reloaded server configuration", "Failed to reload server configuration")
_HEAD = re.compile(r"^\[\d+\] (?:\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d+ )?")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_CID = re.compile(r"\d+\.\d+\.\d+\.\d+:\d+ - [cw]id:\d+")
_PORTS_FILE = re.compile(r"[\w.-]+_\d+\.ports")


class Edited(Daemon):
    """A server that reads `path`, which the test rewrites."""

    def __init__(self, path: Path, text: str, command: Sequence[str], *arguments: str) -> None:
        path.write_text(text)
        super().__init__("-c", str(path), *arguments, command=command)
        self.path = path

    def reload(self, text: str | None = None) -> list[str]:
        """Rewrite the file (None: leave it), SIGHUP; the lines that the log got of it, without what always differs."""
        seen = len(self.log)
        if text is not None:
            self.path.write_text(text)
        self.send(signal.SIGHUP)
        self.wait_for_any(DONE, seen)
        self.send(signal.SIGUSR1)  # its line comes behind all others
        self.wait_for(_BARRIER, seen)
        return [self.normal(line) for line in self.log[seen:] if "Trapped" not in line and _BARRIER not in line]

    def wait_for_any(self, texts: Sequence[str], after: int) -> None:
        """Wait for a line with one of these texts behind the first `after` lines."""
        found = self._grown.wait_for
        with self._grown:
            if not found(lambda: any(text in line for line in self.log[after:] for text in texts), 15.0):
                raise AssertionError(f"none of {texts} in:\n" + "\n".join(self.log[after:]))

    def normal(self, line: str) -> str:
        """A line of the log without process id, time, and the names of things that differ from run to run."""
        line = _HEAD.sub("", line).replace(str(self.path.parent), "DIR")
        line = _PORTS_FILE.sub("PORTS", _CID.sub("CLIENT", _DIGEST.sub("DIGEST", line)))
        return line.replace(self.path.name, "CONF")


def watched(client: Raw) -> bytes:
    """What a client has got since it was last asked, up to the answer to a PING or the end of the connection."""
    return client.exchange(b"")
