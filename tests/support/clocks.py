"""Servers whose clock of day is wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("clock.c")


def shifting_library(folder: Path) -> Path:
    """Compile what shifts a clock (see clock.c). Skips the test where there is no C compiler."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("no C compiler")
    library = folder / "clock.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"], check=True)
    return library


def at_another_time(library: Path, seconds: int) -> tuple[str, ...]:
    """Words in front of a command: its clock is so many seconds ahead, or behind."""
    return ("env", f"LD_PRELOAD={library}", f"CLOCK_SHIFT={seconds}")
