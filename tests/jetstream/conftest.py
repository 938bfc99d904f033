"""Fixtures for tests of mirrors and sources."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support import process
from tests.support.origins import Streams, connected


@pytest.fixture
async def streams(broker: process.ServerProcess) -> AsyncIterator[Streams]:
    """The module's broker; streams go with the test that made them."""
    async with connected(broker.url) as found:
        yield found
        for name in (await found.api("STREAM.NAMES"))["streams"] or []:
            await found.api(f"STREAM.DELETE.{name}")
