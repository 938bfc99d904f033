"""Links are lost under load: copies are complete, in order and without anything twice; local clients notice nothing."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.depth import IS_DEEP
from tests.support.link_loss import play
from tests.support.process import find_nats_server

CUTS = 12 if IS_DEEP else 2
PAIRS = {
    "jetbroker": ("jetbroker", "jetbroker"),
    "nats_server_is_hub": ("nats-server", "jetbroker"),
    "nats_server_is_leaf": ("jetbroker", "nats-server"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kinds", PAIRS.values(), ids=PAIRS)
async def test_copies_over_a_link_that_is_lost_again_and_again(tmp_path: Path, kinds: tuple[str, str]) -> None:
    if "nats-server" in kinds and find_nats_server() is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # shown when it fails; see tests/support/link_loss.py
    report = await play(tmp_path, kinds, CUTS, seed)
    assert report.cuts == CUTS and report.messages
