"""The JetStream API of one account: requests come in on `$JS.API.`, are queued, handled in order, and answered.

Subjects that mean nothing are met with silence.
"""

import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jetbroker import limits
from jetbroker.errors import StorageError
from jetbroker.forms.api_level import LEVEL_HEADER, level_supported
from jetbroker.forms.gojson import dumps
from jetbroker.jetstream.account import JetStream
from jetbroker.jetstream.api import backups as api_backup
from jetbroker.jetstream.api import consumers as api_consumer
from jetbroker.jetstream.api import streams as api_stream
from jetbroker.jetstream.api.audit import Audit
from jetbroker.jetstream.api.endpoints import PREFIX, Endpoint, Later, Request
from jetbroker.jetstream.consumers.pull import SilentReceiver
from jetbroker.jetstream.models.contracts import Origin
from jetbroker.jetstream.models.errors import ApiError, api_error, wrap_error
from jetbroker.routing.router import CallbackReceiver
from jetbroker.routing.subscription import Subscription
from jetbroker.wire.headers import header_value

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
        *api_backup.ENDPOINTS,
        *api_consumer.ENDPOINTS,
    )
}


def find_endpoint(endpoints: Mapping[str, Endpoint], tokens: list[str]) -> Endpoint | None:
    """The one a subject (without `$JS.API.`) belongs to, None when there is none or the length is wrong."""
    for length in (3, 2, 1):
        endpoint = endpoints.get(".".join(tokens[:length]))
        if endpoint is not None and endpoint.name.count(".") + 1 == length:
            return endpoint if endpoint.least <= len(tokens) <= endpoint.most else None
    return None


class Api:
    """Receives, dispatches and answers the requests of one account.

    `has_links`: is the account there on other servers, too? `further`: endpoints that not all accounts have.
    """

    def __init__(self, js: JetStream, has_links: Callable[[], bool], further: Iterable[Endpoint] = ()) -> None:
        self.js = js
        self._has_links = has_links
        self._endpoints = ENDPOINTS | {endpoint.name: endpoint for endpoint in further}
        self.host = js.host
        self.requests = js.requests
        self.requests.tell_dropped = self._tell_dropped
        self._audit = Audit(js)
        self._subscriptions: list[Subscription] = []

    def start(self) -> None:
        """Subscribe and begin to answer."""
        receiver = CallbackReceiver(self.host.tick, self._received)
        for subject in _SUBJECTS:
            # other servers are told of all of the API at once, below
            self._subscriptions.append(self.host.router.subscribe(receiver, (PREFIX + subject).encode(), weight=0))
        self._subscriptions.append(self.host.router.subscribe(SilentReceiver(), f"{PREFIX}>".encode()))
        self.requests.start()

    async def stop(self) -> None:
        """Take no more requests, drop those that wait; one that is being handled is finished."""
        for subscription in self._subscriptions:
            self.host.router.unsubscribe(subscription)
        self._subscriptions = []
        await self.js.transfers.stop()
        await self.requests.stop()

    # --- in ---

    def _received(
        self, subject: bytes, reply: bytes | None, headers: bytes, payload: bytes, origin: Origin | None
    ) -> None:
        text = subject.decode("utf-8", "replace")
        self.take(Request(text, text.removeprefix(PREFIX).split("."), reply, headers, payload, origin))

    def take(self, request: Request) -> None:
        """Have a request handled and answered, if it means anything."""
        endpoint = find_endpoint(self._endpoints, request.tokens)
        if endpoint is None or (endpoint.of_consumer and not self.js.enabled):
            return
        client = 0 if request.origin is None else request.origin.cid
        size = len(request.subject) + len(request.headers) + len(request.body) + limits.JS_API_REQUEST_BYTES
        self.requests.add(lambda: self._handle(endpoint, request, size), client, size, is_info=endpoint.is_info)

    def _tell_dropped(self, dropped: int) -> None:
        self.host.log.warn(f"JetStream API queue limit reached, dropping {dropped} requests")
        domain = self.host.server_info.domain
        fields: dict[str, Any] = {"server": self.host.server_info.server_name}
        fields |= ({"domain": domain} if domain else {}) | {"dropped": dropped}
        self.host.advisories.publish_to_all("$JS.EVENT.ADVISORY.API.LIMIT_REACHED", fields, "api_limit_reached")

    # --- at work ---

    async def _handle(self, endpoint: Endpoint, request: Request, size: int) -> None:
        response: dict[str, Any] = {"type": f"io.nats.jetstream.api.v1.{endpoint.kind}_response"}
        try:
            if not self._shall_answer(endpoint, request):
                return
            answer = await endpoint.handler(self.js, request)
        except ApiError as error:
            answer = {"error": error.to_json()} | endpoint.zeros
        except Exception as error:
            self.host.log.error(f"JetStream API {request.subject}:\n{traceback.format_exc().rstrip()}")
            fault = wrap_error("stream_general_error", RuntimeError(f"internal error: {type(error).__name__}"))
            answer = {"error": fault.to_json()} | endpoint.zeros
        # an INFO request tells of those before it
        self.requests.total += not endpoint.of_consumer
        if isinstance(answer, Later):
            await self.requests.answer_later(self._answer_later(endpoint, request, response, answer), size)
        elif answer is not None:
            self._answer(endpoint, request, response | answer)

    async def _answer_later(self, endpoint: Endpoint, request: Request, response: dict[str, Any], later: Later) -> None:
        try:
            await later.durable
        except StorageError as error:
            if later.undo is not None:
                await self.requests.run(later.undo)
            fault = api_error(later.error, err=str(error))
            self._answer(endpoint, request, response | {"error": fault.to_json()} | endpoint.zeros)
        else:
            self._answer(endpoint, request, response | later.answer)

    def _answer(self, endpoint: Endpoint, request: Request, response: dict[str, Any]) -> None:
        if "error" in response and not endpoint.of_consumer:
            self.requests.errors += 1
        body = dumps(response) if request.render is None else request.render(response)
        if request.reply is not None:
            self.host.router.publish_bytes(request.reply, None, b"", body)
        if not (endpoint.of_consumer or (endpoint.is_quiet and "error" not in response)):
            self._audit.tell(request, body)

    def _shall_answer(self, endpoint: Endpoint, request: Request) -> bool:
        """False: this account may have its JetStream on another server. Raises ApiError."""
        if endpoint.is_cluster:
            raise api_error("cluster_required")
        if request.headers:
            if not level_supported(header_value(request.headers, LEVEL_HEADER)):
                raise api_error("required_api_level")
        if not self.js.enabled:
            if self._has_links() and not endpoint.answers_always:
                return False
            raise api_error("not_enabled_for_account")
        return True
