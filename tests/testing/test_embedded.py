"""jetbroker.testing.embedded: a broker in the tests' own process."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import nats
import pytest
import uvloop
from nats.aio.client import Client
from nats.js.errors import NotFoundError

from jetbroker.testing import EmbeddedBroker, ServerError, embedded
from tests.support import certificates
from tests.support.clients import settle

SECONDS = 20.0


async def client_of(url: str, **options: Any) -> Client:
    return await nats.connect(url, **{"allow_reconnect": False, "connect_timeout": SECONDS, **options})


def made(**arguments: Any) -> EmbeddedBroker:
    return embedded(**arguments)


def info(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as connection:
        return connection.recv(4096)


def refuses(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) != 0


async def published() -> int:
    async with embedded() as broker:
        client = await client_of(broker.url)
        context = client.jetstream()
        await context.add_stream(name="S", subjects=["s"])
        ack = await context.publish("s", b"x")
        await client.close()
        return int(ack.seq)


Run = Callable[[Coroutine[Any, Any, int]], int]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_it_serves_clients_on_any_loop(run: Run) -> None:
    assert run(published()) == 1


def test_it_needs_no_loop() -> None:
    with embedded() as broker:
        store = broker.store_dir
        assert store.is_dir()
        assert info(broker.port).startswith(b"INFO {")
        assert any("Server is ready" in line for line in broker.log)
        assert broker.urls == {"nats": broker.url}
    assert refuses(broker.port)
    assert not store.exists()


def test_the_process_stays_as_it_was() -> None:
    before = (gc.get_threshold(), gc.isenabled(), gc.get_freeze_count(), signal.getsignal(signal.SIGTERM))
    with embedded() as broker:
        info(broker.port)
    assert (gc.get_threshold(), gc.isenabled(), gc.get_freeze_count(), signal.getsignal(signal.SIGTERM)) == before


async def test_streams_and_the_port_outlive_a_kill() -> None:
    async with embedded() as broker:
        url = broker.url
        client = await client_of(url)
        await client.jetstream().add_stream(name="S", subjects=["s"])
        await client.jetstream().publish("s", b"x")
        gone = asyncio.Event()
        client._disconnected_cb = client._closed_cb = lambda: _set(gone)
        broker.kill()
        assert not broker.running and refuses(broker.port)
        await asyncio.wait_for(gone.wait(), SECONDS)
        broker.start()
        assert broker.url == url
        again = await client_of(url)
        assert (await again.jetstream().stream_info("S")).state.messages == 1
        await again.close()


async def _set(event: asyncio.Event) -> None:
    event.set()


async def test_a_reset_leaves_no_stream_and_no_connection() -> None:
    async with embedded() as broker:
        url = broker.url
        client = await client_of(url)
        await client.jetstream().add_stream(name="S", subjects=["s"])
        broker.reset()
        assert broker.url == url
        again = await client_of(url)
        with pytest.raises(NotFoundError):
            await again.jetstream().stream_info("S")
        await again.close()
        await client.close()


async def test_logins_and_accounts_come_from_a_text(tmp_path: Path) -> None:
    config = "accounts { A { jetstream: enabled, users: [{user: ann, password: sesame}] }, B { users: [{user: bob}] } }"
    with pytest.raises(ServerError, match=r"unknown field"), embedded(config="acounts {}"):
        pass
    (tmp_path / "broker.conf").write_text(config)
    async with embedded(config=tmp_path / "broker.conf") as broker:
        with pytest.raises(nats.errors.Error):
            await client_of(broker.url)
        client = await client_of(broker.url, user="ann", password="sesame")
        assert (await client.jetstream().account_info()).streams == 0
        await client.close()


async def test_tls_comes_from_the_configuration(tmp_path: Path) -> None:
    made = certificates.make(tmp_path)
    async with embedded(config=made.tls_block()) as broker:
        assert broker.url == f"tls://127.0.0.1:{broker.port}"
        client = await client_of(broker.url, tls=made.client_context())
        broker.kill()
        broker.start()
        again = await client_of(broker.url, tls=made.client_context())
        await again.close()
        await client.close()


def test_two_brokers_know_nothing_of_each_other() -> None:
    async def talk(one: str, other: str) -> None:
        first, second = await client_of(one), await client_of(other)
        heard = await second.subscribe("s")
        await settle(second)
        await first.publish("s", b"")
        await settle(first)
        await second.publish("s", b"mine")
        assert (await heard.next_msg(SECONDS)).data == b"mine"
        await first.close()
        await second.close()

    with embedded() as one, embedded() as other:
        asyncio.run(talk(one.url, other.url))
        one.kill()
        assert info(other.port)


def test_what_cannot_be_is_told(tmp_path: Path) -> None:
    with embedded(store_dir=tmp_path) as broker:
        with pytest.raises(ServerError, match=f"port {broker.port} of 127.0.0.1 cannot be had: Address already in use"):
            embedded(port=broker.port)
        with pytest.raises(ServerError, match="runs already"):
            broker.start()
        with pytest.raises(ServerError, match="leave out store_dir"):
            broker.reset()
        with pytest.raises(ServerError, match="did not start"), embedded(store_dir=tmp_path):
            pass
        assert info(broker.port)
    with pytest.raises(ServerError, match="was closed"):
        broker.start()
    assert (tmp_path / "jetstream").is_dir()
    with embedded(port=broker.port) as next_one:
        assert next_one.port == broker.port


def test_the_name_of_a_file_is_no_configuration() -> None:
    with pytest.raises(ServerError, match="pass it as a Path"):
        embedded(config="/etc/broker.conf")


def test_a_broker_that_is_forgotten_ends_with_a_warning() -> None:
    with embedded() as other:  # keeps the thread
        broker = made().start()
        connection = socket.create_connection(("127.0.0.1", broker.port), timeout=SECONDS)
        with pytest.warns(ResourceWarning, match="never closed"):
            del broker
            gc.collect()
        with connection:
            while connection.recv(4096):
                pass
        assert info(other.port)


async def used(url: str) -> None:
    client = await client_of(url)
    context = client.jetstream()
    await context.add_stream(name="S", subjects=["s"])
    await context.publish("s", b"x")
    consumer = await context.pull_subscribe("s", durable="d")
    await (await consumer.fetch(1, timeout=SECONDS))[0].ack_sync(timeout=SECONDS)
    own = await client.subscribe("own")
    await client.publish("own", b"")
    await own.next_msg(SECONDS)
    await client.close()


def test_brokers_that_were_closed_leave_the_memory_while_another_one_runs() -> None:
    with embedded():
        closed: list[weakref.ref[object]] = []
        for _ in range(50):
            with embedded() as broker:
                asyncio.run(used(broker.url))
                closed += [weakref.ref(broker), weakref.ref(broker._broker)]
            del broker
        left, until = len(closed), time.monotonic() + SECONDS
        while left and time.monotonic() < until:  # a turn or two of the loop that they ran on
            gc.collect()
            left = sum(reference() is not None for reference in closed)
        assert left == 0


LEAKS = """
import jetbroker.testing
broker = jetbroker.testing.embedded().start()
print(broker.store_dir)
"""

LOADS = """
import sys
from jetbroker.testing import embedded
for config in CONFIGURATIONS:
    before = set(sys.modules)
    with embedded(config=config):
        print(*sorted(set(sys.modules) - before))
