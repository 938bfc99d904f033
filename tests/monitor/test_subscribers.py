"""How many clients would get a message: asked in the system account, and by an account that imports the service."""

from __future__ import annotations

from pathlib import Path

import nats
import pytest
from nats.aio.client import Client

from tests.support import process
from tests.support.clients import settle

CONFIG = """
accounts {
  A { users: [{user: a, password: p}], imports: [
    {service: {account: "$SYS", subject: "$SYS.DEBUG.SUBSCRIBERS"}}
    {service: {account: "$SYS", subject: "$SYS.REQ.USER.A.INFO"}, to: "who"}
  ] }
  $SYS { users: [{user: s, password: p}], exports: [
    {service: "$SYS.DEBUG.SUBSCRIBERS"}, {service: "$SYS.REQ.USER.*.INFO"}
  ] }
}
"""
BETWEEN = """
accounts {
  A { users: [{user: a, password: p}], exports: [{service: counts}], imports: [
    {service: {account: "$SYS", subject: "$SYS.DEBUG.SUBSCRIBERS"}, to: counts}
  ] }
  B { users: [{user: b, password: p}], imports: [{service: {account: A, subject: counts}, to: count}] }
  $SYS { users: [{user: s, password: p}], exports: [{service: "$SYS.DEBUG.SUBSCRIBERS"}] }
}
"""
ASKED = {
    b"foo": 1,
    b"foo.bar": 5,
    b"foo.bar q": 2,
    b"foo.bar  q": 0,
    b"foo.bar q z": 2,
    b"foo.bar x": 0,
    b"foo.*": 5,
    b"foo.* q": 2,
    b"foo.*  q": 2,
    b" foo.bar ": 5,
    b"foo..": 0,
    b"": 0,
    b"*": 1,
}
SUBSCRIBED = (("foo", ""), ("foo.*", ""), ("foo.*", "q"), ("foo.bar", "q"), ("foo.bar", "r"), ("foo.bar", ""))


async def subscribers(client: Client, asked: bytes) -> int:
    return int((await client.request("$SYS.DEBUG.SUBSCRIBERS", asked, timeout=5)).data)


@pytest.mark.parametrize("kind", [pytest.param("nats-server", marks=pytest.mark.differential), "jetbroker"])
async def test_through_two_imports_they_are_those_of_the_account_between(tmp_path: Path, kind: str) -> None:
    config = tmp_path / "server.conf"
    config.write_text(BETWEEN, encoding="utf-8")
    if kind == "nats-server" and process.find_nats_server() is None:
        pytest.skip("there is no nats-server")
    start = process.nats_server if kind == "nats-server" else process.jetbroker
    with start("-c", str(config)) as server:
        between, user = [
            await nats.connect(server.url, user=name, password="p", allow_reconnect=False, connect_timeout=5)
            for name in "ab"
        ]
        await between.subscribe("foo")
        await settle(between)
        assert int((await user.request("count", b"foo", timeout=5)).data) == 1
        for client in (between, user):
            await client.close()


@pytest.mark.parametrize("kind", [pytest.param("nats-server", marks=pytest.mark.differential), "jetbroker"])
async def test_subscribers_are_those_of_the_account_that_asks(tmp_path: Path, kind: str) -> None:
    config = tmp_path / "server.conf"
    config.write_text(CONFIG, encoding="utf-8")
    if kind == "nats-server" and process.find_nats_server() is None:
        pytest.skip("there is no nats-server")
    start = process.nats_server if kind == "nats-server" else process.jetbroker
    with start("-c", str(config)) as server:
        user, system = [
            await nats.connect(server.url, user=name, password="p", allow_reconnect=False, connect_timeout=5)
            for name in "as"
        ]

        async def ignore(message: object) -> None:
            pass

        for subject, queue in SUBSCRIBED:
            await user.subscribe(subject, queue=queue, cb=ignore)
        await system.subscribe("foo.bar", cb=ignore)
        await settle(user)
        await settle(system)
        assert {asked: await subscribers(user, asked) for asked in ASKED} == ASKED
        assert [await subscribers(system, asked) for asked in (b"foo", b"foo.bar", b"foo.*")] == [0, 1, 1]
        about = (await user.request("who", b"", timeout=5)).data
        assert b'"account":"A","account_name":"A"' in about
        for client in (user, system):
            await client.close()
