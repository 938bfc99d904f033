"""`jetbroker store` in the tests' own process; the fixture `run` is in tests/daemon/conftest.py."""

from __future__ import annotations

from collections.abc import Callable

Run = Callable[..., tuple[int, str, str]]
