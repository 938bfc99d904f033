"""A server with several accounts, once jetbroker and once nats-server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.daemon import Daemon
from tests.support.logins import ACCOUNTS, SERVERS, server


@pytest.fixture(scope="module", params=SERVERS)
def accounts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with server(request.param, tmp_path_factory.mktemp("accounts"), ACCOUNTS) as daemon:
        yield daemon
