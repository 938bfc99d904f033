"""More than two servers: stars, chains, several accounts, roles exchanged, and circles, which are cut."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from nats.errors import NoRespondersError

from tests.support.clients import settle
from tests.support.daemon import LINE_TIMEOUT_S, Daemon
from tests.support.pairs import JETBROKER, LIVE, NATS_SERVER, PROBES, server, told
from tests.support.process import free_port

REQUESTS = 60
ROUNDS = 30  # of the news in a circle that is not cut
USERS = """
accounts {
    A: { users: [ {user: a, password: a} ] }
    B: { users: [ {user: b, password: b} ] }
}
"""


class Servers:
    """Servers by name; `{name}` in a configuration stands for that server's port for links."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ports: dict[str, int] = {}
        self.running: dict[str, Daemon] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def port(self, name: str) -> int:
        return self.ports.setdefault(name, free_port())

    def listen(self, name: str, account: str = "A", more: str = "") -> str:
        return (
            f'listen: "127.0.0.1:{self.port(name)}", '
            f"authorization {{ users: [ {{user: leaf, password: secret, account: {account}}} {more} ] }}"
        )

    def dial(self, name: str, account: str = "A", more: str = "", user: str = "leaf") -> str:
        return f'{{url: "nats-leaf://{user}:secret@127.0.0.1:{self.port(name)}", account: {account} {more}}}'

    def start(self, name: str, leafnodes: str, accounts: str = USERS, kind: str = JETBROKER) -> Daemon:
        path = self.folder / f"{name}.conf"
        path.write_text(f"server_name: {name}\nleafnodes {{ {leafnodes} }}\n{accounts}")
        self.running[name] = self._stack.enter_context(server(kind, path))
        return self.running[name]

    def linked(self, name: str, links: int) -> None:
        """Wait until a server has so many links."""
        behind = 0
        for _ in range(links):
            line = self.running[name].wait_for(LIVE, behind)
            behind = self.running[name].log.index(line, behind) + 1


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with Servers(tmp_path) as running:
        yield running


class Clients(AsyncExitStack):
    """Connections that are closed at the end."""

    async def at(self, daemon: Daemon, user: str = "a") -> NatsClient:
        client = await nats.connect(daemon.url, user=user, password=user)
        self.push_async_callback(client.close)
        return client


async def answer(client: NatsClient, subject: str, text: str, queue: str = "") -> None:
    async def respond(msg: Msg) -> None:
        await msg.respond(f"{text} {msg.data.decode()}".encode())

    await client.subscribe(subject, queue=queue, cb=respond)
    await settle(client)


async def ask(client: NatsClient, subject: str, text: str = "") -> str:
    return (await client.request(subject, text.encode(), timeout=5)).data.decode()


@pytest.mark.parametrize("hub", [JETBROKER, NATS_SERVER])
async def test_spokes_of_a_star_reach_each_other_through_the_hub(servers: Servers, hub: str) -> None:
    servers.start("hub", servers.listen("hub"), kind=hub)
    for number in range(3):
        servers.start(f"spoke{number}", f"remotes: [ {servers.dial('hub')} ]")
    servers.linked("hub", 3)
    async with Clients() as clients:
        ends = [await clients.at(servers.running[f"spoke{number}"]) for number in range(3)]
        strangers = [await clients.at(servers.running[f"spoke{number}"], "b") for number in range(3)]
        heard = [await stranger.subscribe(">") for stranger in strangers]
        for number, end in enumerate(ends):
            await answer(end, f"from.{number}", f"spoke {number}")
            for other in ends:
                await told(other, f"from.{number}")
                assert await ask(other, f"from.{number}", "hears") == f"spoke {number} hears"
        everywhere = [await end.subscribe("all.*") for end in ends]
        for end in ends:
            await answer(end, f"ready.{end.client_id}.{ends.index(end)}", "")
            for other in ends:
                await told(other, f"ready.{end.client_id}.{ends.index(end)}")
        await ends[0].publish("all.first", b"1")
        await ends[0].publish("all.second", b"2")
        for subscription in everywhere:
            assert [(await subscription.next_msg(timeout=5)).data for _ in range(2)] == [b"1", b"2"]
        assert [subscription.pending_msgs for subscription in heard] == [0, 0, 0]


