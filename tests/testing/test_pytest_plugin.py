"""The pytest plugin, in a project of its own: pytest finds it, and each process has its own broker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(300)  # a pytest within a pytest, on a machine that may be busy

PROJECT = """
import sys

import pytest

FIRST = {"jetbroker.testing.in_process", "jetbroker.daemon.broker", "uvloop", "nats"}


def test_nothing_is_loaded_before_a_fixture_is_used():
    assert not FIRST & set(sys.modules)


@pytest.mark.asyncio
async def test_a_message_is_stored(jetstream):
    await jetstream.add_stream(name="S", subjects=["s"])
    assert (await jetstream.publish("s", b"x")).seq == 1


@pytest.mark.asyncio
async def test_the_next_test_finds_nothing_of_it(jetstream, nats_client, nats_broker):
    assert await jetstream.streams_info() == []
    assert nats_client.connected_url.port == nats_broker.port
    nats_broker.kill()
    nats_broker.start()


def test_what_is_for_all_tests_is_shared(nats_broker_session, nats_broker):
    assert nats_broker is nats_broker_session
    assert nats_broker.running
"""

LOGIN = """
import pytest


@pytest.fixture(scope="session")
def nats_broker_config():
    return "authorization { user: ann, password: sesame }"


@pytest.fixture(scope="session")
def nats_client_options():
    return {"user": "ann", "password": "sesame"}


@pytest.mark.asyncio
@pytest.mark.parametrize("number", range(2))
async def test_a_client_logs_in(nats_client, number):
    await nats_client.publish("s", b"")
    await nats_client.flush()
"""


def run_pytest(folder: Path, text: str, *arguments: str) -> str:
    (folder / "test_project.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    without = [word for name in ("cacheprovider", "hypothesispytest", "timeout") for word in ("-p", f"no:{name}")]
    command = [sys.executable, "-m", "pytest", "-q", *without, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
    return done.stdout


def test_a_project_has_the_fixtures(tmp_path: Path) -> None:
    assert "4 passed" in run_pytest(tmp_path, PROJECT, "-p", "no:xdist")


def test_each_process_has_a_broker_of_its_own(tmp_path: Path) -> None:
    assert "2 passed" in run_pytest(tmp_path, LOGIN, "-n2")


def test_a_client_without_a_plugin_for_coroutines_is_refused_in_a_sentence(tmp_path: Path) -> None:
    text = "def test_it(nats_client):\n    pass\n"
    told = run_pytest(tmp_path, text, "-p", "no:xdist", "-p", "no:asyncio", "-p", "no:anyio")
    assert "install pytest-asyncio" in told and "1 error" in told
