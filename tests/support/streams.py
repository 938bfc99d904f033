"""A router, a stream and its log in this process: for tests of the stream engine without sockets."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from jetbroker.jetstream.host.advisories import Advisories
from jetbroker.jetstream.host.host import Host
from jetbroker.jetstream.host.usage import AccountUsage
from jetbroker.jetstream.models.config import StreamConfig
from jetbroker.jetstream.models.contracts import AccountLimits, ServerInfo, ServerReservations
from jetbroker.jetstream.models.stream_config import check_stream_config
from jetbroker.jetstream.sourcing.origins import Origins
from jetbroker.jetstream.streams.stream import Stream
from jetbroker.jetstream.timing.work_turns import WorkTurns
from jetbroker.logs.logger import Logger
from jetbroker.routing.router import CallbackReceiver, Router
from jetbroker.store.disk import Disk
from jetbroker.store.log.commit import GroupCommit
from jetbroker.store.log.filelog import FileLog
from jetbroker.store.log.memlog import MemoryLog
from jetbroker.store.log.statelog import StateLog
from jetbroker.tick import Tick
from jetbroker.turns import at_once

Answer = tuple[bytes, bytes]  # headers, payload
ANSWER_SECONDS = 20.0

_stream_ids = itertools.count(1)


def stream_config(**fields: Any) -> StreamConfig:
    """A checked configuration; fields as in JSON."""
    given = {"name": "S", "subjects": ["s.>"], "retention": "limits", "discard": "old", "storage": "memory", **fields}
    return at_once(check_stream_config(StreamConfig.from_json(given), AccountLimits()))


class StreamBench:
    """One account with one stream. `directory` is where a file stream goes; `interval` None: sync before each ack."""

    def __init__(
        self, directory: Path, interval: float | None = None, domain: str = "", disk: Disk | None = None
    ) -> None:
        self.directory = directory
        self.tick = Tick(asyncio.get_running_loop())
        self.router = Router("$G", self.tick)
        self.warnings: list[str] = []
        self.advisories: list[tuple[Any, ...]] = []
        self.host = Host(
            self.router,
            WorkTurns(self.tick),
            ServerInfo("name", "id", "2.14.5", domain),
            cast(Logger, SimpleNamespace(warn=self.warnings.append, warn_seldom=self.warnings.append)),
            cast(Advisories, SimpleNamespace(publish=self._told, publish_to_all=self._told)),
        )
        self.streams: dict[str, Stream] = {}
        self.usage = AccountUsage(self.streams, AccountLimits(), ServerReservations())
        self.disk = disk or Disk()
        self.group = GroupCommit(self.tick, self.disk, interval)
        self.stream: Any = None
        self._answers: dict[bytes, asyncio.Queue[Answer]] = {}
        self._numbers = itertools.count(1)
        self._receiver = CallbackReceiver(self.tick, self._take)
        self.router.subscribe(self._receiver, b"_R.*")

    def _told(self, *advisory: Any) -> None:
        self.advisories.append(advisory)

    def _take(self, subject: bytes, reply: bytes | None, headers: bytes, payload: bytes, origin: None) -> None:
        self._answers[subject].put_nowait((headers, payload))

    def make_log(self, config: StreamConfig) -> Any:
        """A new, empty log of the configured kind."""
        if config.storage == "memory":
            return MemoryLog(self.tick)
        path = self.directory / f"stream-{next(_stream_ids)}"
        path.mkdir()
        meta = {"account": "$G", "stream": config.name, "created": 0, "config": config.to_json()}
        log = FileLog(self.tick, self.disk, self.group, str(path), next(_stream_ids), meta)
        log.start()
        return log

    def open(self, **fields: Any) -> Any:
        """Make and start a stream; the one before is stopped."""
        if self.stream is not None:
            self.stream.stop()
        config = stream_config(**fields)
        return self.start_stream(config, self.make_log(config))

    def start_stream(self, config: StreamConfig, log: Any) -> Any:
        """Start a stream with this log, which may hold messages."""
        self.stream = Stream(self.host, self.usage, config, log, 1, make_origins=self.make_origins)
        self.streams[config.name] = self.stream
        self.stream.start()
        return self.stream

    def make_origins(self, stream: Stream) -> Origins:
        """Where the stream copies messages from; positions are kept in memory."""
        return Origins(stream, None, lambda: StateLog.in_memory(self.tick, {"name": "positions", "config": {}}))

    def send(self, subject: str, payload: bytes = b"", headers: bytes = b"") -> asyncio.Queue[Answer]:
        """Publish with a reply subject; answers arrive in the queue."""
        reply = b"_R.%d" % next(self._numbers)
        queue = self._answers[reply] = asyncio.Queue()
        self.router.publish_bytes(subject.encode(), reply, headers, payload)
        return queue

    def publish(self, subject: str, payload: bytes = b"", headers: bytes = b"") -> None:
        """Publish without a reply subject."""
        self.router.publish_bytes(subject.encode(), None, headers, payload)

    async def ask(self, subject: str, payload: bytes = b"", headers: bytes = b"") -> Any:
        """Publish, and the JSON of the answer."""
        answer = await asyncio.wait_for(self.send(subject, payload, headers).get(), ANSWER_SECONDS)
        return json.loads(answer[1])

    def answer_json(self, queue: asyncio.Queue[Answer]) -> Any:
        """The JSON of an answer that must be there by now."""
        return json.loads(queue.get_nowait()[1])

    async def settle(self) -> None:
        """Until all that has been published is committed and its acks are out."""
        await self.stream.commit()
        await asyncio.sleep(0)

    async def close(self) -> None:
        """Stop the stream and the commit thread."""
        if self.stream is not None:
            self.stream.stop()
        await self.group.close()
