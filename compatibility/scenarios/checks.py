"""Runs the checks of a scenario and prints a line for each."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence

CHECK_TIMEOUT_S = 30.0

Check = Callable[[str], Awaitable[None]]


class Wrong(Exception):
    """A library got something else than a NATS server gives."""


def expect(got: object, wanted: object) -> None:
    """Raises Wrong when they are not equal."""
    if got != wanted:
        raise Wrong(f"got {got!r}, not {wanted!r}")


async def _play(checks: Sequence[Check], url: str) -> None:
    for check in checks:
        name = getattr(check, "__name__", "check").replace("_", " ")
        try:
            await asyncio.wait_for(check(url), CHECK_TIMEOUT_S)
        except Exception as error:
            # whatever a library raises, its check has failed; the others go on
            print(f"not ok - {name}: {type(error).__name__}: {' '.join(str(error).split())}", flush=True)
        else:
            print(f"ok - {name}", flush=True)


def play(checks: Sequence[Check]) -> None:
    """Run each check with the server's URL, the first argument of the command line."""
    asyncio.run(_play(checks, sys.argv[1]))
