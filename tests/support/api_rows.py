"""Requests of several users to the JetStream API, played on two servers: answers, and what listeners hear of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import NoRespondersError

from tests.support.clients import settle

API = "$JS.API."
ANSWER_S = 30.0
SILENCE_S = 3.0  # a server that has not answered by then stays silent; all are asked at once
LAST = "the last request"
SETTLED_S = 0.5  # nothing more is told when nothing was told for so long
# of one server, or of the moment
OWN = frozenset(
    "active created ts time first_ts last_ts leader last_active start rtt id timestamp total errors server lang ver "
    "host cid inflight".split()
)


@dataclass(frozen=True)
class Ask:
    """One request."""

    user: str
    subject: str
    body: Any = b""

    @property
    def payload(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()

    def __str__(self) -> str:
        return f"{self.user} {self.subject} {self.payload.decode()[:200]}"


def comparable(value: Any) -> Any:
    """Without what differs from server to server; audits hold answers, as texts."""
    if isinstance(value, list):
        return [comparable(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for key, entry in value.items():
        if key in OWN and not isinstance(entry, dict | list):
            found[key] = "..."
        elif key == "response" and isinstance(entry, str) and entry.startswith("{"):
            found[key] = comparable(json.loads(entry))
        else:
            found[key] = comparable(entry)
    return found


@asynccontextmanager
async def clients_of(port: int, users: Iterable[str]) -> AsyncIterator[dict[str, Client]]:
    """A connection of each user; the password is `p`."""
    opened = {user: await nats.connect(f"nats://{user}:p@127.0.0.1:{port}", allow_reconnect=False) for user in users}
    try:
        yield opened
    finally:
        for client in opened.values():
            await client.close()


async def answer(client: Client, ask: Ask, timeout: float = ANSWER_S) -> Any:
    """What comes: parsed JSON, "503", "silence" or the text itself."""
    try:
        message = await client.request(ask.subject, ask.payload, timeout)
    except NoRespondersError:
        return "503"
    except TimeoutError:
        return "silence"
    try:
        return comparable(json.loads(message.data))
    except ValueError:
        return message.data


async def in_order(port: int, rows: Sequence[Ask]) -> list[Any]:
    """One after the other; all of them are answered."""
    async with clients_of(port, {row.user for row in rows}) as clients:
        return [await answer(clients[row.user], row) for row in rows]


async def at_once(port: int, rows: Sequence[Ask]) -> list[Any]:
    """All at the same time, for those that change nothing and may not be answered."""
    async with clients_of(port, {row.user for row in rows}) as clients:
        return list(await asyncio.gather(*(answer(clients[row.user], row, SILENCE_S) for row in rows)))


class Listener:
    """What a user hears on a subject."""

    def __init__(self, user: str) -> None:
        self.user = user
        self.heard: list[tuple[str, str, Any]] = []

    async def listen(self, client: Client, subject: str) -> None:
        """From now on."""

        async def keep(message: Msg) -> None:
            self.heard.append((self.user, message.subject, comparable(json.loads(message.data))))

        await client.subscribe(subject, cb=keep)
        await settle(client)

    async def wait(self) -> None:
        """Until the last request that is audited was heard of, and nothing more for a moment."""
        async with asyncio.timeout(ANSWER_S):
            while not any(fields.get("request") == LAST for _, _, fields in self.heard):
                await asyncio.sleep(0.01)
        before = -1
        while before != len(self.heard):
            before = len(self.heard)
            await asyncio.sleep(SETTLED_S)

    def events(self) -> list[tuple[str, str, Any]]:
        """Without that of the last request."""
        return [event for event in self.heard if event[2].get("request") != LAST]
