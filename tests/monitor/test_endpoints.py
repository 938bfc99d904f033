"""The endpoints of a running broker: what they show of clients, subscriptions and streams."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig

from tests.support.clients import settle
from tests.support.http import get, get_json, monitor_port
from tests.support.process import ServerProcess, jetbroker

EVENT_TIMEOUT_S = 20.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    store: Path = tmp_path_factory.mktemp("store")
    with jetbroker("-js", "-sd", str(store), "-m", "-1") as running:
        asyncio.run(first_answer(running.url))
        yield running


async def first_answer(url: str) -> None:
    """JetStream of an empty account subscribes behind the start: its first answer says that it has."""
    connection = await nats.connect(url, allow_reconnect=False)
    await connection.jetstream().account_info()
    await connection.close()


@pytest.fixture(scope="module")
def port(server: ServerProcess) -> int:
    return monitor_port(server)


@pytest.fixture
async def client(server: ServerProcess) -> AsyncIterator[Client]:
    connection = await nats.connect(server.url, name="watched", allow_reconnect=False)
    yield connection
    await connection.close()


async def ignore(message: object) -> None:
    """A callback for subscriptions whose messages nobody looks at."""


async def until_closed(port: int, name: str) -> dict[str, Any]:
    """The closed connection of this name, as soon as the broker knows that it is closed."""
    async with asyncio.timeout(EVENT_TIMEOUT_S):
        while True:
            rows = get_json(port, "/connz?state=closed&subs=detail&limit=10000")["connections"]
            for row in rows:
                if row.get("name", "") == name:
                    found: dict[str, Any] = row
                    return found
            await asyncio.sleep(0.01)


async def test_varz_counts_messages_of_open_and_closed_connections(server: ServerProcess, port: int) -> None:
    await until_closed(port, "")
    before = get_json(port, "/varz")
    first = await nats.connect(server.url, name="counted", allow_reconnect=False)
    await first.subscribe("count.*", cb=ignore)
    for _ in range(10):
        await first.publish("count.a", b"12345")
    await settle(first)
    during = get_json(port, "/varz")
    await first.close()
    await until_closed(port, "counted")
    after = get_json(port, "/varz")
    for later in (during, after):
        changes = {name: later[name] - before[name] for name in ("in_msgs", "in_bytes", "out_msgs", "out_bytes")}
        assert changes == {"in_msgs": 10, "in_bytes": 50, "out_msgs": 10, "out_bytes": 50}
        assert later["in_client_msgs"] == later["in_msgs"]
    assert during["connections"] == before["connections"] + 1
    assert during["total_connections"] == after["total_connections"] == before["total_connections"] + 1
    assert during["subscriptions"] == before["subscriptions"] + 1


def test_varz_says_what_the_process_uses(server: ServerProcess, port: int) -> None:
    shown = get_json(port, "/varz")
    rss = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert 0.5 < shown["mem"] / rss < 2
    assert 0 <= shown["cpu"] <= 100 * shown["cores"]
    assert (shown["version"], shown["port"], shown["http_port"]) == ("2.14.5", server.port, port)
    assert shown["go"].startswith("jetbroker ")
    start, now = (datetime.fromisoformat(re.sub(r"\.\d*", "", shown[name])) for name in ("start", "now"))
    assert re.fullmatch(r"(\d+[ydhm])*\d+s", shown["uptime"])
    assert 0 <= (now - start).total_seconds() < 600
    assert shown["http_req_stats"]["/varz"] >= 1


def test_the_page_links_to_the_endpoints(port: int) -> None:
    reply = get(port, "/")
    assert (reply.status, reply.content_type) == (200, "text/html; charset=utf-8")
    links = re.findall(rb'href="\.(/\w+)"', reply.body)
    assert links
    assert all(get(port, link.decode()).status == 200 for link in links)


async def test_connz_shows_a_connection(client: Client, port: int) -> None:
    await client.subscribe("a.*", cb=ignore)
    sub = await client.subscribe("b", queue="workers", cb=ignore)
    await client.publish("a.1", b"hello")
    await settle(client)
    cid = client.client_id
    (row,) = get_json(port, f"/connz?cid={cid}")["connections"]
    assert (row["in_msgs"], row["in_bytes"], row["out_msgs"], row["out_bytes"]) == (1, 5, 1, 5)
    assert (row["name"], row["lang"], row["subscriptions"]) == ("watched", "python3", 2)
    assert (row["ip"], row["kind"], row["type"]) == ("127.0.0.1", "Client", "nats")
    assert row["start"] <= row["last_activity"]
    assert row["rtt"] != "0s"
    assert not {"subscriptions_list", "subscriptions_list_detail", "authorized_user", "account"} & set(row)
    (row,) = get_json(port, f"/connz?cid={cid}&subs=1")["connections"]
    assert row["subscriptions_list"] == ["a.*", "b"]
    await sub.unsubscribe(limit=7)
    await settle(client)
    (row,) = get_json(port, f"/connz?cid={cid}&subs=detail&auth=1")["connections"]
    assert row["subscriptions_list_detail"] == [
        {"subject": "a.*", "sid": "1", "msgs": 1, "cid": cid},
        {"subject": "b", "qgroup": "workers", "sid": "2", "msgs": 0, "max": 7, "cid": cid},
    ]
    assert row["name_tag"] == "$G"


async def test_idle_does_not_count_keep_alive(client: Client, port: int) -> None:
    await client.publish("quiet", b"")
    await settle(client)
    (before,) = get_json(port, f"/connz?cid={client.client_id}")["connections"]
    await settle(client)  # PING, PONG
    (after,) = get_json(port, f"/connz?cid={client.client_id}")["connections"]
    assert before["last_activity"] == after["last_activity"]
    await client.publish("quiet", b"")
    await settle(client)
    (after,) = get_json(port, f"/connz?cid={client.client_id}")["connections"]
    assert before["last_activity"] < after["last_activity"]


async def test_closed_connections_are_remembered(server: ServerProcess, port: int) -> None:
    gone = await nats.connect(server.url, name="gone", allow_reconnect=False)
    await gone.subscribe("x.gone", cb=ignore)
    await gone.publish("x.gone", b"abc")
    await settle(gone)
    await gone.close()
    row = await until_closed(port, "gone")
    assert row["reason"] == "Client Closed"
    assert row["start"] <= row["last_activity"] <= row["stop"]
    assert (row["in_msgs"], row["out_bytes"], row["subscriptions"]) == (1, 3, 1)
    (sub,) = row["subscriptions_list_detail"]
    assert sub == {
        "account": "$G", "account_tag": "$G", "subject": "x.gone", "sid": "1", "msgs": 1, "cid": row["cid"]
    }  # fmt: skip
    everything = get_json(port, "/connz?state=all&limit=10000")["connections"]
    assert "gone" in [other.get("name") for other in everything]
    assert "gone" not in [other.get("name") for other in get_json(port, "/connz")["connections"]]
    stops = [other["stop"] for other in get_json(port, "/connz?state=closed&sort=stop")["connections"]]
    assert stops == sorted(stops, reverse=True)
    late = await nats.connect(server.url, name="late", allow_reconnect=False)
    await asyncio.sleep(0.2)  # it is idle for longer when it ends, and ends later
    await late.close()
    await until_closed(port, "late")
    idle = get_json(port, "/connz?state=all&sort=idle")["connections"]
    active = [datetime.fromisoformat(other["last_activity"]) for other in idle]
    assert active == sorted(active)


async def test_sorting_and_paging(server: ServerProcess, port: int) -> None:
    clients = [await nats.connect(server.url, name=f"sorted{n}", allow_reconnect=False) for n in range(4)]
    try:
        for n, each in enumerate(clients):
            for k in range(n):
                await each.subscribe(f"sorted.{n}.{k}", cb=ignore)
            for _ in range(3 - n):
                await each.publish("nobody", b"x" * (n * n * 50 + 1))
            await settle(each)

        def rows(sort: str) -> list[dict[str, Any]]:
            every = get_json(port, f"/connz?sort={sort}")["connections"]
            return [row for row in every if row.get("name", "").startswith("sorted")]

        def order(sort: str) -> list[int]:
            return [int(row["name"][-1]) for row in rows(sort)]

        def activity(sort: str) -> list[datetime]:
            return [datetime.fromisoformat(row["last_activity"]) for row in rows(sort)]

        assert order("cid") == order("start") == [0, 1, 2, 3]
        assert order("subs") == order("uptime") == [3, 2, 1, 0]
        assert order("msgs_from") == [0, 1, 2, 3]
        # the broker's own first PING comes when it comes: the answer is judged by what it says itself
        assert activity("last") == sorted(activity("last"), reverse=True)
        assert activity("idle") == sorted(activity("idle"))
        assert order("bytes_from") == [2, 1, 0, 3]
        for sort in ("pending", "msgs_to", "bytes_to", "rtt"):
            assert sorted(order(sort)) == [0, 1, 2, 3]
        whole = get_json(port, "/connz?sort=cid")
        pages = [get_json(port, f"/connz?sort=cid&limit=1&offset={at}") for at in range(whole["total"] + 1)]
        assert [row["cid"] for page in pages for row in page["connections"]] == [
            row["cid"] for row in whole["connections"]
        ]
        assert pages[-1]["connections"] == []
        assert all(page["total"] == whole["total"] and page["limit"] == 1 for page in pages)
    finally:
        for each in clients:
            await each.close()


async def test_connections_by_subject(client: Client, port: int) -> None:
    await client.subscribe("orders.*.new", cb=ignore)
    await settle(client)

    def names(subject: str) -> list[str]:
        rows = get_json(port, f"/connz?acc=$G&filter_subject={subject}")["connections"]
        return [row["name"] for row in rows]

    assert names("orders.eu.new") == names("orders.%3E") == names("orders.*.new") == ["watched"]
    assert names("orders.eu.old") == names("orders") == names("a..b") == []


async def test_subsz(client: Client, port: int) -> None:
    before = get_json(port, "/subsz")
    await client.subscribe("subsz.*", cb=ignore)
    await client.subscribe("subsz.1", queue="q", cb=ignore)
    await client.publish("subsz.1", b"")
    await settle(client)
    after = get_json(port, "/subsz")
    assert after["num_subscriptions"] == before["num_subscriptions"] + 2
    assert after["num_inserts"] == before["num_inserts"] + 2
    assert after["num_removes"] == before["num_removes"]
    assert after["max_fanout"] >= 2
    assert 0 <= after["cache_hit_rate"] <= 1
    found = get_json(port, "/subsz?subs=1&test=subsz.1")
    assert found["total"] == 2
    assert sorted((row["subject"], row.get("qgroup"), row["cid"]) for row in found["subscriptions_list"]) == [
        ("subsz.*", None, client.client_id),
        ("subsz.1", "q", client.client_id),
    ]
    whole = get_json(port, "/subsz?subs=1&limit=100000")
    assert whole["total"] == len(whole["subscriptions_list"]) == after["num_subscriptions"]
    pages = [
        row
        for offset in range(0, whole["total"], 7)
        for row in get_json(port, f"/subsz?subs=1&limit=7&offset={offset}")["subscriptions_list"]
    ]
    assert pages == whole["subscriptions_list"]
    await client.drain()
    async with asyncio.timeout(EVENT_TIMEOUT_S):
        while get_json(port, "/subsz")["num_removes"] < before["num_removes"] + 2:
            await asyncio.sleep(0.01)


async def test_jsz_and_health_of_streams(client: Client, port: int) -> None:
    js = client.jetstream()
    await js.add_stream(name="ORDERS", subjects=["orders.>"], max_bytes=100_000)
    await js.add_consumer("ORDERS", ConsumerConfig(durable_name="bill", ack_policy=AckPolicy.EXPLICIT))
    for _ in range(5):
        await js.publish("orders.new", b"12345")
    shown = get_json(port, "/jsz?accounts=1&streams=1&consumers=1&config=1")
    assert (shown["streams"], shown["consumers"], shown["messages"], shown["reserved_storage"]) == (1, 1, 5, 100_000)
    (account,) = shown["account_details"]
    (stream,) = account["stream_detail"]
    assert (account["name"], stream["name"], stream["config"]["subjects"]) == ("$G", "ORDERS", ["orders.>"])
    assert (stream["state"]["messages"], stream["state"]["consumer_count"]) == (5, 1)
    assert [(consumer["name"], consumer["num_pending"]) for consumer in stream["consumer_detail"]] == [("bill", 5)]
    assert get_json(port, "/varz")["jetstream"]["stats"]["storage"] == shown["bytes"] > 0
    assert get_json(port, "/healthz?account=$G&stream=ORDERS&consumer=bill") == {"status": "ok"}
    assert get(port, "/healthz?account=$G&stream=ORDERS&consumer=no").status == 404
    await js.delete_stream("ORDERS")
    assert get(port, "/healthz?account=$G&stream=ORDERS").status == 404
    assert get_json(port, "/jsz")["streams"] == 0
