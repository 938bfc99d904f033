"""A server whose storage is full: what publishers are told, and what the log says, once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nats
import pytest

from tests.support.pairs import JETBROKER, NATS_SERVER, server

PUBLISHED = 40


async def told(kind: str, folder: Path, storage: str) -> tuple[list[Any], list[str]]:
    """The errors of publishes, and the lines of the log about them."""
    folder.mkdir()
    config = folder / "conf"
    config.write_text(
        f'jetstream {{ store_dir: "{folder}/store", max_file_store: 2000, max_memory_store: 2000 }}\n'
        'listen: "127.0.0.1:-1"\n'
    )
    with server(kind, config) as daemon:
        client = await nats.connect(daemon.url)
        await client.jetstream().add_stream(name="S", subjects=["s"], storage=storage)
        errors = []
        for _ in range(PUBLISHED):
            answer = json.loads((await client.request("s", b"x" * 100, timeout=10)).data)
            errors.append(answer.get("error"))
        await client.close()
        daemon.wait_for("exceeded for server")
        return errors[-10:], [line.partition("] ")[2][27:] for line in daemon.log if "exceeded" in line]


@pytest.mark.differential
@pytest.mark.parametrize("storage", ["file", "memory"])
async def test_it_says_so(tmp_path: Path, storage: str) -> None:
    found = [await told(kind, tmp_path / kind, storage) for kind in (NATS_SERVER, JETBROKER)]
    assert found[1] == found[0]
    assert found[1][1] == [f"[ERR] JetStream {storage} resource limits exceeded for server"]
