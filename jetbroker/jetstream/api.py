"""The JetStream API of one account: requests come in on `$JS.API.`, are queued, handled in order, and answered.

Two lanes, as in nats-server: what changes something runs strictly in order; INFO, NAMES and LIST run beside it, so
that a slow disk does not stop them.  Subjects that mean nothing are met with silence.
"""

import asyncio
import time
import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jetbroker import limits
from jetbroker.addresses import split
from jetbroker.errors import StorageError
from jetbroker.jetstream import api_consumer, api_stream
from jetbroker.jetstream.api_level import LEVEL_HEADER, level_supported
from jetbroker.jetstream.contracts import Origin
from jetbroker.jetstream.endpoints import Endpoint, Later, Request
from jetbroker.jetstream.errors import ApiError, api_error, wrap_error
from jetbroker.jetstream.gojson import dumps
from jetbroker.jetstream.gotext import format_time
from jetbroker.jetstream.receivers import SilentReceiver
from jetbroker.routing.router import CallbackReceiver, Subscription
from jetbroker.wire.headers import header_value

if TYPE_CHECKING:
    from jetbroker.jetstream.account import JetStream

PREFIX = "$JS.API."
_STOP_SECONDS = 2.0  # answers that wait for the disk get as long at the end
_REQUESTS_PER_TURN = 64  # handled before the event loop gets a turn

# Not `$JS.API.>`: pulls and direct gets are answered by consumers and streams, and by 503 when there are none.
_SUBJECTS = (
    "*",
    "STREAM.>",
    "META.>",
    "SERVER.>",
    "ACCOUNT.>",
    "CONSUMER.*",
    "CONSUMER.CREATE.>",
    "CONSUMER.DURABLE.>",
    "CONSUMER.NAMES.>",
    "CONSUMER.LIST.>",
    "CONSUMER.INFO.>",
    "CONSUMER.DELETE.>",
    "CONSUMER.PAUSE.>",
    "CONSUMER.UNPIN.>",
    "CONSUMER.RESET.>",
    "CONSUMER.LEADER.>",
)

ENDPOINTS: dict[str, Endpoint] = {
    endpoint.name: endpoint
    for endpoint in (
        Endpoint("INFO", 1, 1, "account_info", api_stream.account_info, is_info=True),
        *api_stream.ENDPOINTS,
        *api_consumer.ENDPOINTS,
    )
}


def find_endpoint(tokens: list[str]) -> Endpoint | None:
    """The endpoint a subject (without `$JS.API.`) belongs to, None when there is none or the length is wrong."""
    for length in (3, 2, 1):
        endpoint = ENDPOINTS.get(".".join(tokens[:length]))
        if endpoint is not None and endpoint.name.count(".") + 1 == length:
            return endpoint if endpoint.least <= len(tokens) <= endpoint.most else None
    return None


@dataclass
class _Lane:
    """Requests that are handled one after the other."""

    waiting: deque[Callable[[], Awaitable[None]]] = field(default_factory=deque)
    wake: asyncio.Event = field(default_factory=asyncio.Event)


