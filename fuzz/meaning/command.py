"""Runs the fuzzer of meaning: groups of steps, restarts, findings and what is left of them.

python -m fuzz meaning --inputs 1000000 --seed 1
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from fuzz.meaning.player import Finding, Player, Wrong, describe
from fuzz.meaning.steps import SEND, Step, Steps

GROUP = 32  # steps at once
RESTART_STEPS = 2000  # between two restarts, about
RELOAD_STEPS = 1000
FIRST_STEPS = 300  # until the first of each
EPOCH_STEPS = 40_000  # on the same store; then a new one begins
KEPT_GROUPS = 400  # of those that were played last a finding keeps so many
FINDINGS = 20  # the run ends after so many different ones
SHORTER_TRIES = 40  # to leave steps out of a finding


def groups(seed: int, epoch: int) -> Groups:
    """The groups of an epoch; the same for the same numbers."""
    return Groups(Random(f"{seed}/{epoch}"))


class Groups:
    """Steps in groups, with restarts and reloads between them."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._steps = Steps(random)
        self._furnish = True
        self._to_restart = FIRST_STEPS
        self._to_reload = FIRST_STEPS

    def next(self) -> list[Step]:
        """The next group."""
        group: list[Step] = self._steps.furnish() if self._furnish else []
        self._furnish = False
        while len(group) < GROUP:
            group += self._steps.some()
        self._to_restart -= len(group)
        self._to_reload -= len(group)
        if self._to_reload < 0:
            self._to_reload = self._random.randrange(2 * RELOAD_STEPS)
            odd, back = self._steps.reload()
            others = [step for step in group[: GROUP // 2] if step.what == SEND]
            group += [odd, *others, back]
        if self._to_restart < 0:
            self._to_restart = self._random.randrange(2 * RESTART_STEPS)
            group += self._steps.restart()
            self._furnish = True
        return group


class Run:
    """One run. `steps`, `seconds`, `findings` tell about it afterwards."""

    def __init__(self, seed: int, folder: Path, strict_ping_ms: float = 0.0) -> None:
        self.seed = seed
        self.folder = folder
        self.strict_ping_ms = strict_ping_ms
        self.steps = 0
        self.starts = 0
        self.epochs = 0
        self.worst_ms = 0.0
        self.worst_step = ""
        self.longest_ms = 0.0
        self.worst_start_seconds = 0.0
        self.largest_bytes = 0
        self.findings: dict[str, Path] = {}
        self.again = 0  # findings that were known already
        self.started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self.started

    def play(self, steps: int, seconds: float) -> None:
        """Until so many steps were played, or so long, or too much was found."""
        while self.steps < steps and self.seconds < seconds and len(self.findings) < FINDINGS:
            self._epoch(min(EPOCH_STEPS, steps - self.steps), seconds)
            self.epochs += 1

    def _epoch(self, steps: int, seconds: float) -> None:
        """Play on one store, until something is found."""
        source, played = groups(self.seed, self.epochs), 0
        history: list[list[Step]] = []
        player = Player(strict_ping_ms=self.strict_ping_ms)
        try:
            player.start()
            while played < steps and self.seconds < seconds:
                group = source.next()
                history.append(group)
                del history[:-KEPT_GROUPS]
                played += len(group)
                self._group(player, group, history)
        except Wrong as wrong:
            self._keep(wrong.finding, history)
        finally:
            self.steps += played
            self._account(player)
            player.end()

    def _group(self, player: Player, group: Sequence[Step], history: Sequence[Sequence[Step]]) -> None:
        """Play a group; what does not keep the broker from being played with on is noted, and the store lives on."""
        try:
            player.play(group)
        except Wrong as wrong:
            if wrong.finding.over or any(step.what != SEND for step in group):
                raise
            self._keep(wrong.finding, history)

    def _account(self, player: Player) -> None:
        self.starts += player.starts
        self.longest_ms = max(self.longest_ms, player.longest_ms)
        self.worst_start_seconds = max(self.worst_start_seconds, player.worst_start_seconds)
        self.largest_bytes = max(self.largest_bytes, player.largest_bytes)
        if player.worst_ms > self.worst_ms:
            self.worst_ms, self.worst_step = player.worst_ms, player.worst_step

    def _keep(self, finding: Finding, history: Sequence[Sequence[Step]]) -> None:
        """Write down what was found, once: a file with the steps that lead there."""
        if finding.what in self.findings:
            self.again += 1
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"meaning-{self.seed}-{self.epochs}-{len(self.findings)}.json"
        self.findings[finding.what] = path
        write(path, finding, history)
        print(f"{path}: {finding.what}\n{finding.detail[:6000]}\n", file=sys.stderr, flush=True)

    def __str__(self) -> str:
        return (
            f"meaning: {self.steps} steps, {self.seconds:.0f} s, seed {self.seed}, {self.starts} starts on "
            f"{self.epochs} stores (the slowest took {self.worst_start_seconds:.1f} s), {len(self.findings)} findings "
            f"(and {self.again} again)\n"
            f"a bystander's PING: the broker computed {self.worst_ms:.1f} ms at most while it waited, it waited "
            f"{self.longest_ms:.1f} ms at most; largest {self.largest_bytes >> 20} MiB\n"
            f"worst PING at: {self.worst_step[:1500]}"
        )


# --- findings ---


def write(path: Path, finding: Finding, history: Sequence[Sequence[Step]]) -> None:
    """A finding as a file."""
    shown = {
        "what": finding.what,
        "detail": finding.detail[:20_000],
        "groups": [[step.to_json() for step in group] for group in history],
    }
    path.write_text(json.dumps(shown, indent=1))


def read(path: Path) -> tuple[str, list[list[Step]]]:
    """What was found, and the steps."""
    stored = json.loads(path.read_text())
    return stored["what"], [[Step.from_json(step) for step in group] for group in stored["groups"]]


def replay(history: Sequence[Sequence[Step]], strict_ping_ms: float = 0.0) -> Finding | None:
    """What the steps show on a new store, None: nothing."""
    player = Player(strict_ping_ms=strict_ping_ms)
    try:
        player.start()
        for group in history:
            player.play(group)
    except Wrong as wrong:
        return wrong.finding
    finally:
        player.end()
    return None


def shorten(what: str, history: list[list[Step]], strict_ping_ms: float = 0.0) -> list[list[Step]]:
    """Leave out what the finding does not need: the older groups, then the steps of the last ones."""
    tries = SHORTER_TRIES

    def shows(shorter: list[list[Step]]) -> bool:
        found = replay(shorter, strict_ping_ms)
        return found is not None and found.what == what

    size = 1
    while size < len(history) and not shows(history[-size:]):
        size *= 3
    history = history[-size:]
    steps = [step for group in history for step in group]
    piece = max(1, len(steps) // 2)
    while tries > 0:
        at = 0
        while at < len(steps) and tries > 0:
            fewer = steps[:at] + steps[at + piece :]
            tries -= 1
            if fewer and shows([fewer]):
                steps = fewer
            else:
                at += piece
        if piece == 1:
            break
        piece = max(1, piece // 4)
    return [steps] if shows([steps]) else history


def main(arguments: list[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m fuzz meaning", description="Requests with extreme values.")
    parser.add_argument("--inputs", type=int, default=20_000, help="steps")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end earlier, after so long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path(".build/fuzz"), help="for findings")
    parser.add_argument(
        "--strict-ping", type=float, default=0.0, metavar="MS", help="a PING that waits longer for the broker is wrong"
    )
    parser.add_argument("--replay", type=Path, help="play this finding only")
    parser.add_argument("--shorten", type=Path, help="leave out of this finding what it does not need")
    given = parser.parse_args(arguments)
    if given.replay is not None:
        found = replay(read(given.replay)[1], given.strict_ping)
        print("nothing" if found is None else f"{found.what}\n{found.detail}")
        return 0 if found is None else 1
    if given.shorten is not None:
        what, history = read(given.shorten)
        short = shorten(what, history, given.strict_ping)
        write(given.shorten.with_suffix(".short.json"), Finding(what), short)
        print(describe([step for group in short for step in group]))
        return 0
    run = Run(given.seed, given.folder, given.strict_ping)
    try:
        run.play(given.inputs, given.seconds)
    except KeyboardInterrupt:
        print("ended early", file=sys.stderr)
    print(run)
    return 1 if run.findings else 0
