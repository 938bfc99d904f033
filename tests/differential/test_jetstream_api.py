"""The same JetStream API requests to nats-server and to jetbroker: the JSON in the replies is equal."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client
from nats.errors import NoRespondersError

from tests.differential.jetstream_rows import Call, Conversation, Publish, Step, conversations
from tests.support.process import ServerProcess

# one loop for all: the connections are made once
pytestmark = [pytest.mark.differential, pytest.mark.asyncio(loop_scope="module")]

ROWS = conversations()
SILENCE_S = 0.5
LONG = 200  # nats-server never removes a stream whose name it cannot lengthen
# Where the answers differ on purpose, or where nats-server's depends on its inner workings: conversation -> why.
AUDITED = "the stream stores the API's own advisories; ours know less of the client"
STORED_FIRST = "the request is stored before it is answered, nats-server does it the other way round"
API_SUBJECT = "there is interest: the API listens"
EXPLAINED = {
    'consumer {"durable_name": "C", "deliver_subject": "$JS.API.X"}': API_SUBJECT,
    'stream {"subjects": ["$JS.EVENT.>"]}': AUDITED,
    'stream {"subjects": [">"], "no_ack": true}': AUDITED,
    'stream {"subjects": ["*.>"], "no_ack": true}': AUDITED,
    'stream {"subjects": ["$JS.>"], "no_ack": true}': AUDITED,
    'stream {"subjects": ["$JS.API.>"], "no_ack": true}': STORED_FIRST,
    'stream {"name": "S", "subjects": ["s.>"]} becomes {"name": "S", "subjects": [">"], "no_ack": true}': STORED_FIRST,
}
# Values that belong to one server or one moment.
OWN = {
    "active",
    "created",
    "ts",
    "time",
    "first_ts",
    "last_ts",
    "leader",
    "last_active",
    "pause_remaining",
    "total_requests",
}
EPHEMERAL = re.compile(r"^[0-9A-Za-z]{8}$")


class _Both:
    """A connection to each server."""

    def __init__(self, expected: Client, got: Client) -> None:
        self.expected = expected
        self.got = got


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both(reference_server: ServerProcess, broker: ServerProcess) -> AsyncIterator[_Both]:
    clients = [await nats.connect(server.url, allow_reconnect=False) for server in (reference_server, broker)]
    yield _Both(*clients)
    for client in clients:
        await client.close()


async def _answer(client: Client, step: Step, timeout: float) -> Any:
    subject = step.subject if isinstance(step, Publish) else step.full_subject
    try:
        message = await client.request(subject, step.payload, timeout, headers=step.headers or None)
    except NoRespondersError:
        return "503"
    except TimeoutError:
        return "silence"
    return normalised(json.loads(message.data))


async def _expected(client: Client, step: Step) -> Any:
    """nats-server's answer. It removes a deleted stream's files late and fails to make another of that name."""
    for _ in range(50):
        answer = await _answer(client, step, SILENCE_S)
        if not isinstance(answer, dict) or "error creating store" not in answer.get("error", {}).get("description", ""):
            break
        if "CONSUMER" in getattr(step, "subject", ""):
            break
        await asyncio.sleep(0.02)
    return answer


async def _got(client: Client, step: Step, expected: Any) -> Any:
    """Our answer, with time enough to come when there should be one."""
    return await _answer(client, step, SILENCE_S if expected == "silence" else 30)


def normalised(value: Any) -> Any:
    """Without what differs from server to server; the zero time stays what it is."""
    if isinstance(value, list):
        return [normalised(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    out: dict[str, Any] = {}
    for key, entry in value.items():
        if key in OWN and entry != "0001-01-01T00:00:00Z":
            out[key] = "..."
        elif key == "name" and "stream_name" in value and EPHEMERAL.match(entry):
            out[key] = "<ephemeral>"
        elif key == "api" and isinstance(entry, dict):
            out[key] = {"level": entry.get("level")}
        else:
            out[key] = normalised(entry)
    return out


async def _clean(client: Client) -> None:
    names = json.loads((await client.request("$JS.API.STREAM.NAMES", b"", 5)).data)["streams"] or []
    for name in names:
        await client.request(f"$JS.API.STREAM.DELETE.{name}", b"", 5)


async def _removed(store: Path) -> None:
    """nats-server answers before the files of a deleted stream are gone: the next stream of that name may find them."""
    async with asyncio.timeout(30):
        while any(len(path.name) < LONG for path in store.glob("jetstream/$G/streams/*")):
            await asyncio.sleep(0.005)


async def test_conversations_have_names_of_their_own() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS) > 500


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_replies_are_equal(row: Conversation, both: _Both, reference_store: Path) -> None:
    try:
        for step in row.steps:
            expected = await _expected(both.expected, step)
            got = await _got(both.got, step, expected)
            if expected != got and row.name in EXPLAINED:
                assert isinstance(got, dict) and "error" not in got
                return
            assert got == expected, step
            assert _key_order(got) == _key_order(expected), step
    finally:
        await _clean(both.expected)
        await _clean(both.got)
        await _removed(reference_store)


def _key_order(value: Any) -> Any:
    if isinstance(value, list):
        return [_key_order(entry) for entry in value]
    return [(key, _key_order(entry)) for key, entry in value.items()] if isinstance(value, dict) else None


async def test_calls_are_told_from_publishes() -> None:
    assert any(isinstance(step, Call) for step in ROWS[0].steps)
