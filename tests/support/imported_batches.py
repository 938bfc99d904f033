"""Fast batches that are published in one account and stored in another one's stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import nats

from tests.support.fast import Fast, FastPublisher
from tests.support.publishes import Publish

CONFIG = """
jetstream { store_dir: "%s" }
accounts {
  J { jetstream: enabled, users: [{user: J, password: p}], exports: [{service: "s.>"}] }
  K { jetstream: enabled, users: [{user: K, password: p}], exports: [{service: "s.>", response: stream}] }
  PLAIN { users: [{user: PLAIN, password: p}], imports: [{service: {account: J, subject: "s.>"}}]
    exports: [{service: "s.>"}] }
  RENAMED { users: [{user: RENAMED, password: p}], imports: [{service: {account: J, subject: "s.>"}, to: "p.>"}] }
  STREAMED { users: [{user: STREAMED, password: p}], imports: [{service: {account: K, subject: "s.>"}}] }
  CHAINED { users: [{user: CHAINED, password: p}], imports: [{service: {account: PLAIN, subject: "s.>"}}] }
}
"""
OWNERS = {"PLAIN": "J", "RENAMED": "J", "STREAMED": "K", "CHAINED": "J"}  # importers, and who has the stream


class ImportingPublisher(FastPublisher):
    """Publishes as an importer; `owner` is a client in the stream's account."""

    def __init__(self, client: Any, owner: Any, first_token: str) -> None:
        super().__init__(client)
        self._owner = FastPublisher(owner)
        self._first_token = first_token

    async def put(self, step: Fast | Publish) -> None:
        await super().put(replace(step, subject=self._first_token + step.subject[1:]))

    async def api(self, subject: str, body: object = None) -> dict[str, Any]:
        return await self._owner.api(subject, body)


def write_config(folder: Path) -> Path:
    """A server's, with everything in `folder`."""
    file = folder / "server.conf"
    file.write_text(CONFIG % folder)
    return file


@asynccontextmanager
async def importing(port: int, importer: str) -> AsyncIterator[ImportingPublisher]:
    """A publisher that listens already."""

    async def connected(name: str) -> Any:
        return await nats.connect(f"nats://{name}:p@127.0.0.1:{port}", allow_reconnect=False)

    client, owner = await connected(importer), await connected(OWNERS[importer])
    publisher = ImportingPublisher(client, owner, "p" if importer == "RENAMED" else "s")
    await publisher.listen()
    yield publisher
    await client.close()
    await owner.close()
