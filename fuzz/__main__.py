"""Plays generated inputs to a target and keeps those that show something wrong.

    python -m fuzz protocol --inputs 1000000 --seed 1

Ends with 1 when there were findings; each lies in a file of its own then, to be played again with `--replay`.
`python -m fuzz meaning` plays requests to a whole broker; it has options of its own.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random

from fuzz.checks import Target, require
from fuzz.meaning.command import main as meaning
from fuzz.targets import TARGETS

FINDINGS = 10  # the run ends after so many
LOOK_AT_CLOCK = 256  # inputs
BURST = 4096  # inputs


class Run:
    """One run; `inputs`, `seconds` and `findings` tell about it afterwards."""

    def __init__(self, target: Target, seed: int, folder: Path) -> None:
        self.target = target
        self.random = Random(seed)
        self.seed = seed
        self.folder = folder
        self.inputs = 0
        self.started = time.monotonic()
        self.findings: list[Path] = []

    def play(self, inputs: int, seconds: float) -> None:
        """Until so many inputs were played, or so long, or too much was found."""
        self.started = time.monotonic()
        while self.inputs < inputs and len(self.findings) < FINDINGS:
            self.one(self.target.generate(self.random))
            if self.target.burst is not None and self.inputs < inputs:
                self.many(self.target.burst, min(BURST, inputs - self.inputs))
            elif self.inputs % LOOK_AT_CLOCK:
                continue
            if self.seconds > seconds:
                break

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self.started

    def one(self, data: bytes) -> None:
        """Play one input."""
        if self.target.may_end_the_process:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / f"{self.target.name}-{self.seed}-playing.bin").write_bytes(data)
        try:
            self.target.check(data)
        except Exception:  # whatever it is, it is the finding
            self.keep(data)
        self.inputs += 1

    def many(self, burst: Callable[[int, int], list[bytes]], inputs: int) -> None:
        """Play so many at once; what is wrong with those found is told by playing them again, one by one."""
        for data in burst(self.random.getrandbits(64), inputs):
            try:
                self.target.check(data)
                require(False, "wrong in a burst, right by itself")
            except Exception:
                self.keep(data)
        self.inputs += inputs

    def keep(self, data: bytes) -> None:
        """Write the input down, and what it did on stderr."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{self.target.name}-{self.seed}-{self.inputs}-{len(self.findings)}.bin"
        path.write_bytes(data)
        self.findings.append(path)
        print(f"{path}: {data!r}\n{traceback.format_exc(limit=-3)}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["meaning"]:
        return meaning(words[1:])
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Fuzz a part of jetbroker.")
    parser.add_argument("target", choices=sorted(TARGETS))
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end earlier, after so long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path(".build/fuzz"), help="for findings")
    parser.add_argument("--replay", type=Path, help="play this file only")
    given = parser.parse_args(words)
    target = TARGETS[given.target]
    if given.replay is not None:
        target.check(given.replay.read_bytes())
        return 0
    run = Run(target, given.seed, given.folder)
    try:
        run.play(given.inputs, given.seconds)
    except KeyboardInterrupt:
        print("ended early", file=sys.stderr)
    print(f"{target.name}: {run.inputs} inputs, {run.seconds:.0f} s, seed {run.seed}, {len(run.findings)} findings")
    return 1 if run.findings else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a long run that is ended still says how far it came
    sys.exit(main())
