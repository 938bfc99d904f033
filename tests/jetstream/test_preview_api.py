"""The API of the technical preview of 2020: its subjects and answers, as its documents have them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import nats
import pytest
import pytest_asyncio
from nats.aio.client import Client
from nats.errors import NoRespondersError

from tests.support import process

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANSWER_S = 30
CONFIG = """
jetstream {{ store_dir: "{folder}", tech_preview_api: {preview} }}
accounts {{
  A {{ jetstream: enabled, users: [
    {{user: a, password: p}}
    {{user: limited, password: p, permissions: {{publish: {{
        allow: ["$JS.>", "_INBOX.>"], deny: ["$JS.API.STREAM.DELETE.>", "$JS.API.CONSUMER.MSG.NEXT.>"]}}}}}}
    {{user: old, password: p, permissions: {{publish: {{allow: ["$JS.STREAM.*.INFO"]}}}}}}
  ] }}
  N {{ users: [{{user: n, password: p}}] }}
}}
"""
LOGS = {
    "name": "LOGS",
    "subjects": ["logs.>"],
    "retention": "limits",
    "max_consumers": -1,
    "max_msgs": -1,
    "max_bytes": -1,
    "max_age": 86400000000000,
    "max_msg_size": -1,
    "storage": "file",
    "num_replicas": 1,
}
TAIL = {
    "stream_name": "LOGS",
    "config": {
        "delivery_subject": "out.tail",
        "durable_name": "TAIL",
        "start_time": "0001-01-01T00:00:00Z",
        "deliver_all": True,
        "ack_policy": "none",
        "max_deliver": -1,
        "replay_policy": "instant",
    },
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[process.ServerProcess]:
    folder = tmp_path_factory.mktemp("preview")
    (folder / "server.conf").write_text(CONFIG.format(folder=folder, preview="true"))
    with process.jetbroker("-c", str(folder / "server.conf")) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def client(broker: process.ServerProcess) -> AsyncIterator[Client]:
    opened = await nats.connect(f"nats://a:p@127.0.0.1:{broker.port}", allow_reconnect=False)
    await opened.request("$JS.API.INFO", b"", ANSWER_S)  # until then the account may still be on its way
    yield opened
    for name in json.loads((await opened.request("$JS.STREAM.LIST", b"", ANSWER_S)).data):
        assert await ask(opened, f"STREAM.{name}.DELETE") == b"+OK"
    await opened.close()


async def ask(client: Client, subject: str, body: Any = b"") -> bytes:
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    return (await client.request(f"$JS.{subject}", payload, ANSWER_S)).data


async def told(client: Client, subject: str, body: Any = b"") -> Any:
    return json.loads(await ask(client, subject, body))


async def test_account(client: Client) -> None:
    assert await ask(client, "ENABLED", b".") == b"+OK"
    info = await told(client, "INFO", b".")
    assert "type" not in info
    assert (info["memory"], info["storage"], info["streams"]) == (0, 0, 0)
    assert info["limits"]["max_streams"] == -1


async def test_account_without_jetstream(broker: process.ServerProcess) -> None:
    client = await nats.connect(f"nats://n:p@127.0.0.1:{broker.port}", allow_reconnect=False)
    await client.request("$JS.API.INFO", b"", ANSWER_S)
    for subject in ("ENABLED", "INFO", "STREAM.LIST", "STREAM.S.CREATE"):
        assert await ask(client, subject, {"name": "S"}) == b"-ERR 'JetStream not enabled for account'"
    await client.close()


async def test_life_of_a_stream(client: Client) -> None:
    assert await told(client, "STREAM.LIST") == []
    assert await ask(client, "STREAM.LOGS.CREATE", LOGS) == b"+OK"
    assert await ask(client, "STREAM.LOGS.CREATE", LOGS) == b"+OK"
    other = b"-ERR 'stream name already in use with a different configuration'"
    assert await ask(client, "STREAM.LOGS.CREATE", {**LOGS, "max_msgs": 5}) == other
    assert await ask(client, "STREAM.X.CREATE", LOGS) == b"-ERR 'stream name in subject does not match request'"
    assert (await ask(client, "STREAM.X.CREATE", b"{")).startswith(b"-ERR 'invalid JSON: ")
    assert await told(client, "STREAM.LIST") == ["LOGS"]
    for body in (b"hello", b"again", b"last"):
        await client.request("logs.a", body, ANSWER_S)
    info = await told(client, "STREAM.LOGS.INFO")
    assert list(info) == ["config", "created", "state"]
    assert (info["config"]["subjects"], info["state"]["messages"]) == (["logs.>"], 3)
    assert await ask(client, "STREAM.LOGS.UPDATE", {**LOGS, "max_bytes": 10737418240}) == b"+OK"
    assert (await told(client, "STREAM.LOGS.INFO"))["config"]["max_bytes"] == 10737418240
    message = await told(client, "STREAM.LOGS.MSG.BYSEQ", b"1")
    assert (message["subject"], message["seq"], base64.b64decode(message["data"])) == ("logs.a", 1, b"hello")
    assert await ask(client, "STREAM.LOGS.MSG.DELETE", b"2") == b"+OK"
    assert await ask(client, "STREAM.LOGS.MSG.BYSEQ", b"2") == b"-ERR 'no message found'"
    for wrong in (b"", b"x", b"-1", b"1.5", b"9" * 30):
        assert await ask(client, "STREAM.LOGS.MSG.DELETE", wrong) == b"-ERR 'bad request'"
    assert await ask(client, "STREAM.LOGS.PURGE") == b"+OK"
    assert (await told(client, "STREAM.LOGS.INFO"))["state"]["messages"] == 0
    typed = await told(client, "STREAM.INFO.LOGS")
    assert typed["type"] == "io.nats.jetstream.api.v1.stream_info_response"
    assert await ask(client, "STREAM.LOGS.DELETE") == b"+OK"
    for verb in ("DELETE", "INFO", "PURGE", "CONSUMERS"):
        assert await ask(client, f"STREAM.LOGS.{verb}") == b"-ERR 'stream not found'"


async def test_life_of_consumers(client: Client) -> None:
    assert await ask(client, "STREAM.LOGS.CREATE", LOGS) == b"+OK"
    for number in range(3):
        await client.request("logs.a", b"%d" % number, ANSWER_S)
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def hear(message: Any) -> None:
        heard.put_nowait(message.data)

    await client.subscribe("out.tail", cb=hear)
    assert await ask(client, "STREAM.LOGS.CONSUMER.TAIL.CREATE", TAIL) == b"+OK"
    assert [await asyncio.wait_for(heard.get(), ANSWER_S) for _ in range(3)] == [b"0", b"1", b"2"]
    info = await told(client, "STREAM.LOGS.CONSUMER.TAIL.INFO")
    assert "type" not in info
    assert (info["config"]["deliver_subject"], info["config"]["deliver_policy"]) == ("out.tail", "all")
    pull = {"stream_name": "LOGS", "config": {"durable_name": "NEW", "ack_policy": "explicit", "stream_seq": 2}}
    assert await ask(client, "STREAM.LOGS.CONSUMER.NEW.CREATE", pull) == b"+OK"
    assert await told(client, "STREAM.LOGS.CONSUMERS") == ["NEW", "TAIL"]
    inbox = client.new_inbox()
    await client.subscribe(inbox, cb=hear)
    await client.publish("$JS.NEXT.LOGS.NEW", b"", inbox)
    assert await asyncio.wait_for(heard.get(), ANSWER_S) == b"1"
    made = await ask(
        client,
        "STREAM.LOGS.EPHEMERAL.CONSUMER.CREATE",
        {"stream_name": "LOGS", "config": {"delivery_subject": "out.tail", "deliver_last": True, "ack_policy": "none"}},
    )
    assert made.startswith(b"+OK ")
    assert await asyncio.wait_for(heard.get(), ANSWER_S) == b"2"
    assert await ask(client, "STREAM.LOGS.CONSUMER.NEW.DELETE") == b"+OK"
    assert await ask(client, "STREAM.LOGS.CONSUMER.NEW.INFO") == b"-ERR 'consumer not found'"
    two = {"stream_name": "LOGS", "config": {"durable_name": "D", "deliver_all": True, "stream_seq": 2}}
    assert await ask(client, "STREAM.LOGS.CONSUMER.D.CREATE", two) == b"-ERR 'bad request'"
    unknown = {"stream_name": "LOGS", "config": {"durable_name": "D", "color": 1}}
    refused = b"-ERR 'invalid JSON: json: unknown field \"color\"'"
    assert await ask(client, "STREAM.LOGS.CONSUMER.D.CREATE", unknown) == refused


async def test_todays_permissions_hold_for_the_old_subjects(broker: process.ServerProcess, client: Client) -> None:
    assert await ask(client, "STREAM.LOGS.CREATE", LOGS) == b"+OK"
    limited = await nats.connect(f"nats://limited:p@127.0.0.1:{broker.port}", allow_reconnect=False)
    refused = b"-ERR 'permissions violation for publish to $JS.API.STREAM.DELETE.LOGS'"
    assert await ask(limited, "STREAM.LOGS.DELETE") == refused
    assert await told(limited, "STREAM.LIST") == ["LOGS"]
    await limited.publish("$JS.NEXT.LOGS.C", b"", "x")
    await limited.close()
    old = await nats.connect(f"nats://old:p@127.0.0.1:{broker.port}", allow_reconnect=False)
    assert (await ask(old, "STREAM.LOGS.INFO")).startswith(b"-ERR 'permissions violation")
    await old.close()


async def test_off_by_default(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("off")
    (folder / "server.conf").write_text(CONFIG.format(folder=folder, preview="false"))
    with process.jetbroker("-c", str(folder / "server.conf")) as started:
        client = await nats.connect(f"nats://a:p@127.0.0.1:{started.port}", allow_reconnect=False)
        await client.request("$JS.API.INFO", b"", ANSWER_S)
        for subject in ("ENABLED", "INFO", "STREAM.LIST", "STREAM.S.INFO", "NEXT.S.C"):
            with pytest.raises(NoRespondersError):
                await ask(client, subject)
        await client.close()
