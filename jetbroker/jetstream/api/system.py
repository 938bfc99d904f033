"""The API as the system account has it: what a lone server answers to operators.

The system account has no JetStream. ACCOUNT.PURGE removes what another account has stored. The other requests that
operators of clusters send are met with silence; what is left is refused.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from jetbroker import limits
from jetbroker.forms.gojson import dumps
from jetbroker.jetstream.account import JetStream
from jetbroker.jetstream.api.audit import Audit
from jetbroker.jetstream.api.endpoints import PREFIX, Request
from jetbroker.jetstream.models.contracts import Origin
from jetbroker.jetstream.models.errors import ApiError, api_error
from jetbroker.routing.router import CallbackReceiver
from jetbroker.routing.subscription import Subscription

_PURGE = ["ACCOUNT", "PURGE"]
_OF_CLUSTERS = (["META", "LEADER", "STEPDOWN"], ["SERVER", "REMOVE"])

Purge = Callable[[str], Awaitable[None]]


class SystemApi:
    """Answers the system account.

    `has_links`: as of any account's API. `purge` removes all streams of the account of that name, and raises ApiError.
    """

    def __init__(self, js: JetStream, has_links: Callable[[], bool], purge: Purge) -> None:
        self._host = js.host
        self._requests = js.requests
        self._has_links = has_links
        self._purge = purge
        self._audit = Audit(js)
        self._subscription: Subscription | None = None

    def start(self) -> None:
        """Subscribe and begin to answer."""
        receiver = CallbackReceiver(self._host.tick, self._received)
        self._subscription = self._host.router.subscribe(receiver, f"{PREFIX}>".encode())
        self._requests.start()

    async def stop(self) -> None:
        """Take no more requests, drop those that wait; one that is being handled is finished."""
        if self._subscription is not None:
            self._host.router.unsubscribe(self._subscription)
            self._subscription = None
        await self._requests.stop()

    def _received(
        self, subject: bytes, reply: bytes | None, headers: bytes, payload: bytes, origin: Origin | None
    ) -> None:
        text = subject.decode("utf-8", "replace")
        tokens = text.removeprefix(PREFIX).split(".")
        is_purge = tokens[:2] == _PURGE and len(tokens) == 3
        if origin is None or tokens in _OF_CLUSTERS or (tokens[0] == "ACCOUNT" and len(tokens) > 1 and not is_purge):
            return
        request = Request(text, tokens, reply, headers, payload, origin)
        size = len(subject) + len(headers) + len(payload) + limits.JS_API_REQUEST_BYTES
        handle = self._handle_purge if is_purge else self._refuse
        self._requests.add(lambda: handle(request), origin.cid, size, is_info=not is_purge)

    async def _handle_purge(self, request: Request) -> None:
        name = request.tokens[2]
        try:
            if "/" in name or "\\" in name:
                raise api_error("stream_general_error", err="account name can not contain path separators")
            await self._purge(name)
        except ApiError as error:
            self._answer(request, "account_purge", error)
        else:
            self._answer(request, "account_purge", {"initiated": True})

    async def _refuse(self, request: Request) -> None:
        is_info = request.tokens == ["INFO"]
        if is_info and self._has_links():
            return
        kind = "account_info" if is_info else "system"
        self._answer(request, kind, api_error("not_enabled_for_account"))

    def _answer(self, request: Request, kind: str, answer: dict[str, Any] | ApiError) -> None:
        if isinstance(answer, ApiError):
            self._requests.errors += 1
            answer = {"error": answer.to_json()}
        self._requests.total += 1
        body = dumps({"type": f"io.nats.jetstream.api.v1.{kind}_response"} | answer)
        if request.reply is not None:
            self._host.router.publish_bytes(request.reply, None, b"", body)
        self._audit.tell(request, body)
