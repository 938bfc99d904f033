"""Accounts do not see each other: neither messages nor streams. Asked of jetbroker and of nats-server."""

from __future__ import annotations

import json
from typing import Any

import nats.errors
import pytest
from nats.aio.client import Client
from nats.js.errors import NotFoundError

from tests.support.clients import settle
from tests.support.daemon import Daemon
from tests.support.logins import connect


async def api(client: Client, subject: str, **body: Any) -> dict[str, Any]:
    """The JetStream API's answer, errors included."""
    answer = await client.request(f"$JS.API.{subject}", json.dumps(body).encode() if body else b"", timeout=5)
    found: dict[str, Any] = json.loads(answer.data)
    return found


async def test_messages_stay_in_their_account(accounts: Daemon) -> None:
    ann, hal = (
        await connect(accounts, user="ann", password="a"),
        await connect(accounts, user="hal", password="hashed-secret"),
    )
    bob, sys = await connect(accounts, user="bob", password="b"), await connect(accounts, user="sys", password="s")
    seen = [await client.subscribe(">") for client in (bob, sys)]
    own = await hal.subscribe("news.*")
    for client in (hal, bob, sys):
        await settle(client)
    await ann.publish("news.a", b"from ann")
    await settle(ann)
    assert (await own.next_msg(timeout=5)).data == b"from ann"
    for subscription, client in zip(seen, (bob, sys), strict=True):
        await settle(client)
        mine = [message for message in _pending(subscription) if message.subject.startswith("news")]
        assert mine == []
    await bob.subscribe("service")
    await settle(bob)
    with pytest.raises(nats.errors.NoRespondersError):
        await ann.request("service", b"", timeout=5)
    for client in (ann, hal, bob, sys):
        await client.close()


def _pending(subscription: Any) -> list[Any]:
    messages = []
    while subscription.pending_msgs:
        messages.append(subscription._pending_queue.get_nowait())
    return messages


async def test_a_stream_of_one_account_is_invisible_in_another(accounts: Daemon) -> None:
    ann, bob = await connect(accounts, user="ann", password="a"), await connect(accounts, user="bob", password="b")
    await ann.jetstream().add_stream(name="S", subjects=["s.>"])
    assert (await ann.jetstream().publish("s.1", b"ann's")).seq == 1
    with pytest.raises(NotFoundError) as caught:
        await bob.jetstream().stream_info("S")
    assert caught.value.err_code == 10059
    assert (await api(bob, "STREAM.NAMES"))["total"] == 0
    await bob.publish("s.1", b"bob's")
    await settle(bob)
    assert (await ann.jetstream().stream_info("S")).state.messages == 1
    # the same name and the same subjects again, and each keeps its own
    await bob.jetstream().add_stream(name="S", subjects=["s.>"])
    await bob.jetstream().publish("s.2", b"bob's")
    assert (await bob.jetstream().get_msg("S", 1)).subject == "s.2"
    assert (await ann.jetstream().get_msg("S", 1)).subject == "s.1"
    assert (await api(ann, "INFO"))["streams"] == 1
    await ann.jetstream().delete_stream("S")
    assert (await bob.jetstream().stream_info("S")).state.messages == 1
    await bob.jetstream().delete_stream("S")
    await ann.close()
    await bob.close()


async def test_an_account_without_jetstream(accounts: Daemon) -> None:
    cat = await connect(accounts, user="cat", password="c")
    for subject, body in (
        ("INFO", {}),
        ("STREAM.NAMES", {}),
        ("STREAM.CREATE.S", {"name": "S"}),
        ("STREAM.INFO.S", {}),
    ):
        answer = await api(cat, subject, **body)
        assert answer["error"] == {
            "code": 503,
            "err_code": 10039,
            "description": "JetStream not enabled for account",
        }
    await cat.close()


async def test_the_system_account_has_no_jetstream(accounts: Daemon) -> None:
    sys = await connect(accounts, user="sys", password="s")
    answer = await api(sys, "INFO")
    assert answer["error"]["err_code"] == 10039
    await sys.close()
