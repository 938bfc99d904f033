"""`/healthz` of brokers whose disk is not well."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import nats
import pytest

from jetbroker.monitor.healthz import asked, healthz
from jetbroker.monitor.query import Query
from jetbroker.monitor.sources import Sources
from jetbroker.store.faults import Fault, Faults
from tests.support.http import get_json, monitor_port
from tests.support.logins import SERVERS, server
from tests.support.process import jetbroker

PAYLOAD = b"the payload that is hit"


async def test_damage_is_told_and_no_probe_fails(tmp_path: Path) -> None:
    with jetbroker("-js", "-sd", str(tmp_path)) as server:
        client = await nats.connect(server.url, allow_reconnect=False)
        js = client.jetstream()
        await js.add_stream(name="S", subjects=["s"])
        for payload in (b"first", PAYLOAD, b"last"):
            await js.publish("s", payload)
        await client.close()
    (segment,) = (tmp_path / "jetstream").rglob("*.seg")
    data = bytearray(segment.read_bytes())
    data[data.index(PAYLOAD)] ^= 1
    segment.write_bytes(data)
    with jetbroker("-js", "-sd", str(tmp_path), "-m", "-1") as server:
        port = monitor_port(server)
        assert get_json(port, "/healthz") == {
            "status": "ok",
            "damaged": [{"account": "$G", "stream": "S", "messages": 1}],
        }
        assert get_json(port, "/healthz?js-server-only=1") == {"status": "ok"}


def sources(failed: str = "", offline: str = "", *, ready: bool = True) -> Sources:
    """What healthz looks at, of a broker with the stream S."""
    faults = Faults(cast(asyncio.AbstractEventLoop, None), None)
    if failed:
        faults.begin("S", Fault("$G", "S", "", "00000000000000000001.seg", failed))
    store = SimpleNamespace(faults=faults)
    stream = SimpleNamespace(name="S", log=SimpleNamespace(lost_count=lambda: 0), consumers={}, offline={})
    jetstream = SimpleNamespace(
        account_name="$G", enabled=True, store=store, streams={"S": stream}, offline={"O": offline} if offline else {}
    )
    server = SimpleNamespace(by_account={"$G": jetstream}, store=store)
    options = SimpleNamespace(jetstream=SimpleNamespace(enabled=True))
    found = SimpleNamespace(jetstream=server, ready=lambda: ready, options=options, token_of=lambda name: None)
    return cast(Sources, found)


def unavailable(text: str) -> tuple[HTTPStatus, dict[str, Any]]:
    return HTTPStatus.SERVICE_UNAVAILABLE, {"status": "unavailable", "error": text}


NO_SPACE = unavailable(
    'JetStream stream "S" on account "$G" cannot be written: 00000000000000000001.seg: no space left'
)
OFFLINE = unavailable('JetStream stream "O" on account "$G" is offline: from the future')
OK = (HTTPStatus.OK, {"status": "ok"})
# no restart mends it, so no probe should fail for the whole broker
NAMED = (
    HTTPStatus.OK,
    {"status": "ok", "offline": [{"account": "$G", "stream": "O", "error": "from the future"}]},
)


@pytest.mark.parametrize(
    ("query", "expected"),
    [("", NO_SPACE), ("account=$G", NO_SPACE), ("account=$G&stream=S", NO_SPACE), ("js-server-only=1", OK)],
)
def test_streams_the_disk_refuses(query: str, expected: object) -> None:
    assert healthz(sources("no space left"), asked(Query(query))) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", NAMED),
        ("account=$G&stream=O", OFFLINE),
        ("account=$G&stream=O&consumer=c", OFFLINE),
        ("account=$G&stream=S", NAMED),
        ("js-enabled-only=1", OK),
    ],
)
def test_streams_that_did_not_come_back(query: str, expected: object) -> None:
    assert healthz(sources(offline="from the future"), asked(Query(query))) == expected


def test_a_server_that_takes_no_clients() -> None:
    status, body = healthz(sources(ready=False), asked(Query("")))
    assert (status, body["status"]) == (HTTPStatus.INTERNAL_SERVER_ERROR, "error")


@pytest.mark.parametrize("query", ["", "js-enabled-only=1", "account=$G"])
def test_a_jetstream_that_is_configured_and_does_not_run(query: str) -> None:
    found = sources()
    found.jetstream = None
    assert healthz(found, asked(Query(query))) == unavailable("JetStream not enabled (10076)")
    assert healthz(found, asked(Query("js-server-only=1"))) == OK
    found.options.jetstream.enabled = False
    assert healthz(found, asked(Query(query))) == OK


@pytest.mark.parametrize("kind", SERVERS)
def test_an_old_option_is_told_of(tmp_path: Path, kind: str) -> None:
    with server(kind, tmp_path, 'http: "127.0.0.1:-1"\n') as daemon:
        port = monitor_port(daemon)
        for query in ("js-enabled=0&js-enabled-only=1", "js-enabled=1"):
            assert get_json(port, f"/healthz?{query}") == {"status": "ok"}
        daemon.wait_for("[WRN] Healthcheck: js-enabled deprecated, use js-enabled-only instead")
        assert len([line for line in daemon.log if "deprecated" in line]) == 1
