"""How often the event loop gets round while something works."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

Found = TypeVar("Found")


async def turns_of(work: Awaitable[Found]) -> tuple[Found, int]:
    """The result, and how often others had their turn meanwhile."""
    others = 0

    async def bystander() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(bystander())
    found = await work
    task.cancel()
    return found, others