async def test_a_group_across_spokes_takes_each_request_once_and_by_its_members(servers: Servers) -> None:
    servers.start("hub", servers.listen("hub"))
    for number in range(3):
        servers.start(f"spoke{number}", f"remotes: [ {servers.dial('hub')} ]")
    servers.linked("hub", 3)
    async with Clients() as clients:
        hub = await clients.at(servers.running["hub"])
        ends = [await clients.at(servers.running[f"spoke{number}"]) for number in range(3)]
        for _ in range(9):
            await answer(ends[0], "work", "many", "q")
        await answer(ends[1], "work", "one", "q")
        for number in (0, 1):
            await answer(ends[number], f"ready.{number}", "")
            await told(hub, f"ready.{number}")
            await told(ends[2], f"ready.{number}")
        for client in (hub, ends[2]):
            taken = Counter([await ask(client, "work") for _ in range(REQUESTS)])
            assert taken.total() == REQUESTS
            assert taken["many "] > taken["one "]
        assert {await ask(ends[1], "work") for _ in range(10)} == {"one "}, "members at its own end come first"


@pytest.mark.parametrize("middle", [JETBROKER, NATS_SERVER])
async def test_a_chain_passes_interest_messages_and_answers_over_two_links(servers: Servers, middle: str) -> None:
    servers.start("hub", servers.listen("hub"))
    servers.start("middle", f"{servers.listen('middle')}, remotes: [ {servers.dial('hub')} ]", kind=middle)
    servers.start("edge", f"remotes: [ {servers.dial('middle')} ]")
    servers.linked("middle", 2)
    async with Clients() as clients:
        hub, edge = await clients.at(servers.running["hub"]), await clients.at(servers.running["edge"])
        await answer(hub, "at.hub", "hub")
        await answer(edge, "at.edge", "edge", "q")
        await told(edge, "at.hub")
        await told(hub, "at.edge")
        assert await ask(edge, "at.hub", "hears") == "hub hears"
        assert await ask(hub, "at.edge", "hears") == "edge hears"
        servers.running["edge"].kill()
        async with asyncio.timeout(LINE_TIMEOUT_S):
            with pytest.raises(NoRespondersError):
                while True:
                    with suppress(TimeoutError):  # a request on its way to the killed edge is lost
                        await hub.request("at.edge", timeout=0.5)


async def test_several_accounts_have_links_of_their_own(servers: Servers) -> None:
    second = ", {user: leaf2, password: secret, account: B}"
    servers.start("hub", servers.listen("hub", "A", second))
    remotes = f"{servers.dial('hub', 'A')}, {servers.dial('hub', 'B', user='leaf2')}"
    servers.start("spoke", f"remotes: [ {remotes} ]")
    servers.linked("hub", 2)
    async with Clients() as clients:
        ends = {user: await clients.at(servers.running["spoke"], user) for user in "ab"}
        hubs = {user: await clients.at(servers.running["hub"], user) for user in "ab"}
        for user in "ab":
            await answer(hubs[user], "who", user)
        for user in "ab":
            await told(ends[user], "who")
            assert [await ask(ends[user], "who") for _ in range(5)] == [f"{user} "] * 5


SHARED = """
accounts {
    A: { users: [ {user: a, password: a} ], exports: [ {service: "ask.>"}, {stream: "feed.>"} ] }
    B: { users: [ {user: b, password: b} ], imports: [
        {service: {account: A, subject: "ask.>"}, to: "from.a.>"}
        {stream: {account: A, subject: "feed.>"}, to: "of.a.>"}
    ] }
}
"""


@pytest.mark.parametrize("spoke", [JETBROKER, NATS_SERVER])
@pytest.mark.parametrize("account", ["A", "B"])
async def test_imports_and_exports_reach_over_a_link(servers: Servers, account: str, spoke: str) -> None:
    """The exporter's clients are behind it (A), or the importer's."""
    servers.start("hub", servers.listen("hub", account), SHARED)
    servers.start("spoke", f"remotes: [ {servers.dial('hub', account)} ]", kind=spoke)
    servers.linked("spoke", 1)
    async with Clients() as clients:
        near = await clients.at(servers.running["hub"], "b" if account == "A" else "a")
        far = await clients.at(servers.running["spoke"], account.lower())
        exporter, importer = (far, near) if account == "A" else (near, far)
        await answer(exporter, "ask.me", "exporter")
        await told(importer, "from.a.me")
        assert await ask(importer, "from.a.me", "hears") == "exporter hears"
        feed = await importer.subscribe("of.a.>")
        await settle(importer)
        for _ in range(PROBES):
            await exporter.publish("feed.1", b"news")
            with suppress(TimeoutError):
                msg = await feed.next_msg(timeout=0.02)
                break
        assert (msg.subject, msg.data) == ("of.a.1", b"news")


