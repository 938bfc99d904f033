"""The dashboard over HTTP: who is answered, who may see what, tables, messages, and every bound."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import nats
import pytest
from nats.js.api import ConsumerConfig, StorageType, StreamConfig

from jetbroker import limits
from jetbroker.monitor.dashboard.guard import Refused
from jetbroker.monitor.dashboard.logins import EVERYTHING, Failures, Logins
from jetbroker.monitor.dashboard.messages import newest
from jetbroker.monitor.dashboard.sampling import Sample, StreamRow
from jetbroker.monitor.dashboard.tables import Wanted, rows_of
from jetbroker.monitor.http import Request
from jetbroker.monitor.query import Query
from tests.support.certificates import make
from tests.support.http import TIMEOUT_S, get, monitor_port, raw
from tests.support.process import ServerProcess, free_port, jetbroker
from tests.support.turns import turns_of

BOB_HASH = "$2a$04$bI8BUpTXBTWWGVFsh41T2usS/z6ed.VXGQnkEBwWIFnxud8LwmpUi"  # of "b0bs"
OPEN = """
http: "127.0.0.1:-1"
dashboard: true
dashboard_hosts: ["broker.example", "Other.Example."]
"""
CLOSED = f"""
http: "127.0.0.1:-1"
dashboard: true
accounts {{
  A {{
    jetstream: enabled
    users: [
      {{ user: alice, password: "s3cret" }}
      {{ user: limited, password: "s3cret", permissions {{ subscribe: "orders.>" }} }}
      {{ user: browser, password: "s3cret", allowed_connection_types: [ WEBSOCKET ] }}
    ]
  }}
  B {{ jetstream: enabled, users: [ {{ user: bob, password: "{BOB_HASH}" }} ] }}
  SYS {{ users: [ {{ user: admin, password: "s3cret" }} ] }}
}}
system_account: SYS
no_auth_user: alice
"""
DATA = (
    "/summary",
    "/rows?table=streams",
    "/messages?account=A&stream=S",
    "/message?account=A&stream=S&seq=1",
    "/events",
)
FILES = ("", "/style.css", "/app.js", "/format.js", "/tables.js", "/messages.js", "/icon.svg")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        assert self.status == 200, self
        return json.loads(self.body)


def ask(
    port: int, path: str, method: str = "GET", login: str = "", source: str = "127.0.0.1", **headers: str
) -> Answer:
    """A request for something below /dashboard; `headers` with underscores for dashes. `login`: `name:password`.

    `source`: the address it comes from. Wrong logins of one are bounded: each test that has some takes its own.
    """
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if login:
        sent["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S, source_address=(source, 0))
    try:
        connection.putrequest(method, f"/dashboard{path}", skip_host="Host" in sent)
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        shown = {name.lower(): value for name, value in response.getheaders()}
        endless = response.status == 200 and path.startswith("/events") and method == "GET"
        return Answer(response.status, shown, response.read1(65536) if endless else response.read())
    finally:
        connection.close()


def run_with(folder: Path, text: str) -> ServerProcess:
    config = folder / "broker.conf"
    config.write_text(f'{text}\njetstream {{ store_dir: "{folder}/store" }}')
    return jetbroker("-c", str(config))


@pytest.fixture(scope="module")
def open_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Without logins."""
    with run_with(tmp_path_factory.mktemp("open"), OPEN) as running:
        yield running


@pytest.fixture(scope="module")
def closed_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """With logins; accounts A and B have a stream S each."""
    with run_with(tmp_path_factory.mktemp("closed"), CLOSED) as running:
        asyncio.run(make_streams(running))
        yield running


async def make_streams(server: ServerProcess) -> None:
    for user, password in (("alice", "s3cret"), ("bob", "b0bs")):
        client = await nats.connect(server.url, user=user, password=password, allow_reconnect=False)
        js = client.jetstream()
        await js.add_stream(StreamConfig(name="S", subjects=["s.>"]))
        await js.publish("s.one", f"of {user}".encode())
        await client.close()


