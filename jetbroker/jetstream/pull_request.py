# ruff: noqa: RUF009 -- json_field returns dataclasses.field(), which is made for this place
"""The body of a pull request: empty, a number of messages, or JSON."""

from dataclasses import dataclass

from jetbroker.jetstream.decode import BOOL, DURATION, INT, INT64, TEXT, DecodeError, decode, json_field
from jetbroker.jetstream.gotext import duration_text

MAX_BATCH_DIGITS = 18
MAX_PRIORITY = 9


class PullRequestError(Exception):
    """The request is refused; the message is the status line, e.g. `400 Bad Request - heartbeat value too large`."""


@dataclass
class PullRequest:
    """What a client asks for. Durations are nanoseconds; 0 means not given."""

    expires: int = json_field(DURATION)
    batch: int = json_field(INT)
    max_bytes: int = json_field(INT)
    no_wait: bool = json_field(BOOL)
    idle_heartbeat: int = json_field(DURATION)
    group: str = json_field(TEXT)
    min_pending: int = json_field(INT64)
    min_ack_pending: int = json_field(INT64)
    id: str = json_field(TEXT)
    priority: int = json_field(INT)


@dataclass(frozen=True)
class PullLimits:
    """The consumer's own bounds on requests; 0: none."""

    max_batch: int = 0
    max_expires_ns: int = 0
    max_bytes: int = 0


def parse_pull_request(body: bytes, limits: PullLimits) -> PullRequest:
    """The request in `body`, checked. What is neither a number nor an object asks for one message.

    Raises PullRequestError.
    """
    text = body.strip()
    request = PullRequest()
    if text.startswith(b"{"):
        try:
            request = decode(PullRequest, "JSApiConsumerGetNextRequest", text, strict=False)
        except DecodeError as error:
            raise PullRequestError(f"400 Bad Request - {error}") from error
    elif 0 < len(text) <= MAX_BATCH_DIGITS and text.isdigit():
        request.batch = int(text)
    request.batch = max(request.batch, 1)
    _check(request, limits)
    return request


def _check(request: PullRequest, limits: PullLimits) -> None:
    if request.idle_heartbeat > 0 and request.idle_heartbeat > request.expires // 2:
        raise PullRequestError("400 Bad Request - heartbeat value too large")
    if not 0 <= request.priority <= MAX_PRIORITY:
        raise PullRequestError("400 Bad Request - Priority must be between 0 and 9")
    if 0 < limits.max_batch < request.batch:
        raise PullRequestError(f"409 Exceeded MaxRequestBatch of {limits.max_batch}")
    if 0 < limits.max_expires_ns < request.expires:
        raise PullRequestError(f"409 Exceeded MaxRequestExpires of {duration_text(limits.max_expires_ns)}")
    if 0 < limits.max_bytes < request.max_bytes:
        raise PullRequestError(f"409 Exceeded MaxRequestMaxBytes of {limits.max_bytes}")
