# ruff: noqa: RUF009 -- json_field returns dataclasses.field(), which is made for this place
"""STREAM.RESTORE: an archive comes in, chunk by chunk, and is a stream when its end has come; or nothing at all."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.forms.gojson import dumps
from jetbroker.forms.gotext import format_time
from jetbroker.forms.sizes import friendly_bytes
from jetbroker.jetstream.account import JetStream
from jetbroker.jetstream.backup.archive.blocks import ArchiveError
from jetbroker.jetstream.backup.archive.documents import ForeignContentError
from jetbroker.jetstream.backup.arrival import RESTORE_FAULTS, Arrival
from jetbroker.jetstream.models.config import StreamConfig
from jetbroker.jetstream.models.decode import Kind, Place, StructKind, json_field
from jetbroker.jetstream.models.errors import ApiError, wrap_error
from jetbroker.jetstream.models.names import random_name
from jetbroker.jetstream.streams.stream import Stream
from jetbroker.routing.router import CallbackReceiver
from jetbroker.turns import Turn

_NUID = 22
_TYPE = {"type": "io.nats.jetstream.api.v1.stream_create_response"}

Describe = Callable[[Stream], dict[str, Any]]


class _UnreadKind(Kind):
    """What a request may say, and nobody reads."""

    def read(self, value: Any, where: Place, old: Any, strict: bool) -> Any:
        return None

    def zero(self) -> Any:
        return None


@dataclass
class RestoreRequest:
    """Body of STREAM.RESTORE; its `state` is not looked at."""

    config: StreamConfig = json_field(StructKind(StreamConfig, "StreamConfig", optional=False))
    state: None = json_field(_UnreadKind())


class _EndedError(Exception):
    """The sender does not do as agreed; the text says how. `reply`: where it is still to be answered."""

    def __init__(self, text: str, reply: bytes | None = None) -> None:
        super().__init__(text)
        self.reply = reply


class _StalledError(Exception):
    """The sender has broken off. As in nats-server, only the log says so."""


def _weight(chunk: bytes) -> int:
    """What a chunk counts as, with its reply subject: very many small ones are bounded, too."""
    return len(chunk) + limits.JS_RESTORE_CHUNK_BYTES


class Restore:
    """One archive that comes in. `client` describes whoever asked, `describe` the stream in the last answer."""

    def __init__(self, js: JetStream, config: StreamConfig, client: dict[str, Any], describe: Describe) -> None:
        self._js = js
        self._config = config
        self._client = client
        self._describe = describe
        self._who = f"'{js.account_name} > {config.name}'"
        self._arrival = Arrival(js, config)
        self._began_ns = time.time_ns()
        self._chunks: asyncio.Queue[tuple[bytes, bytes | None]] = asyncio.Queue()
        self._waiting = 0  # bytes that it takes
        self._bytes = 0
        self.subject = f"$JS.SNAPSHOT.RESTORE.{config.name}.{random_name(_NUID)}"
        receiver = CallbackReceiver(js.host.tick, self._received)
        self._subscription = js.host.router.subscribe(receiver, self.subject.encode())
        self._listens = True

    def start(self) -> None:
        """Tell who listens, and take chunks."""
        self._js.log.info(f"Starting restore for stream {self._who}")
        self._advise("RESTORE_CREATE", "restore_create", {"stream": self._config.name, "client": self._client})
        self._js.transfers.start(self._run())

    def _advise(self, event: str, kind: str, fields: dict[str, Any]) -> None:
        domain = self._js.host.server_info.domain
        fields = fields | ({"domain": domain} if domain else {})
        self._js.host.advisories.publish(f"$JS.EVENT.ADVISORY.STREAM.{event}.{self._config.name}", fields, kind)

    def _received(self, subject: bytes, reply: bytes | None, headers: bytes, payload: bytes, origin: object) -> None:
        if not self._listens:
            return
        self._waiting += _weight(payload)
        if reply is None or not payload or self._waiting > limits.JS_RESTORE_WAITING_BYTES:
            self._close()  # the end, one way or another
        self._chunks.put_nowait((payload, reply))

    def _close(self) -> None:
        if self._listens:
            self._listens = False
            self._js.host.router.unsubscribe(self._subscription)

    # --- the chunks ---

    async def _run(self) -> None:
        reply: bytes | None = None
        stream: Stream | None = None
        fault: Exception = StorageError("")
        turn = Turn()
        try:
            while True:
                taken = await self._next_chunks(turn)
                reply = taken[0][1]
                if not taken[0][0]:
                    break
                await self._arrival.take([chunk for chunk, _ in taken])
                for chunk, reply in taken:
                    self._bytes += len(chunk)
                    self._js.host.router.publish_bytes(reply, None, b"", b"")
                    await turn.rest()
            await self._arrival.complete()
            stream = await self._in_turn()
        except _StalledError as stalled:
            self._js.log.warn(str(stalled))
            return
        except _EndedError as ended:
            self._js.log.warn(str(ended))
            fault, reply = StorageError(str(ended)), ended.reply
        except ForeignContentError as error:
            fault = ArchiveError(f"{error} (account={self._js.account_name})")
            self._js.log.error(f"Stream restore failed due to {fault}")
        except (*RESTORE_FAULTS, ApiError) as error:
            fault = error
        finally:
            self._close()
            with suppress(StorageError):  # the next start removes what is left
                await self._arrival.discard()
        self._tell(reply, stream, fault)

    async def _next_chunks(self, turn: Turn) -> list[tuple[bytes, bytes]]:
        """What has come and one step takes; the end, an empty one, comes by itself."""
        taken = [await self._next_chunk()]
        size = _weight(taken[0][0])
        while size < limits.JS_RESTORE_STEP_BYTES and self._chunks.qsize() > (0 if self._listens else 1):
            taken.append(await self._next_chunk())
            size += _weight(taken[-1][0])
            await turn.rest()
        return taken

    async def _next_chunk(self) -> tuple[bytes, bytes]:
        try:
            async with asyncio.timeout(limits.JS_RESTORE_IDLE_SECONDS):
                chunk, reply = await self._chunks.get()
        except TimeoutError:
            raise _StalledError(f"restore for stream {self._who} is stalled") from None
        if reply is None:
            raise _EndedError(f"restore for stream {self._who} requires reply subject for each chunk")
        if self._waiting > limits.JS_RESTORE_WAITING_BYTES:
            raise _EndedError(f"restore for stream {self._who} was sent more than it could take", reply)
        self._waiting -= _weight(chunk)
        return chunk, reply

    async def _in_turn(self) -> Stream:
        """Have the stream made among the other changes of the account."""
        made: asyncio.Future[Stream] = asyncio.get_running_loop().create_future()

        async def make() -> None:
            try:
                stream = await self._arrival.finish()
            except Exception as error:
                if not made.done():
                    made.set_exception(error)
            else:
                if not made.done():
                    made.set_result(stream)

        self._js.requests.add_change(make)
        return await made

    def _tell(self, reply: bytes | None, stream: Stream | None, fault: Exception) -> None:
        ended_ns = time.time_ns()
        fields = {
            "stream": self._config.name,
            "start": format_time(self._began_ns),
            "end": format_time(ended_ns),
            "bytes": self._bytes,
            "client": self._client,
        }
        self._advise("RESTORE_COMPLETE", "restore_complete", fields)
        took = f"{(ended_ns - self._began_ns) / 1e9:.3f}s"
        size = friendly_bytes(self._bytes)
        if stream is None:
            self._js.log.warn(f"Restore failed for {size} for stream {self._who} in {took}: {fault}")
            answer = {"error": wrap_error("stream_restore", fault).to_json()}
        else:
            self._js.log.info(f"Completed restore of {size} for stream {self._who} in {took}")
            answer = self._describe(stream)
        if reply is not None:
            self._js.host.router.publish_bytes(reply, None, b"", dumps(_TYPE | answer))