@pytest.fixture
def port(open_broker: ServerProcess) -> int:
    return monitor_port(open_broker)


# --- the page ---


def test_there_is_none_unless_it_is_configured(tmp_path: Path) -> None:
    with run_with(tmp_path, 'http: "127.0.0.1:-1"') as server:
        off = monitor_port(server)
        for path in (*FILES, *DATA):
            assert ask(off, path).status == 404, path
        assert b"dashboard" not in get(off, "/").body


def test_the_page_loads_nothing_from_elsewhere_and_forbids_it(port: int) -> None:
    for path in FILES:
        answer = ask(port, path)
        assert answer.status == 200, path
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers
        assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", answer.text) == [], path
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|\son\w+=|style=", answer.text)
    page = ask(port, "").text
    for name in re.findall(r'(?:src|href)="dashboard(/[^"]+)"', page):
        assert name in FILES
    assert 'href="./dashboard"' in get(port, "/").body.decode()


def test_a_slash_behind_it_leads_to_the_page(port: int) -> None:
    answer = ask(port, "/")
    assert (answer.status, answer.headers["location"]) == (307, "../dashboard")
    assert ask(port, "/nothing").status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_it_is_read_only(port: int, method: str) -> None:
    for path in ("", "/summary", "/events"):
        answer = ask(port, path, method)
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


def test_head_has_no_body(port: int) -> None:
    for path in ("", "/summary", "/events"):
        answer = ask(port, path, "HEAD")
        assert (answer.status, answer.body) == (200, b"")


# --- requests of other sites ---


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8222", "broker.example.evil", "", "[::1", "a b"],
)
def test_forged_hosts_are_refused(port: int, host: str) -> None:
    for path in ("", "/app.js", "/summary", "/events"):
        assert ask(port, path, Host=host).status in (400, 403), path


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:1", "[::1]:8222", "10.1.2.3", "broker.example", "other.example:80", socket.gethostname()],
)
def test_addresses_and_names_of_the_broker_are_answered(port: int, host: str) -> None:
    assert ask(port, "/summary", Host=host).status == 200


def test_no_host_is_no_name(port: int) -> None:
    assert b" 403 " in raw(port, b"GET /dashboard/summary HTTP/1.0\r\n\r\n")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
