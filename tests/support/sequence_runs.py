"""Sequences played against nats-server and jetbroker side by side, many at a time."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Callable
from collections.abc import Sequence as Some
from dataclasses import dataclass
from typing import Any

from tests.support.process import ServerProcess
from tests.support.sequence_known import is_known
from tests.support.sequence_play import Player
from tests.support.sequence_steps import Sequence, Step
from tests.support.sequence_wire import Wire

SAME_S = 10.0  # until both servers' states are the same
ASK_AGAIN_S = 0.002

_NAMES = (f"Q{number}Q" for number in itertools.count(1))


@dataclass
class Difference:
    """Where the servers went apart: the steps up to there, then both sides."""

    seed: int
    stream: dict[str, Any]
    steps: Some[Step]
    theirs: Any
    ours: Any

    def __str__(self) -> str:
        lines = [f"seed {self.seed}, stream {json.dumps(self.stream)}", *(f"  {step}" for step in self.steps)]
        return "\n".join([*lines, *_parted(self.theirs, self.ours, "")])


def _parted(theirs: Any, ours: Any, place: str) -> list[str]:
    if theirs == ours:
        return []
    if isinstance(theirs, dict) and isinstance(ours, dict):
        pairs = [(key, theirs.get(key, "missing"), ours.get(key, "missing")) for key in {**theirs, **ours}]
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        pairs = [(number, *pair) for number, pair in enumerate(zip(theirs, ours, strict=True))]
    else:
        return [f"{place}\n    nats-server {theirs}\n    jetbroker   {ours}"]
    return [line for key, left, right in pairs for line in _parted(left, right, f"{place}/{key}")]


class Run:
    """One sequence on both servers. It ends at its first difference; `known` ones are none."""

    def __init__(self, wires: Some[Wire], sequence: Sequence) -> None:
        name = next(_NAMES)
        self.sequence = sequence
        self.players = [Player(wire, name, sequence) for wire in wires]
        self.at = 0
        self.difference: Difference | None = None
        self.ended = False

    async def open(self) -> None:
        answers = await asyncio.gather(*(player.open() for player in self.players))
        self._compare(*answers)

    async def play(self) -> None:
        """Up to a restart, or to the end."""
        while self.at < len(self.sequence.steps) and not self.ended:
            step = self.sequence.steps[self.at]
            self.at += 1
            if step[0] == "restart":
                return
            self._compare(*await asyncio.gather(*(player.play(step) for player in self.players)))
            if self.at > self.sequence.prepare:
                await self.same()

    async def same(self) -> None:
        """Wait until both servers tell the same state; ours has it at once, the other one finishes things later."""
        theirs, ours = (player.state for player in self.players)
        until = time.monotonic() + SAME_S
        while not self.ended:
            left, right = await theirs(), await ours()
            if left == right:
                return
            if time.monotonic() > until:
                self._compare(left, right)
                return
            await asyncio.sleep(ASK_AGAIN_S)

    async def close(self) -> None:
        await asyncio.gather(*(player.api("STREAM.DELETE.S") for player in self.players))

    def _compare(self, theirs: Any, ours: Any) -> None:
        if theirs == ours or self.ended:
            return
        self.ended = True
        done = self.sequence.steps[: self.at]
        places = [line.partition("\n")[0] for line in _parted(theirs, ours, "")]
        if not is_known(self.sequence.stream, done, places, theirs, ours):
            self.difference = Difference(self.sequence.seed, self.sequence.stream, done, theirs, ours)


def restarted(server: ServerProcess) -> None:
    """Stop it and start it again."""
    server.stop()
    server.start()


async def play_all(
    servers: Some[ServerProcess], sequences: Some[Sequence], restart: Callable[[ServerProcess], object] = restarted
) -> list[Difference]:
    """Play these side by side; `restart` is called for each server when all have come to their restart."""
    wires = [await Wire().open(server.port) for server in servers]
    runs = [Run(wires, sequence) for sequence in sequences]
    await asyncio.gather(*(run.open() for run in runs))
    await asyncio.gather(*(run.play() for run in runs))
    if any(run.at < len(run.sequence.steps) for run in runs if not run.ended):
        for wire in wires:
            await wire.close()
        for server in servers:
            await asyncio.to_thread(restart, server)
        wires = [await Wire().open(server.port) for server in servers]
        for run in runs:
            for player, wire in zip(run.players, wires, strict=True):
                player.connected(wire)
        await asyncio.gather(*(run.same() for run in runs))
        await asyncio.gather(*(run.play() for run in runs))
    await asyncio.gather(*(run.close() for run in runs))
    for wire in wires:
        await wire.close()
    return [run.difference for run in runs if run.difference is not None]
