"""Runs the tools that fetch and test a project."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".build" / "compatibility"
FETCH_TIMEOUT_S = 600.0
TEST_TIMEOUT_S = 600.0


class CompatibilityError(Exception):
    """A project could not be fetched or run; the text says what the user can do."""


@dataclass(frozen=True)
class Target:
    """A running server with JetStream, and the command that starts another one without."""

    url: str
    command: Sequence[str]


def fetch(command: Sequence[str], folder: Path) -> str:
    """Run a command that must succeed; returns its output. Raises CompatibilityError when it does not."""
    done = run(command, folder, timeout_s=FETCH_TIMEOUT_S)
    if done.returncode:
        told = (done.stderr or done.stdout).strip().splitlines()
        raise CompatibilityError(f"'{' '.join(command)}' ended with {done.returncode}: {' '.join(told[-3:])}")
    return done.stdout


def run(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    *,
    timeout_s: float = TEST_TIMEOUT_S,
) -> subprocess.CompletedProcess[str]:
    """Run a command, whose exit code may tell of failed tests.

    Raises CompatibilityError when the command is not there or takes too long.
    """
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError as error:
        raise CompatibilityError(f"'{command[0]}' is not on the PATH: install it, or name other projects") from error
    except subprocess.TimeoutExpired as error:
        raise CompatibilityError(f"'{' '.join(command)}' took longer than {timeout_s:g} s") from error
