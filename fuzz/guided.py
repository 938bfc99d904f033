"""The same targets under atheris, which keeps the inputs that reach something new.

    python -m fuzz.guided config .build/fuzz/config -runs=1000000

What follows the target's name goes to libFuzzer. Only Python code guides it: the configuration reader, the reader of
CONNECT, and for the compiled parser the model it is compared with. Needs the extra `fuzz`.
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
    from fuzz.targets import TARGETS

FRESH = 0.1  # share of inputs that start anew
LIBFUZZER = 0.3  # share of mutations that are libFuzzer's own


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


def main() -> None:
    """Does not return: libFuzzer ends the process."""
    target = TARGETS[sys.argv[1]]
    corpus = [argument for argument in sys.argv[2:] if not argument.startswith("-")]
    for folder in corpus:
        Path(folder).mkdir(parents=True, exist_ok=True)

    def custom(data: bytes, max_size: int, seed: int) -> bytes:
        return mutator(target, data, max_size, seed)

    atheris.Setup([sys.argv[0], *sys.argv[2:]], target.check, custom_mutator=custom)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
