"""Fast batches through imports of another account's stream subjects: the same lines and messages as nats-server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.differential.fast_rows import cases
from tests.support import process
from tests.support.imported_batches import importing, write_config

pytestmark = [pytest.mark.differential, pytest.mark.asyncio(loop_scope="module")]

# Where a stream is full to the byte, nats-server counts the header that an import adds and no stream keeps.
CASES = [case for case in cases() if "full by size" not in case.name and "in memory" not in case.name]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[process.ServerProcess]]:
    if process.find_nats_server() is None:
        pytest.skip("nats-server is neither on the PATH nor in ~/go/bin")
    theirs, ours = (write_config(tmp_path_factory.mktemp(name)) for name in ("theirs", "ours"))
    with process.nats_server("-c", str(theirs)) as reference, process.jetbroker("-c", str(ours)) as broker:
        yield [reference, broker]


@pytest.mark.parametrize(("importer", "every"), [("PLAIN", 3), ("RENAMED", 12), ("STREAMED", 8), ("CHAINED", 12)])
async def test_the_same_lines(servers: list[process.ServerProcess], importer: str, every: int) -> None:
    async with importing(servers[0].port, importer) as reference, importing(servers[1].port, importer) as ours:
        for case in CASES[::every]:
            expected = await reference.play(case)
            assert await ours.play(case, reference.count()) == expected, case.name
