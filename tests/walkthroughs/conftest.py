"""Which servers play the walk-throughs."""

from __future__ import annotations

import pytest

from tests.support.process import find_nats_server

JETBROKER, NATS_SERVER = "jetbroker", "nats-server"
PAIRS = {
    "jetbroker": (JETBROKER, JETBROKER),
    "nats_server_is_hub": (NATS_SERVER, JETBROKER),
    "nats_server_is_leaf": (JETBROKER, NATS_SERVER),
    "nats_server": (NATS_SERVER, NATS_SERVER),  # what is expected is what it does
}


@pytest.fixture(params=PAIRS)
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The hub and the leaf."""
    kinds = PAIRS[request.param]
    if NATS_SERVER in kinds and find_nats_server() is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    return kinds