class Api:
    """Receives, queues, dispatches and answers the requests of one account."""

    def __init__(self, js: "JetStream") -> None:
        self.js = js
        self.requests_total = 0
        self.errors_total = 0
        self._changes = _Lane()
        self._infos = _Lane()
        self._subscriptions: list[Subscription] = []
        self._workers: list[asyncio.Task[None]] = []
        self._later: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Subscribe and begin to answer."""
        receiver = CallbackReceiver(self.js.tick, self._received)
        for subject in _SUBJECTS:
            self._subscriptions.append(self.js.router.subscribe(receiver, (PREFIX + subject).encode()))
        self._subscriptions.append(self.js.router.subscribe(SilentReceiver(), f"{PREFIX}>".encode()))
        self._workers = [asyncio.create_task(self._work(lane)) for lane in (self._changes, self._infos)]

    async def stop(self) -> None:
        """Take no more requests, drop those that wait; one that is being handled is finished."""
        for subscription in self._subscriptions:
            self.js.router.unsubscribe(subscription)
        self._subscriptions = []
        for lane in (self._changes, self._infos):
            lane.waiting.clear()
            lane.waiting.append(_stop_worker)
            lane.wake.set()
        await asyncio.gather(*self._workers)
        self._workers = []
        if self._later:
            await asyncio.wait(self._later, timeout=_STOP_SECONDS)

    def run_later(self, job: Callable[[], Awaitable[None]]) -> None:
        """Run an internal change behind the requests that wait already."""
        self._changes.waiting.append(job)
        self._changes.wake.set()

    @property
    def inflight(self) -> int:
        """Requests that wait."""
        return len(self._changes.waiting) + len(self._infos.waiting) + len(self._later)

    # --- in ---

    def _received(
        self, subject: bytes, reply: bytes | None, headers: bytes, payload: bytes, origin: Origin | None
    ) -> None:
        text = subject.decode("utf-8", "replace")
        tokens = text.removeprefix(PREFIX).split(".")
        endpoint = find_endpoint(tokens)
        if endpoint is None:
            return
        request = Request(text, tokens, reply, headers, payload, origin)
        lane = self._infos if endpoint.is_info else self._changes
        if len(lane.waiting) + len(self._later) >= limits.JS_API_QUEUE_REQUESTS:
            self._drop_all(lane)
        lane.waiting.append(lambda: self._handle(endpoint, request))
        lane.wake.set()

    def _drop_all(self, lane: _Lane) -> None:
        """As nats-server: better none in time than all too late."""
        dropped = len(lane.waiting)
        lane.waiting.clear()
        self.js.log.warn(f"JetStream API queue limit reached, dropping {dropped} requests")
        info = self.js.server_info
        fields = {"server": info.server_name, "dropped": dropped}
        self.js.publish_advisory("$JS.EVENT.ADVISORY.API.LIMIT_REACHED", fields, "api_limit_reached")

    # --- at work ---

    async def _work(self, lane: _Lane) -> None:
        while True:
            await lane.wake.wait()
            for _ in range(_REQUESTS_PER_TURN):
                if not lane.waiting:
                    lane.wake.clear()
                    break
                job = lane.waiting.popleft()
                if job is _stop_worker:
                    return
                await self._run(job)
            else:
                await asyncio.sleep(0)

    async def _run(self, job: Callable[[], Awaitable[None]]) -> None:
        """A fault of ours must not stop the account's API; it is logged as loudly as possible."""
        try:
            await job()
        except Exception:
            self.js.log.error(f"JetStream API of {self.js.account_name}:\n{traceback.format_exc().rstrip()}")

    async def _handle(self, endpoint: Endpoint, request: Request) -> None:
        response: dict[str, Any] = {"type": f"io.nats.jetstream.api.v1.{endpoint.kind}_response"}
        try:
            self._check_request(endpoint, request)
            answer = await endpoint.handler(self.js, request)
        except ApiError as error:
            answer = {"error": error.to_json()} | endpoint.zeros
        except Exception as error:
            self.js.log.error(f"JetStream API {request.subject}:\n{traceback.format_exc().rstrip()}")
            fault = wrap_error("stream_general_error", RuntimeError(f"internal error: {type(error).__name__}"))
            answer = {"error": fault.to_json()} | endpoint.zeros
        # an INFO request tells of those before it
        self.requests_total += not endpoint.of_consumer
        if isinstance(answer, Later):
            task = asyncio.create_task(self._answer_later(endpoint, request, response, answer))
            self._later.add(task)
            task.add_done_callback(self._later.discard)
        elif answer is not None:
            self._answer(endpoint, request, response | answer)

    async def _answer_later(self, endpoint: Endpoint, request: Request, response: dict[str, Any], later: Later) -> None:
        try:
            await later.durable
        except StorageError as error:
            fault = api_error(later.error, err=str(error))
            self._answer(endpoint, request, response | {"error": fault.to_json()} | endpoint.zeros)
        else:
            self._answer(endpoint, request, response | later.answer)

    def _answer(self, endpoint: Endpoint, request: Request, response: dict[str, Any]) -> None:
        if "error" in response and not endpoint.of_consumer:
            self.errors_total += 1
        body = dumps(response)
        if request.reply is not None:
            self.js.router.publish_bytes(request.reply, None, b"", body)
        if not (endpoint.of_consumer or (endpoint.is_quiet and "error" not in response)):
            self._audit(request, body)

    def _check_request(self, endpoint: Endpoint, request: Request) -> None:
        if endpoint.is_cluster:
            raise api_error("cluster_required")
        if request.headers:
            if not level_supported(header_value(request.headers, LEVEL_HEADER)):
                raise api_error("required_api_level")
        if not self.js.enabled:
            raise api_error("not_enabled_for_account")

    def _audit(self, request: Request, body: bytes) -> None:
        """Who asked what, for whoever listens."""
        subject = "$JS.EVENT.ADVISORY.API"
        if not self.js.router.interested(subject.encode()):
            return
        fields: dict[str, Any] = {
            "server": self.js.server_info.server_name,
            "client": self._client(request.origin),
            "subject": request.subject,
        }
        if request.body:
            fields["request"] = request.body.decode("utf-8", "replace")
        fields["response"] = body.decode()
        if self.js.server_info.domain:
            fields["domain"] = self.js.server_info.domain
        self.js.publish_advisory(subject, fields, "api_audit")

    def _client(self, origin: Origin | None) -> dict[str, Any]:
        """Who asked, as nats-server describes a connection; empty fields are left out."""
        account = {"acc": self.js.account_name}
        if origin is None:
            return account
        start_ns = time.time_ns() - int((self.js.tick.loop.time() - origin.opened_at) * 1e9)
        facts = {
            "start": format_time(start_ns),
            "host": split(origin.peer)[0],
            "id": origin.cid,
            **account,
            "user": origin.user,
            "name": origin.name,
            "lang": origin.lang,
            "ver": origin.version,
            "rtt": getattr(origin, "rtt_ns", 0),
            "server": self.js.server_info.server_name,
        }
        return {name: value for name, value in facts.items() if value} | {"kind": "Client", "client_type": "nats"}


async def _stop_worker() -> None:
    """Marks the end of a lane."""
