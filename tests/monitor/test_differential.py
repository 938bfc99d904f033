"""The same requests to nats-server and to jetbroker: equal errors, equal fields of equal types."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js.api import AckPolicy, ConsumerConfig

from tests.support.clients import settle
from tests.support.compare import assert_same
from tests.support.http import get, get_json, monitor_port
from tests.support.process import find_nats_server, jetbroker, nats_server

pytestmark = pytest.mark.differential

# path in the answer, and why it is another there
OTHER_FIELDS = {
    ("feature_flags", "js_ack_fc_v2"): "switches of nats-server's own",
    ("feature_flags", "js_raft_delete_range"): "switches of nats-server's own",
}
OPEN_MAPS = {("http_req_stats",)}  # keys are data

SHAPES = [
    "/varz",
    "/connz",
    "/connz?subs=1",
    "/connz?subs=detail&auth=1",
    "/connz?state=closed",
    "/connz?state=closed&subs=1&auth=1",
    "/connz?state=closed&subs=detail",
    "/connz?acc=nope",
    "/connz?acc=$G&user=nope",
    "/subsz",
    "/subsz?subs=1&test=shape.1",
    "/subsz?subs=1&acc=nope",
    "/subsz?subs=1&offset=100000",
    "/jsz",
    "/jsz?acc=nope",
    "/jsz?accounts=1",
    "/jsz?accounts=1&streams=1",
    "/jsz?accounts=1&streams=1&consumers=1&config=1",
    "/jsz?acc=$G&consumers=1",
    "/routez",
    "/gatewayz",
    "/leafz",
]

EQUAL = [
    "/nope",
    "/varz/",
    "/VARZ",
    "//varz",
    "//varz?subs=1",
    "/a//../varz/",
    "/healthz%3fx",
    *(
        f"/connz?limit={value}"
        for value in ("x", "+5", "%2B", "0x5", "1_0", "-", "99999999999999999999", "%22", "%C3%A9")
    ),
    *(f"/connz?cid={value}" for value in ("x", "-1", "%2B5", "18446744073709551616")),
    *(f"/connz?{name}=x" for name in ("offset", "subs", "auth", "state", "sort")),
    "/connz?state=1",
    "/connz?sort=CID",
    "/connz?sort=stop",
    "/connz?sort=reason",
    "/connz?sort=stop&state=all",
    *(f"/subsz?{name}=x" for name in ("offset", "subs", "limit")),
    "/subsz?subs=detail",
    "/subsz?test=a..b",
    "/subsz?test=a.*",
    "/subsz?test=%3E",
    *(
        f"/jsz?{name}=x"
        for name in ("accounts", "streams", "consumers", "config", "limit", "offset", "leader-only", "raft")
    ),
    "/healthz",
    *(f"/healthz?{name}=1" for name in ("js-enabled-only", "js-enabled", "js-server-only", "details")),
    *(f"/healthz?{name}=x" for name in ("js-enabled-only", "js-server-only", "details")),
    "/healthz?account=nope",
    "/healthz?details=1&account=nope",
    "/healthz?stream=S",
    "/healthz?stream=S&details=1",
    "/healthz?account=$G&stream=S",
    "/healthz?account=$G&stream=nope",
    "/healthz?account=$G&stream=nope&details=1",
    "/healthz?account=$G&consumer=nope",
    "/healthz?account=$G&stream=S&consumer=d",
    "/healthz?account=$G&stream=S&consumer=nope",
    "/healthz?account=$G&stream=S&consumer=nope&details=1",
]

PAGING = [
    "limit=",
    "limit=0",
    "limit=-1",
    "limit=1",
    "limit=9223372036854775807",
    "offset=-3",
    "offset=100000",
    "cid=0",
    "cid=999999",
    "cid=999999&offset=3&limit=7",
    "limit=1&limit=x",
    "limit=1;offset=2",
    "%25zz",
    "callback=f",
    "state=Closed",
    "state=any",
    "mqtt_client=x",
]


async def populate(url: str, stop: asyncio.Event, ready: asyncio.Event) -> None:
    """Clients, subscriptions and a stream, the same on both servers, until `stop`."""

    async def ignore(message: object) -> None:
        return

    client = await nats.connect(url, name="shape", allow_reconnect=False)
    gone = await nats.connect(url, name="gone", allow_reconnect=False)
    await gone.subscribe("gone", cb=ignore)
    await settle(gone)
    await gone.close()
    await client.subscribe("shape.*", cb=ignore)
    sub = await client.subscribe("queue", queue="q", cb=ignore)
    await sub.unsubscribe(limit=9)
    await client.publish("shape.1", b"hello")
    js = client.jetstream()
    await js.add_stream(name="S", subjects=["s.>"])
    await js.add_consumer("S", ConsumerConfig(durable_name="d", ack_policy=AckPolicy.EXPLICIT))
    await js.publish("s.1", b"hello")
    await settle(client)
    ready.set()
    await stop.wait()
    await client.close()


@pytest.fixture(scope="module")
def urls_and_ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[str, int]]]:
    """nats-server's first. The second one gets nats-server's sync_interval."""
    if find_nats_server() is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    with ExitStack() as stack:
        found = []
        for make in (nats_server, jetbroker):
            folder: Path = tmp_path_factory.mktemp("monitored")
            config = folder / "shape.conf"
            config.write_text(f'jetstream {{ store_dir: "{folder}", sync_interval: "2m" }}\n')
            server = stack.enter_context(make("-c", str(config), "-m", "-1"))
            found.append((server.url, monitor_port(server)))
        yield found


@pytest.fixture
async def ports(urls_and_ports: list[tuple[str, int]]) -> AsyncIterator[tuple[int, int]]:
    stop = asyncio.Event()
    tasks = []
    for url, _ in urls_and_ports:
        ready = asyncio.Event()
        tasks.append(asyncio.create_task(populate(url, stop, ready)))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait([waiting, tasks[-1]], return_when=asyncio.FIRST_COMPLETED, timeout=20)
        assert ready.is_set(), tasks[-1]
    yield urls_and_ports[0][1], urls_and_ports[1][1]
    stop.set()
    await asyncio.gather(*tasks)


def shape(value: Any, path: tuple[str, ...] = ()) -> Any:
    """An answer with types in the place of values; a list is the kinds of elements it has, whatever their order."""
    if isinstance(value, dict):
        if path in OPEN_MAPS:
            return "map"
        return [(key, shape(inner, (*path, key))) for key, inner in value.items() if (*path, key) not in OTHER_FIELDS]
    if isinstance(value, list):
        return sorted({repr(shape(inner, (*path, "0"))) for inner in value})
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


async def test_fields_types_and_their_order(ports: tuple[int, int]) -> None:
    assert_same((target, *(shape(get_json(port, target)) for port in ports)) for target in SHAPES)


async def test_errors_and_health(ports: tuple[int, int]) -> None:
    assert_same((target, *(get(port, target) for port in ports)) for target in EQUAL)


async def test_pages(ports: tuple[int, int]) -> None:
    def page(port: int, options: str) -> Any:
        answer = get_json(port, f"/connz?{options}")
        answer["connections"] = [row.get("name") for row in answer["connections"]]
        del answer["server_id"], answer["now"]
        return answer

    assert_same((options, *(page(port, options) for port in ports)) for options in PAGING)


ACCOUNTS = """
accounts {
  A { users: [ { user: alice, password: secret } ] }
  B { users: [ { user: bob, password: secret } ] }
}
server_name: accounts
server_tags: [ "a", "b" ]
max_subscriptions: 100
http_base_path: "/below"
"""
ACCOUNT_SHAPES = (
    "/varz",
    "/connz?auth=1",
    "/connz?auth=1&acc=A",
    "/connz?auth=1&user=alice&subs=detail",
    "/connz?auth=1&user=bob",
    "/connz?state=closed&auth=1&user=mallory",
    "/connz?state=closed&auth=1&user=alice&subs=detail",
    "/subsz?acc=B",
    "/healthz",
    "/jsz",
)


async def refused(url: str) -> None:
    host, port = url.removeprefix("nats://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b'CONNECT {"user":"mallory","pass":"guess","name":"m","lang":"c","version":"1"}\r\nPING\r\n')
    async with asyncio.timeout(10):
        assert b"Authorization Violation" in await reader.read()
    writer.close()


async def test_accounts_and_logins(tmp_path: Path) -> None:
    if find_nats_server() is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    config = tmp_path / "accounts.conf"
    config.write_text(ACCOUNTS)
    found: list[dict[str, Any]] = []
    for make in (nats_server, jetbroker):
        with make("-c", str(config), "-m", "-1") as server:
            port = monitor_port(server)
            client = await nats.connect(server.url, user="alice", password="secret", name="a", allow_reconnect=False)
            await client.subscribe("x.>")
            await settle(client)
            await refused(server.url)
            gone = await nats.connect(server.url, user="alice", password="secret", name="g", allow_reconnect=False)
            await gone.subscribe("y")
            await settle(gone)
            await gone.close()
            for user in ("mallory", "alice"):
                await until_known(port, f"/below/connz?state=closed&user={user}")
            found.append({target: shape(get_json(port, f"/below{target}")) for target in ACCOUNT_SHAPES})
            found[-1]["outside"] = [get(port, target) for target in ("/varz", "/", "/below/", "/below/nope")]
            await client.close()
    assert found[0] == found[1]


async def until_known(port: int, target: str) -> None:
    async with asyncio.timeout(10):
        while not get_json(port, target)["connections"]:
            await asyncio.sleep(0.01)


# what the official dashboard reads of both answers
TOP_VARZ = (
    "server_id server_name version uptime mem cpu connections subscriptions slow_consumers "
    "in_msgs out_msgs in_bytes out_bytes now start"
).split()
TOP_CONNZ = (
    "cid ip port name subscriptions pending_bytes out_msgs in_msgs out_bytes in_bytes lang version uptime idle "
    "last_activity start rtt subscriptions_list"
).split()
TOP_SORTS = "cid start subs pending msgs_to msgs_from bytes_to bytes_from last idle uptime rtt".split()


async def test_what_nats_top_reads(ports: tuple[int, int]) -> None:
    shown = get_json(ports[1], "/varz")
    assert [name for name in TOP_VARZ if name not in shown] == []
    for sort in TOP_SORTS:
        connz = get_json(ports[1], f"/connz?limit=1024&sort={sort}&subs=1")
        assert {"num_connections", "total", "connections"} <= set(connz)
        (row,) = [row for row in connz["connections"] if row.get("name") == "shape"]
        assert [name for name in TOP_CONNZ if name not in row] == []
    assert get(ports[1], "/connz?sort=stop&state=closed").status == 200
