"""What every test of the store gives back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store.support import bury


@pytest.fixture(autouse=True)
def _files_of_killed_stores_are_closed() -> Iterator[None]:
    yield
    bury()