async def test_who_dials_may_be_the_hub(servers: Servers) -> None:
    for name in ("left", "right"):
        servers.start(name, servers.listen(name))
    remotes = ", ".join(servers.dial(name, more=", hub: true") for name in ("left", "right"))
    servers.start("dials", f"remotes: [ {remotes} ]")
    servers.linked("dials", 2)
    async with Clients() as clients:
        left, right = await clients.at(servers.running["left"]), await clients.at(servers.running["right"])
        await answer(right, "at.right", "right")
        await told(left, "at.right")
        assert await ask(left, "at.right", "hears") == "right hears"


async def test_a_spoke_of_two_hubs_does_not_join_them(servers: Servers) -> None:
    for name in ("left", "right"):
        servers.start(name, servers.listen(name))
    remotes = ", ".join(servers.dial(name) for name in ("left", "right"))
    servers.start("dials", f"remotes: [ {remotes} ]")
    servers.linked("dials", 2)
    async with Clients() as clients:
        left, right = await clients.at(servers.running["left"]), await clients.at(servers.running["right"])
        spoke = await clients.at(servers.running["dials"])
        await answer(right, "at.right", "right")
        await told(spoke, "at.right")
        await answer(spoke, "behind", "")
        await told(left, "behind")
        with pytest.raises(NoRespondersError):
            await ask(left, "at.right")


@pytest.mark.parametrize("other", [JETBROKER, NATS_SERVER])
async def test_two_servers_that_dial_each_other_notice_the_loop(servers: Servers, other: str) -> None:
    for name, peer, kind in (("left", "right", JETBROKER), ("right", "left", other)):
        servers.start(name, f"{servers.listen(name)}, remotes: [ {servers.dial(peer)} ]", kind=kind)
    logs = [servers.running[name] for name in ("left", "right")]
    await first_of(logs, 'Loop detected for leafnode account="A"')
    await serves_others(logs[0])


@pytest.mark.parametrize("other", [JETBROKER, NATS_SERVER])
async def test_a_triangle_is_cut_and_the_rest_goes_on(servers: Servers, other: str) -> None:
    names = ("one", "two", "three")
    for number, name in enumerate(names):
        peer = names[(number + 1) % 3]
        kind = other if name == "two" else JETBROKER
        servers.start(name, f"{servers.listen(name)}, remotes: [ {servers.dial(peer)} ]", kind=kind)
    logs = [servers.running[name] for name in names]
    line = await first_of(logs, "Loop detected")
    assert "Delaying attempt to reconnect for 30s" in line
    for log in logs:
        await serves_others(log)
    async with Clients() as clients:
        ends = [await clients.at(log) for log in logs]
        heard = [await end.subscribe("news") for end in ends]
        for number, end in enumerate(ends):
            await answer(end, f"at.{number}", "yes")
            await told(end, f"at.{number}")
        await ends[0].publish("news")
        for _ in range(ROUNDS):
            for number, end in enumerate(ends):
                assert await ask(end, f"at.{number}") == "yes "
        # every server may have noticed the circle at its own link, so the news need not go anywhere
        counts = [subscription.pending_msgs for subscription in heard]
        assert counts[0] == 1
        assert max(counts) == 1, "a message goes round"


async def first_of(logs: list[Daemon], text: str) -> str:
    """The first line with `text` in one of these logs; which one of them gets it is not known."""
    async with asyncio.timeout(LINE_TIMEOUT_S):
        while True:
            found = next((line for log in logs for line in list(log.log) if text in line), None)
            if found is not None:
                return found
            await asyncio.sleep(0.02)


async def serves_others(daemon: Daemon) -> None:
    """Clients of another account notice nothing."""
    async with Clients() as clients:
        client = await clients.at(daemon, "b")
        await answer(client, "local", "fine")
        assert await ask(client, "local") == "fine "
