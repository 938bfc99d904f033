"""What an API endpoint is, and the reading of request bodies they share."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from jetbroker import limits
from jetbroker.forms.gojson import fast_value
from jetbroker.jetstream.account import JetStream
from jetbroker.jetstream.models.contracts import Origin
from jetbroker.jetstream.models.decode import INT, DecodeError, decode, json_field
from jetbroker.jetstream.models.errors import api_error

T = TypeVar("T")
PREFIX = "$JS.API."
MANY = 2**31  # tokens


@dataclass
class PagedRequest:
    """What every request for a page has."""

    offset: int = json_field(INT)


@dataclass(frozen=True)
class Request:
    """One API request. `tokens` is the subject without `$JS.API.`; `origin` None: it came from the broker itself.

    `render`: how the answer is told, if not as JSON.
    """

    subject: str
    tokens: list[str]
    reply: bytes | None
    headers: bytes
    body: bytes
    origin: Origin | None = None
    render: Callable[[dict[str, Any]], bytes] | None = None


@dataclass(frozen=True)
class Later:
    """An answer that is sent when `durable` has ended; the requests behind it need not wait for that.

    A StorageError of `durable` is answered as `error`, when `undo` has taken back what could not be stored.
    """

    answer: dict[str, Any]
    durable: Awaitable[None]
    error: str
    undo: Callable[[], Awaitable[None]] | None = None


Handler = Callable[[JetStream, Request], Awaitable[dict[str, Any] | Later | None]]


@dataclass(frozen=True)
class Endpoint:
    """One row of the API.

    `least` and `most` bound the tokens of the subject; `kind` is the reply's type without `_response`; `zeros` are
    the fields an error reply carries beside the error. `is_info`: runs in the second lane. `is_quiet`: a good answer
    is not audited. `is_cluster`: needs a cluster, whatever is asked. `of_consumer`: the answer is a consumer's own, so
    it is neither counted nor audited. `answers_always`: also where another server may have the account's JetStream.
    """

    name: str
    least: int
    most: int
    kind: str
    handler: Handler
    zeros: dict[str, Any] = field(default_factory=dict)
    is_info: bool = False
    is_quiet: bool = False
    is_cluster: bool = False
    of_consumer: bool = False
    answers_always: bool = False


def read_body(js: JetStream, cls: type[T], go_name: str, request: Request) -> T:
    """The body as a `cls`; the log tells of unknown fields, also where they are taken. Raises ApiError 10025."""
    try:
        return decode(cls, go_name, request.body)
    except DecodeError as error:
        fault = str(error)
    js.log.warn_seldom(
        f"Invalid JetStream request '{js.account_name} > {request.subject}': {fault[: limits.JS_LOGGED_CHARS]}"
    )
    try:
        if not js.strict:
            return decode(cls, go_name, request.body, strict=False)
    except DecodeError as error:
        fault = str(error)
    raise api_error("invalid_json", err=fault)


def read_optional_body(js: JetStream, cls: type[T], go_name: str, request: Request) -> T:
    """As read_body, but what looks like neither an object nor an array counts as no body at all."""
    return read_body(js, cls, go_name, request) if request.body.lstrip()[:1] in (b"{", b"[") else cls()


def expect_no_body(body: bytes) -> None:
    """Refuse a body that says anything. Raises ApiError 10038."""
    if not body:
        return
    try:
        if fast_value(body) == {}:
            return
    except ValueError:
        pass
    raise api_error("not_empty_request")


def clip_offset(offset: int, total: int) -> int:
    """Where a page starts: within 0..total."""
    return min(max(offset, 0), total)


async def only_in_clusters(js: JetStream, request: Request) -> dict[str, Any]:
    """The handler of endpoints that a single server never gets to."""
    raise api_error("cluster_required")