"""

CONFIGURATIONS = [
    "",
    "http: '127.0.0.1:-1', dashboard: true",
    "authorization { users: [{user: ann, password: sesame, permissions: {publish: a}}] }",
    "accounts { A { exports: [{service: s}] }, B { imports: [{service: {account: A, subject: s}}] } }",
    "mappings { a: b }",
    "websocket { listen: '127.0.0.1:-1', no_tls: true }",
    "leafnodes { listen: '127.0.0.1:-1', remotes: [{url: 'nats://127.0.0.1:1'}] }",
]

FORKS = """
import os, sys, jetbroker.testing
with jetbroker.testing.embedded() as broker:
    pid = os.fork()
    if not pid:
        try:
            broker.reset()
        except jetbroker.testing.ServerError as error:
            print(error, flush=True)
        with jetbroker.testing.embedded() as own:
            print(own.running, flush=True)
        sys.exit(0)
    print(os.waitpid(pid, 0)[1], broker.running, flush=True)
"""


def run_script(text: str) -> tuple[str, str]:
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.timeout(300)
def test_a_program_that_leaks_one_ends_and_leaves_nothing() -> None:
    out, errors = run_script(LEAKS)
    assert errors == ""
    assert not Path(out.strip()).parent.exists()


@pytest.mark.timeout(300)
def test_a_start_loads_no_module_for_its_import_has_done_so(tmp_path: Path) -> None:
    """That made the first start of a process ten times as long as the next; a fork meanwhile found an import locked."""
    configurations = [*CONFIGURATIONS, certificates.make(tmp_path).tls_block()]
    out, errors = run_script(LOADS.replace("CONFIGURATIONS", repr(configurations)))
    assert errors == ""
    assert out == "\n" * len(configurations)


@pytest.mark.timeout(300)
def test_a_fork_is_told_whose_broker_it_is_and_can_have_its_own() -> None:
    out, errors = run_script(FORKS)
    told, own, parent = out.splitlines()
    assert "this is a fork of it" in told
    assert own == "True" and parent == "0 True"
    assert "Traceback" not in errors
