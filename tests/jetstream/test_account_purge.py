"""ACCOUNT.PURGE: what an account has stored goes for good, whatever state the account is in."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.support import process

ACCOUNTS = """
jetstream {{ store_dir: "{store}" }}
accounts {{
  A {{ users: [{{user: a, password: p}}], jetstream: {a} }}
  B {{ users: [{{user: b, password: p}}], jetstream: enabled }}
  $SYS {{ users: [{{user: s, password: p}}] }}
}}
"""


def config(folder: Path, a: str = "enabled") -> str:
    path = folder / "server.conf"
    path.write_text(ACCOUNTS.format(store=folder, a=a))
    return os.fspath(path)


async def asked(port: int, user: str, subject: str, body: Any = None) -> Any:
    client = await nats.connect(f"nats://{user}:p@127.0.0.1:{port}", allow_reconnect=False)
    try:
        payload = b"" if body is None else json.dumps(body).encode()
        return json.loads((await client.request(f"$JS.API.{subject}", payload, 30)).data)
    finally:
        await client.close()


def ask(port: int, user: str, subject: str, body: Any = None) -> Any:
    return asyncio.run(asked(port, user, subject, body))


def fill(port: int, *users: str) -> None:
    for user in users:
        assert "error" not in ask(port, user, "STREAM.CREATE.S", {"name": "S"})
        made = ask(port, user, "CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"durable_name": "C"}})
        assert "error" not in made


def folders(folder: Path) -> set[str]:
    return {entry.name for entry in (folder / "jetstream").iterdir() if entry.is_dir()} - {"cache.mdb"}


@pytest.mark.parametrize("stop", ["stop", "kill"])
def test_purged_streams_stay_away_and_those_of_others_stay(tmp_path: Path, stop: str) -> None:
    path = config(tmp_path)
    with process.jetbroker("-c", path) as server:
        fill(server.port, "a", "b")
        assert ask(server.port, "s", "ACCOUNT.PURGE.A") == {
            "type": "io.nats.jetstream.api.v1.account_purge_response",
            "initiated": True,
        }
        assert folders(tmp_path) == {"B"}
        if stop == "kill":
            server.kill()
    with process.jetbroker("-c", path) as server:
        assert ask(server.port, "a", "STREAM.NAMES")["streams"] is None
        assert ask(server.port, "b", "STREAM.NAMES")["streams"] == ["S"]
        fill(server.port, "a")
        assert folders(tmp_path) == {"A", "B"}


def test_account_without_jetstream_is_purged(tmp_path: Path) -> None:
    with process.jetbroker("-c", config(tmp_path)) as server:
        fill(server.port, "a", "b")
    with process.jetbroker("-c", config(tmp_path, "disabled")) as server:
        assert folders(tmp_path) == {"A", "B"}
        assert ask(server.port, "s", "ACCOUNT.PURGE.A")["initiated"]
        assert folders(tmp_path) == {"B"}


def test_only_names_of_accounts_are_taken(tmp_path: Path) -> None:
    with process.jetbroker("-c", config(tmp_path)) as server:
        fill(server.port, "b")
        (tmp_path / "outside").mkdir()
        for name in ("lock", "cache%2Emdb", "%2E%2E", "%2E%2E%2Foutside", "*", "jetbroker%2Ejson"):
            assert ask(server.port, "s", f"ACCOUNT.PURGE.{name}")["initiated"]
        for name in ("../outside", "..\\outside"):
            refused = ask(server.port, "s", f"ACCOUNT.PURGE.{name.replace('.', '')}")
            assert refused["error"]["description"] == "account name can not contain path separators"
        assert ask(server.port, "b", "STREAM.NAMES")["streams"] == ["S"]
    assert (tmp_path / "outside").is_dir()
    assert (tmp_path / "jetstream" / "lock").is_file()


def test_start_removes_what_an_interrupted_purge_has_left(tmp_path: Path) -> None:
    path = config(tmp_path)
    with process.jetbroker("-c", path) as server:
        fill(server.port, "a", "b")
    (tmp_path / "jetstream" / "A").rename(tmp_path / "jetstream" / ".gone-0123456789abcdef")
    with process.jetbroker("-c", path) as server:
        assert ask(server.port, "a", "STREAM.NAMES")["streams"] is None
        assert folders(tmp_path) == {"B"}
