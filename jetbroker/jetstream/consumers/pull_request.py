# ruff: noqa: RUF009 -- json_field and embedded_field return dataclasses.field(), which is made for this place
"""The body of a pull request: empty, a number of messages, or JSON."""

from dataclasses import dataclass
from functools import lru_cache

from jetbroker.forms.gotext import duration_text
from jetbroker.forms.strconv import atoi
from jetbroker.jetstream.models.decode import BOOL, DURATION, INT, INT64, TEXT, DecodeError, embedded_field, json_field
from jetbroker.jetstream.models.unmarshal import unmarshal

MAX_BATCH_TEXT = 20  # bytes: a sign and what 64 bits hold
MAX_PRIORITY = 9
REMEMBERED_BODIES = 256
REMEMBERED_BYTES = 512  # of a body: those of clients have less than 200


class PullRequestError(Exception):
    """The request is refused; the message is the status line, e.g. `400 Bad Request - heartbeat value too large`."""


@dataclass
class PriorityGroup:
    """What a request says of its priority group. `id` is that of the pin the client was told of."""

    group: str = json_field(TEXT)
    min_pending: int = json_field(INT64)
    min_ack_pending: int = json_field(INT64)
    id: str = json_field(TEXT)
    priority: int = json_field(INT)


@dataclass
class PullRequest:
    """What a client asks for. Durations are nanoseconds; 0 means not given. A batch below 1 is served as 1.

    `is_object`: it came as JSON, and only then it has a priority group.
    """

    expires: int = json_field(DURATION)
    batch: int = json_field(INT)
    max_bytes: int = json_field(INT)
    no_wait: bool = json_field(BOOL)
    idle_heartbeat: int = json_field(DURATION)
    priority: PriorityGroup = embedded_field(PriorityGroup, "PriorityGroup")
    is_object: bool = False


@dataclass(frozen=True)
class PullLimits:
    """The consumer's own bounds on requests, 0: none; its priority policy and groups."""

    max_batch: int = 0
    max_expires_ns: int = 0
    max_bytes: int = 0
    policy: str = "none"
    groups: frozenset[str] = frozenset()


def parse_pull_request(body: bytes, limits: PullLimits) -> PullRequest:
    """The request in `body`, checked. What is neither a number nor an object asks for one message.

    Clients ask with the same few bodies again and again, so results are remembered and must not be changed.
    Raises PullRequestError.
    """
    return (_remembered if len(body) <= REMEMBERED_BYTES else _parse)(body, limits)


def _parse(body: bytes, limits: PullLimits) -> PullRequest:
    text = body.strip()
    request = PullRequest()
    if text.startswith(b"{"):
        try:
            request = unmarshal(PullRequest, "JSApiConsumerGetNextRequest", text)
        except DecodeError as error:
            raise PullRequestError(f"400 Bad Request - {error}") from error
        request.is_object = True
    else:
        request.batch = _batch(text) if len(text) <= MAX_BATCH_TEXT else 1
    _check(request, limits)
    return request


def _batch(text: bytes) -> int:
    try:
        return max(atoi(text.decode()), 1)
    except ValueError:
        return 1


_remembered = lru_cache(maxsize=REMEMBERED_BODIES)(_parse)


def _check(request: PullRequest, limits: PullLimits) -> None:
    if request.idle_heartbeat > 0 and request.idle_heartbeat > request.expires // 2:
        raise PullRequestError("400 Bad Request - heartbeat value too large")
    if 0 < limits.max_batch < request.batch:
        raise PullRequestError(f"409 Exceeded MaxRequestBatch of {limits.max_batch}")
    if 0 < limits.max_expires_ns < request.expires:
        raise PullRequestError(f"409 Exceeded MaxRequestExpires of {duration_text(limits.max_expires_ns)}")
    if 0 < limits.max_bytes < request.max_bytes:
        raise PullRequestError(f"409 Exceeded MaxRequestMaxBytes of {limits.max_bytes}")
    if request.is_object:
        _check_group(request.priority, limits)


def _check_group(asked: PriorityGroup, limits: PullLimits) -> None:
    if (asked.min_pending or asked.min_ack_pending) and limits.policy != "overflow":
        raise PullRequestError("400 Bad Request - Not a Overflow Priority consumer")
    if asked.id and limits.policy != "pinned_client":
        raise PullRequestError("400 Bad Request - Not a Pinned Client Priority consumer")
    if not 0 <= asked.priority <= MAX_PRIORITY:
        raise PullRequestError("400 Bad Request - Priority must be between 0 and 9")
    if limits.policy == "none":
        return
    if not asked.group:
        raise PullRequestError("400 Bad Request - Priority Group missing")
    if asked.group not in limits.groups:
        raise PullRequestError("400 Bad Request - Invalid Priority Group")
