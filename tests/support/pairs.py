"""Two servers with a link between them: a hub and a spoke, each nats-server or jetbroker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from nats.aio.client import Client as NatsClient
from nats.errors import NoRespondersError

from tests.support.daemon import Daemon
from tests.support.process import JETBROKER_COMMAND, find_nats_server, free_port

JETBROKER, NATS_SERVER = "jetbroker", "nats-server"
PAIRS = [(JETBROKER, JETBROKER), (NATS_SERVER, JETBROKER), (JETBROKER, NATS_SERVER)]
"""Hub and spoke."""
LIVE = "JetStream using domains"
PROBES = 500


def server(kind: str, config: Path, *arguments: str, before: Sequence[str] = ()) -> Daemon:
    """Not started yet. `before`: words in front of jetbroker's command."""
    if kind == JETBROKER:
        return Daemon("-D", "-c", str(config), *arguments, command=(*before, *JETBROKER_COMMAND))
    program = find_nats_server()
    if program is None:
        pytest.skip("no nats-server on this machine")
    return Daemon("-D", "-c", str(config), *arguments, command=(program,))


class Pair:
    """A hub and a spoke that dials it. The texts are their configurations; `{leaf_port}` stands for the hub's port.

    `before`: words in front of the command of the hub, of the spoke.
    """

    def __init__(
        self,
        kinds: tuple[str, str],
        folder: Path,
        hub: str,
        spoke: str,
        before: tuple[Sequence[str], Sequence[str]] = ((), ()),
    ) -> None:
        self.leaf_port = free_port()
        self.servers = []
        for kind, name, text, words in zip(kinds, ("hub", "spoke"), (hub, spoke), before, strict=True):
            path = folder / f"{name}.conf"
            path.write_text(f"server_name: {name}\n" + text.replace("{leaf_port}", str(self.leaf_port)))
            self.servers.append(server(kind, path, before=words))
        self.hub, self.spoke = self.servers

    def __enter__(self) -> Pair:
        try:
            self.hub.start()
            self.spoke.start()
            self.linked()
        except BaseException:
            self.__exit__()
            raise
        return self

    def linked(self, hub_after: int = 0, spoke_after: int = 0) -> None:
        """Wait until both ends say so, behind so many lines of their logs (domains must differ, or be none)."""
        self.hub.wait_for(LIVE, hub_after)
        self.spoke.wait_for(LIVE, spoke_after)

    def __exit__(self, *exception: object) -> None:
        for one in reversed(self.servers):
            one.stop()


async def told(client: NatsClient, subject: str) -> None:
    """Wait until the client's server knows that somebody listens to `subject` and answers."""
    for _ in range(PROBES):
        try:
            await client.request(subject, b"probe", timeout=5)
        except NoRespondersError:
            await asyncio.sleep(0.01)  # interest crosses a link in its own time
        else:
            return
    raise AssertionError(f"nobody answers on {subject}")