def test_data_is_not_for_other_sites(port: int, site: str) -> None:
    visit = {"Sec_Fetch_Site": site, "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    for path in (*FILES[1:], "/summary", "/events"):
        assert ask(port, path, Sec_Fetch_Site=site).status == 403, path
        assert ask(port, path, **visit).status == 403, path
    assert ask(port, "", **visit).status == 200  # a link to the page, which has no data
    assert ask(port, "", **{**visit, "Sec_Fetch_Dest": "iframe"}).status == 403
    assert ask(port, "", Sec_Fetch_Site=site).status == 403


def test_origins_are_the_page_s_own(port: int) -> None:
    own = f"http://127.0.0.1:{port}"
    assert ask(port, "/summary", Origin=own, Sec_Fetch_Site="same-origin").status == 200
    for origin in ("null", "http://evil.example", f"http://127.0.0.1:{port + 1}", f"{own}.evil.example"):
        assert ask(port, "/summary", Origin=origin).status == 403, origin
        assert ask(port, "/events", Origin=origin).status == 403, origin


# --- logins ---


def test_nothing_without_a_login(closed_broker: ServerProcess) -> None:
    port = monitor_port(closed_broker)
    for at, path in enumerate((*FILES, *DATA)):
        for login in ("", ":", "alice:wrong", "nobody:s3cret"):
            answer = ask(port, path, login=login, source=f"127.0.1.{at + 1}")
            assert (answer.status, answer.text) == (401, "Log in with a user of this broker.\n"), (path, login)
            assert answer.headers["www-authenticate"].startswith("Basic realm=")
    assert get(port, "/varz").status == 200  # as nats-server has it


@pytest.mark.parametrize("header", ["Basic", "Basic !!", "Basic /w==", "Bearer x", "Basic Og==", "basic", "x" * 8000])
def test_headers_that_are_no_login(closed_broker: ServerProcess, header: str) -> None:
    assert ask(monitor_port(closed_broker), "/summary", Authorization=header, source="127.0.2.1").status == 401


def test_a_user_sees_his_own_account(closed_broker: ServerProcess) -> None:
    port = monitor_port(closed_broker)
    for account, login, other in (("A", "alice:s3cret", "B"), ("B", "bob:b0bs", "A")):  # plain and hashed
        shown = ask(port, "/summary", login=login).json()
        assert shown["scope"] == {"account": account, "messages": True}
        assert "memory" not in shown["server"]
        assert {row["account"] for row in shown["tables"]["streams"]["rows"]} == {account}
        assert [row["name"] for row in shown["tables"]["accounts"]["rows"]] == [account]
        assert shown["totals"]["streams"] == 1
        assert ask(port, "/rows?table=streams", login=login).json()["total"] == 1
        assert ask(port, f"/messages?account={account}&stream=S", login=login).json()["last_seq"] == 1
        for path in ("/messages?account=%s&stream=S", "/message?account=%s&stream=S&seq=1"):
            answer = ask(port, path % other, login=login)
            assert (answer.status, answer.text) == (404, "There is no such stream.\n")


def test_the_system_account_sees_the_figures_of_all_and_no_message(closed_broker: ServerProcess) -> None:
    port = monitor_port(closed_broker)
    shown = ask(port, "/summary", login="admin:s3cret").json()
    assert shown["scope"] == {"account": None, "messages": False}
    assert {row["account"] for row in shown["tables"]["streams"]["rows"]} == {"A", "B"}
    for path in DATA[2:4]:
        assert ask(port, path, login="admin:s3cret").status == 403


def test_users_who_may_not_see_all_see_nothing(closed_broker: ServerProcess) -> None:
    port = monitor_port(closed_broker)
    for path in (*FILES, *DATA):
        answer = ask(port, path, login="limited:s3cret")
        assert (answer.status, "permissions of its own" in answer.text) == (403, True), path
    assert ask(port, "/summary", login="browser:s3cret", source="127.0.3.1").status == 401  # WebSockets only


async def test_refused_logins_are_in_the_log(closed_broker: ServerProcess) -> None:
    port, there = monitor_port(closed_broker), "127.0.5.1"
    for login in ("", "alice:s3cret", "bob:wrong", 'e"ve\n[1] [INF] bob:s3cret', ":t0ken"):
        await asyncio.to_thread(ask, port, "/summary", login=login, source=there)
    await logged(closed_broker, f'{there} - dashboard - authentication error - Token "[REDACTED]"', 1)
    told = [line.partition(" [ERR] ")[2] for line in closed_broker.log if f"{there} - " in line]
    assert told == [
        f'{there} - dashboard - authentication error - User "bob"',
        f'{there} - dashboard - authentication error - User "e\\"ve\\n[1] [INF] bob"',
        f'{there} - dashboard - authentication error - Token "[REDACTED]"',
    ]


def test_wrong_logins_are_bounded_and_keep_nobody_out_who_was_in(closed_broker: ServerProcess) -> None:
    port = monitor_port(closed_broker)
    there = "127.0.4.1"
    assert ask(port, "/summary", login="alice:s3cret", source=there).status == 200
    statuses = {
        ask(port, "/summary", login=f"bob:{at}", source=there).status for at in range(limits.DASHBOARD_FAILURES)
    }
    assert statuses == {401}
    refused = ask(port, "/summary", login="bob:b0bs", source=there)
    assert refused.status in (429, 200)  # judged again where a second has gone by meanwhile
    assert ask(port, "/summary", login="alice:s3cret", source=there).status == 200
    assert ask(port, "/summary", login="bob:b0bs", source="127.0.4.2").status == 200


def test_wrong_logins_are_forgiven_one_each_second() -> None:
    now = 100.0
    failures = Failures(lambda: now)
    for _ in range(limits.DASHBOARD_FAILURES):
        assert not failures.too_many("10.0.0.1")
        failures.add("10.0.0.1")
    assert failures.too_many("10.0.0.1") and not failures.too_many("10.0.0.2")
    now += limits.DASHBOARD_FAILURE_SECONDS
    assert not failures.too_many("10.0.0.1")
    failures.add("10.0.0.1")
    assert failures.too_many("10.0.0.1")
    failures.add("2001:db8::1")
    for _ in range(limits.DASHBOARD_FAILURES - 1):
        failures.add("2001:db8::ffff")
    assert failures.too_many("2001:db8::2")  # of one network
    for at in range(limits.DASHBOARD_NETWORKS):
        failures.add(f"10.1.{at // 256}.{at % 256}")
    assert not failures.too_many("2001:db8::2")  # as many as are remembered came behind it


def test_a_token_is_the_password_under_any_name(tmp_path: Path) -> None:
    with run_with(tmp_path, f'{OPEN}\nauthorization {{ token: "t0ken" }}') as server:
        port = monitor_port(server)
        assert ask(port, "/summary").status == 401
        assert ask(port, "/summary", login="me:wrong").status == 401
        assert ask(port, "/summary", login="me:t0ken").json()["scope"] == {"account": "$G", "messages": True}
        assert ask(port, "/summary", login=":t0ken").status == 200


# --- reloads ---


def test_a_reload_switches_it_and_ends_logins_that_are_gone(tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"

    def write(dashboard: bool, password: str) -> None:
        users = f'authorization {{ users: [ {{ user: alice, password: "{password}" }} ] }}'
        config.write_text(f'http: "127.0.0.1:-1"\ndashboard: {str(dashboard).lower()}\n{users}\n')

    write(False, "s3cret")
    with jetbroker("-c", str(config)) as server:
        port = monitor_port(server)
        assert ask(port, "", login="alice:s3cret").status == 404
        write(True, "s3cret")
        reload(server, 1)
        with Follower(port, "alice:s3cret") as viewer:
            assert viewer.event()["scope"]["account"] == "$G"
            write(True, "other")
            reload(server, 2)
            viewer.until_cut_off()
        assert ask(port, "", login="alice:s3cret").status == 401
        with Follower(port, "alice:other") as viewer:
            assert viewer.event()["scope"]["account"] == "$G"
            write(False, "other")
            reload(server, 3)
            viewer.until_cut_off()
        assert ask(port, "", login="alice:other").status == 404
    assert any("Reloaded: dashboard = true" in line for line in server.log)


def reload(server: ServerProcess, times: int) -> None:
    assert server.process is not None
    server.process.send_signal(signal.SIGHUP)
    asyncio.run(logged(server, "Reloaded server configuration", times))


async def logged(server: ServerProcess, text: str, times: int) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while sum(text in line for line in server.log) < times:
            await asyncio.sleep(0.01)


class Follower:
    """A page that is open: reads events."""

    def __init__(self, port: int, login: str = "") -> None:
        self.connection = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        header = f"Authorization: Basic {base64.b64encode(login.encode()).decode()}\r\n" if login else ""
        self.connection.sendall(f"GET /dashboard/events HTTP/1.0\r\nHost: localhost\r\n{header}\r\n".encode())
        self.lines = self.connection.makefile("rb")
        self.status = int(self.lines.readline().split()[1])

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self.lines.close()
        self.connection.close()

    def event(self) -> Any:
        while line := self.lines.readline():
            if line.startswith(b"data: "):
                return json.loads(line[6:])
        raise EOFError("cut off")

    def until_cut_off(self) -> None:
        try:
            while self.lines.readline():
                pass
        except ConnectionResetError:
            return


# --- over TLS, below a path ---


def test_over_https_below_a_path(tmp_path: Path) -> None:
    certificates, port = make(tmp_path), free_port()
    text = f'https: "127.0.0.1:{port}"\nhttp_base_path: "/x"\ndashboard: true\n{certificates.tls_block()}'
    with run_with(tmp_path, text):
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=certificates.client_context())
        connection.request("GET", "/x/dashboard", headers={"Origin": f"https://127.0.0.1:{port}"})
        assert connection.getresponse().read().startswith(b"<!doctype html>")
        connection.request("GET", "/x/dashboard/events")
        answer = connection.getresponse()
        lines = [answer.readline() for _ in range(5)]
        connection.close()
        assert json.loads(lines[2].removeprefix(b"data: "))["scope"] == {"account": None, "messages": True}
        assert lines[4].startswith(b"data: ")


# --- viewers ---


def test_only_so_many_pages_are_followed(open_broker: ServerProcess, port: int) -> None:
    viewers = [Follower(port) for _ in range(limits.DASHBOARD_VIEWERS)]
    assert {viewer.status for viewer in viewers} == {200}
    full = ask(port, "/events")
    assert (full.status, full.headers["retry-after"]) == (503, "10")
    assert ask(port, "/summary").status == 200
    times = [{viewer.event()["time"], viewer.event()["time"]} for viewer in viewers]
    assert set.intersection(*times)  # made once for all of them
    for viewer in viewers:
        viewer.__exit__()
    asyncio.run(until_there_is_room(port))
    assert get(port, "/healthz").status == 200


async def until_there_is_room(port: int) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while ask(port, "/events").status != 200:
            await asyncio.sleep(0.02)


# --- figures ---


async def test_figures_follow_the_broker(open_broker: ServerProcess, port: int) -> None:
    client = await nats.connect(open_broker.url, name="publisher", allow_reconnect=False)
    js = client.jetstream()
    await js.add_stream(StreamConfig(name="MOVES", subjects=["moves.>"], storage=StorageType.MEMORY))
    await js.add_consumer("MOVES", ConsumerConfig(durable_name="slow"))
    with Follower(port) as viewer:
        seen = await asyncio.to_thread(until_counted, viewer, 0)
        assert seen["scope"] == {"account": None, "messages": True}
        for _ in range(50):
            await js.publish("moves.a", b"x" * 100)
        seen = await asyncio.to_thread(until_counted, viewer, 50)
    stream = seen["tables"]["streams"]["rows"][0]
    assert (stream["name"], stream["subjects"], stream["storage"]) == ("MOVES", ["moves.>"], "memory")
    assert stream["rate"] > 0 and stream["last_seq"] == 50 and stream["bytes"] > 5000
    consumer = seen["tables"]["consumers"]["rows"][0]
    assert (consumer["name"], consumer["lag"], consumer["pending"], consumer["ack_pending"]) == ("slow", 50, 50, 0)
    names = [row["name"] for row in seen["tables"]["connections"]["rows"]]
    assert "publisher" in names
    assert seen["totals"]["rates"]["in_msgs"] > 0 and seen["totals"]["in_memory"] > 0
    assert seen["problems"] == []
    await js.delete_stream("MOVES")
    await client.close()


def until_counted(viewer: Follower, messages: int) -> Any:
    """The first event that shows so many; what came before is in the rate of this one."""
    while True:
        seen = viewer.event()
        if any((row["name"], row["messages"]) == ("MOVES", messages) for row in seen["tables"]["streams"]["rows"]):
            return seen


async def test_tables_are_searched_sorted_and_cut_by_the_broker(open_broker: ServerProcess, port: int) -> None:
    client = await nats.connect(open_broker.url, allow_reconnect=False)
    js = client.jetstream()
    for at in range(30):
        await js.add_stream(StreamConfig(name=f"T{at:02}", subjects=[f"found.{at}"]))
    for _ in range(3):
        await js.publish("found.7", b"x")

    async def until(path: str, total: int) -> Any:
        async with asyncio.timeout(TIMEOUT_S):  # what there is is looked at once a second
            while True:
                found = (await asyncio.to_thread(ask, port, path)).json()
                if found["total"] == total:
                    return found
                await asyncio.sleep(0.02)

    found = await until("/rows?table=streams&search=FOUND&sort=name", 30)
    assert [row["name"] for row in found["rows"]] == [f"T{at:02}" for at in range(limits.DASHBOARD_PAGE)]
    found = await until("/rows?table=streams&search=found&sort=name&offset=25", 30)
    assert [row["name"] for row in found["rows"]] == [f"T{at:02}" for at in range(25, 30)]
    found = await until("/rows?table=streams&search=found&sort=messages", 30)
    assert [row["name"] for row in found["rows"]][:2] == ["T07", "T00"]
    assert (await until("/rows?table=streams&search=found.29", 1))["rows"][0]["name"] == "T29"
    assert (await until("/rows?table=streams&search=nothing", 0))["rows"] == []
    for at in range(30):
        await js.delete_stream(f"T{at:02}")
    await client.close()


@pytest.mark.parametrize(
    "query",
    ["", "table=nothing", "table=streams&sort=secret", "table=streams&offset=-1", "table=streams&offset=x",
     f"table=streams&offset={2**64}"],
)  # fmt: skip
def test_rows_that_cannot_be_asked_for(port: int, query: str) -> None:
    answer = ask(port, f"/rows?{query}")
    assert (answer.status, answer.headers["content-type"]) == (400, "text/plain; charset=utf-8")


def test_an_offset_beyond_the_end_finds_nothing(port: int) -> None:
    assert ask(port, f"/rows?table=connections&offset={2**64 - 1}").json()["rows"] == []


# --- messages ---


async def test_messages_are_looked_at_newest_first(open_broker: ServerProcess, port: int) -> None:
    client = await nats.connect(open_broker.url, allow_reconnect=False)
    js = client.jetstream()
    await js.add_stream(StreamConfig(name="LOOK", subjects=["look.>"]))
    for at in range(limits.DASHBOARD_MESSAGES + 5):
        await js.publish(f"look.{at}", f"payload {at}".encode(), headers={"At": str(at)})
    await js.delete_msg("LOOK", 24)
    await js.publish("look.large", b"\xff" * (limits.DASHBOARD_MESSAGE_BYTES + 1))
    await client.close()

    def look(path: str) -> Any:
        return ask(port, f"{path}account=%24G&stream=LOOK").json()

    found = look("/messages?")
    seqs = [message["seq"] for message in found["messages"]]
    assert seqs == [26, 25, 23, *range(22, 5, -1)] and found["next"] == 6
    large, second = found["messages"][:2]
    assert large["size"] == limits.DASHBOARD_MESSAGE_BYTES + 1
    assert len(base64.b64decode(large["payload"])) == limits.DASHBOARD_PREVIEW_BYTES
    assert (second["subject"], base64.b64decode(second["payload"])) == ("look.24", b"payload 24")
    assert "At: 24" in second["headers"]
    found = look(f"/messages?before={found['next']}&")
    assert [message["seq"] for message in found["messages"]] == [5, 4, 3, 2, 1] and found["next"] == 0
    assert look("/messages?before=1&")["messages"] == []
    assert look(f"/messages?before={2**64 - 1}&")["messages"][0]["seq"] == 26
    assert len(base64.b64decode(look("/message?seq=26&")["payload"])) == limits.DASHBOARD_MESSAGE_BYTES
    for seq in (0, 24, 27, 2**64 - 1):
        answer = ask(port, f"/message?seq={seq}&account=$G&stream=LOOK")
        assert (answer.status, "There is no message" in answer.text) == (404, True)
    for query in ("", "account=$G", "account=$G&stream=LOOK&before=x"):
        assert ask(port, f"/messages?{query}").status == 400, query
    for query in ("account=$G&stream=NONE", "account=NONE&stream=LOOK", "account=$SYS&stream=../LOOK"):
        assert ask(port, f"/messages?{query}").status == 404, query


async def test_a_gap_takes_several_pages() -> None:
    first = 2 * limits.DASHBOARD_STEPS
    sources, gets = a_stream(lambda seq: seq in (1, first + 1), last_seq=first + 1)
    found = await newest(sources, EVERYTHING, Query("account=A&stream=S"))
    assert [message["seq"] for message in found["messages"]] == [first + 1]
    assert len(gets) == limits.DASHBOARD_STEPS
    before = found["next"]
    pages = 1
    while before:
        found = await newest(sources, EVERYTHING, Query(f"account=A&stream=S&before={before}"))
        before = found["next"]
        pages += 1
    assert ([message["seq"] for message in found["messages"]], pages) == ([1], 3)


async def test_a_damaged_message_is_told() -> None:
    sources, _ = a_stream(lambda seq: seq == 1, last_seq=2, damaged=2)
    found = await newest(sources, EVERYTHING, Query("account=A&stream=S"))
    assert found["messages"][0] == {"seq": 2, "damaged": True}
    assert found["messages"][1]["subject"] == "s"


def a_stream(there: Callable[[int], bool], last_seq: int, damaged: int = 0) -> tuple[Any, list[int]]:
    """Sources with a stream S of an account A that has these messages, and what its log is asked for."""
    gets: list[int] = []

    def get_message(seq: int) -> tuple[int, bytes, bytes, bytes, int]:
        gets.append(seq)
        return (0 if there(seq) else 2 if seq == damaged else 1), b"s", b"", b"{}", 0

    log = SimpleNamespace(first_seq=1, last_seq=last_seq, messages=2, get=get_message)
    streams = {"S": SimpleNamespace(name="S", log=log)}
    server = SimpleNamespace(by_account={"A": SimpleNamespace(streams=streams)})
    return SimpleNamespace(jetstream=server), gets


# --- very many streams ---


async def test_ten_thousand_streams_are_sorted_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TURN_NS", 0)  # each step is a turn
    sample = Sample(0.0, 1.0)
    config = SimpleNamespace(subjects=["s.>"], storage="file")
    stream = SimpleNamespace(config=config, log=SimpleNamespace(first_seq=1), listed_consumers=dict)
    for at in range(10_000):
        row = StreamRow("A", f"S{at:05}", cast(Any, stream), 5, 5, 500, float(at % 100))
        sample.part("A").streams.append(row)
    found, others = await turns_of(rows_of(sample, None, Wanted("streams")))
    assert others >= 20
    assert found["total"] == 10_000
    assert [row["name"] for row in found["rows"]] == [f"S{at:03}99" for at in range(limits.DASHBOARD_TOP)]
    assert {row["rate"] for row in found["rows"]} == {99.0} and len(found["rows"]) == limits.DASHBOARD_TOP
    far = await rows_of(sample, "A", Wanted("streams", "s0", "name", 9990, 25))
    assert [row["name"] for row in far["rows"]] == [f"S{at:05}" for at in range(9990, 10_000)]
    assert (await rows_of(sample, "B", Wanted("streams")))["total"] == 0


async def test_in_operator_mode_nobody_has_a_password() -> None:
    options = SimpleNamespace(operator=SimpleNamespace(enabled=True))
    sources = SimpleNamespace(options=options, clients=SimpleNamespace(logins=SimpleNamespace(authenticator=None)))
    logins = Logins(asyncio.get_running_loop())
    with pytest.raises(Refused) as refusal:
        await logins.admit(cast(Any, sources), Request("GET", "/dashboard", (("authorization", "Basic YTpi"),)))
    assert refusal.value.status == 403
