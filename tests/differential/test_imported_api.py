"""An account without JetStream that imports another one's API, or parts of it: who answers, against nats-server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.differential.test_system_services import answer_to
from tests.support import process
from tests.support.sharing import Client

pytestmark = pytest.mark.differential

IMPORTS = {
    "NONE": "",
    "INFO": '{service: {account: J, subject: "$JS.API.INFO"}}',
    "ALL": '{service: {account: J, subject: "$JS.API.>"}}',
    "BOTH": ", ".join(f'{{service: {{account: J, subject: "$JS.API.{name}"}}}}' for name in ("INFO", "STREAM.NAMES")),
    "RENAMED": '{service: {account: J, subject: "$JS.API.INFO"}, to: "x.info"}',
    "PREFIXED": '{service: {account: J, subject: "$JS.API.>"}, to: "J.API.>"}',
}
SUBJECTS = "$JS.API.INFO $JS.API.STREAM.NAMES $JS.API.CONSUMER.NAMES.S $JS.API.STREAM.INFO.S x.info J.API.INFO".split()
EXPORTS = ", ".join(f'{{service: "$JS.API.{name}"}}' for name in (">", "INFO", "STREAM.NAMES"))


def config(folder: Path) -> Path:
    """One importing account for each way to import; its user has the same name."""
    users = {name: f"users: [{{user: {name}, password: p}}], imports: [{rows}]" for name, rows in IMPORTS.items()}
    accounts = "\n".join(f"  {name} {{ {rows} }}" for name, rows in users.items())
    path = folder / "server.conf"
    path.write_text(
        f"jetstream {{ store_dir: '{folder}' }}\n"
        f"accounts {{\n  J {{ jetstream: enabled, exports: [{EXPORTS}] }}\n{accounts}\n}}\n",
        encoding="utf-8",
    )
    return path


def told(client: Client, subject: str) -> str:
    found = answer_to(client, subject, "", wait=True)
    assert found is not None
    if found.startswith(b"NATS/1.0"):
        return found[:12].decode()
    return str(json.loads(found).get("error", "an answer"))


def test_one_answer_comes_from_where_nats_server_takes_it(tmp_path: Path) -> None:
    if process.find_nats_server() is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    found = []
    for make, name in ((process.nats_server, "theirs"), (process.jetbroker, "ours")):
        folder = tmp_path / name
        folder.mkdir()
        rows = {}
        with make("-c", str(config(folder))) as server:
            for user in IMPORTS:
                client = Client(server.port, user)
                client.send("SUB in.> 1\r\n")
                rows[user] = {subject: told(client, subject) for subject in SUBJECTS}
                client.close()
        found.append(rows)
    assert found[1] == found[0]
