"""Fast batches through imports: an importer hears and stores what a publisher of the stream's own account would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nats
import pytest

from tests.support.fast import APPEND, COMMIT, END, PING, START, Fast, FastCase, FastPublisher
from tests.support.imported_batches import OWNERS, importing, write_config
from tests.support.process import jetbroker


def run(last: int, **more: Any) -> list[Fast]:
    return [Fast(seq, APPEND if seq > 1 else START, **more) for seq in range(1, last + 1)]


CASES = [
    FastCase("commit", [*run(30, flow=7), Fast(31, COMMIT, flow=7)]),
    FastCase("end", [*run(3), Fast(4, END)]),
    FastCase("headers", [*run(3, headers=(("Nats-Msg-Id", "1"), ("Other", "o")), gap="ok"), Fast(4, COMMIT, gap="ok")]),
    FastCase("question", [*run(3), Fast(3, PING), Fast(4, COMMIT)]),
    FastCase("quoted", [*run(2, batch='a"b<'), Fast(3, COMMIT, batch='a"b<')]),
    FastCase("unknown", [Fast(5), Fast(1, reply="b.10.maybe.1.0.$FI"), Fast(1, reply="$FI")]),
    FastCase("refused", run(1), {"allow_batched": False}),
]


@pytest.mark.parametrize("importer", OWNERS)
async def test_importers_hear_what_others_hear(tmp_path: Path, importer: str) -> None:
    with jetbroker("-c", str(write_config(tmp_path))) as server:
        owner = await nats.connect(f"nats://{OWNERS[importer]}:p@127.0.0.1:{server.port}", allow_reconnect=False)
        direct = FastPublisher(owner)
        await direct.listen()
        async with importing(server.port, importer) as publisher:
            for case in CASES:
                expected = await direct.play(case)
                assert await publisher.play(case, direct.count()) == expected, case.name
        await owner.close()
