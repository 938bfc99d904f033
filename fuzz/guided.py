"""The same targets under atheris, which keeps the inputs that reach something new.

    python -m fuzz.guided config .build/fuzz/config -runs=1000000

What follows the target's name goes to libFuzzer. Python code guides it: the configuration reader, the reader of
CONNECT, and for the compiled parser the model it is compared with. `protocol-fast` is guided by what its compiled
player reaches: which events follow which, which errors follow them, the lengths of a message's parts. Needs the extra
`fuzz`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import atheris

with atheris.instrument_imports(
    include=[
        "fuzz.model",
        "fuzz.targets",
        "fuzz.connection_targets",
        "jetbroker.config",
        "jetbroker.connections.handshake",
        "json",
    ]
):
    from fuzz import generate
    from fuzz.checks import Target
    from fuzz.parsing.splitting import MOST_REACHED, SplitPlayer
    from fuzz.targets import TARGETS

FRESH = 0.1  # share of inputs that start anew
LIBFUZZER = 0.3  # share of mutations that are libFuzzer's own
COMPILED = "protocol-fast"
MODEL_EVERY = 4097  # inputs of the compiled player: the model reads one of so many


def mutator(target: Target, data: bytes, max_size: int, seed: int) -> bytes:
    """A mutation that keeps the structure more often than not."""
    random = Random(seed)
    way = random.random()
    if way < FRESH or not data:
        return target.generate(random)[:max_size]
    if way < FRESH + LIBFUZZER:
        mutated: bytes = atheris.Mutate(data, max_size)
        return mutated
    return generate.mutate(random, data)[:max_size]


class CompiledGuide:
    """Plays and changes inputs in compiled code; libFuzzer hears of each feature once, with its first input."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._player = SplitPlayer()
        self._counters = [atheris._reserve_counter() for _ in range(MOST_REACHED)]
        self._played = 0

    def check(self, data: bytes) -> None:
        """As the target's own, which is asked about one input in many and about each finding."""
        for feature in self._player.reach(data):
            atheris._trace_branch(self._counters[feature])
        self._played += 1
        if self._played % MODEL_EVERY == 0 or not self._player.check(data or b"\0"):
            self._target.check(data)

    def custom(self, data: bytes, max_size: int, seed: int) -> bytes:
        """One in 16 is libFuzzer's own mutation and one in 16 a new input."""
        if seed & 15 == 0 and data:
            mutated: bytes = atheris.Mutate(data, max_size)
            return mutated
        return self._player.change(b"" if seed & 15 == 1 else data, seed, max_size)


def main() -> None:
    """Does not return: libFuzzer ends the process."""
    target = TARGETS[sys.argv[1]]
    corpus = [argument for argument in sys.argv[2:] if not argument.startswith("-")]
    for folder in corpus:
        Path(folder).mkdir(parents=True, exist_ok=True)

    def custom(data: bytes, max_size: int, seed: int) -> bytes:
        return mutator(target, data, max_size, seed)

    check = target.check
    if target.name == COMPILED:
        guide = CompiledGuide(target)
        check, custom = guide.check, guide.custom
    atheris.Setup([sys.argv[0], *sys.argv[2:]], check, custom_mutator=custom)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
