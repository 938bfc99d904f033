"""Random sequences of publishes, acks, API calls and restarts: both servers answer, deliver and count the same.

`make test` plays the first 100, `make test-deep` SEQUENCES of them. For them alone:

    SEQUENCES=20000 python -m pytest tests/differential/test_sequences.py

A seed stands for the same sequence everywhere; `FIRST_SEQUENCE` is the first one. With `SEQUENCE_RESTARTS=1` both
servers are stopped and started once in each. What differs on purpose ends a sequence (`sequence_known`).
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.differential.conftest import Pair
from tests.support.sequence_runs import play_all
from tests.support.sequence_steps import make

pytestmark = pytest.mark.differential

COUNT = int(os.environ.get("SEQUENCES", "100"))
FIRST = int(os.environ.get("FIRST_SEQUENCE", "0"))
AT_ONCE = 100
RESTARTS = os.environ.get("SEQUENCE_RESTARTS", "") == "1"


@pytest.mark.timeout(0 if COUNT > AT_ONCE else 600)
async def test_both_servers_do_the_same(pair_of: Callable[[str], Pair]) -> None:
    pair = pair_of("jetstream { store_dir: STORE }")
    different = []
    for first in range(FIRST, FIRST + COUNT, AT_ONCE):
        seeds = range(first, min(first + AT_ONCE, FIRST + COUNT))
        sequences = [make(seed, restarts=RESTARTS) for seed in seeds]
        different += await play_all((pair.reference, pair.broker), sequences)
    assert not different, "\n\n".join(map(str, different))
