"""The body of a pull request: empty, a number of messages, or JSON."""

import json
import re
from dataclasses import dataclass
from functools import lru_cache

from jetbroker.forms.gotext import char_quoted, duration_text
from jetbroker.jetstream.models.decode import BOOL, DURATION, INT, INT64, TEXT, DecodeError, decode, json_field

MAX_BATCH_DIGITS = 18
MAX_PRIORITY = 9
REMEMBERED_BODIES = 256
REMEMBERED_BYTES = 512  # of a body: those of clients have less than 200
_OFFSET = re.compile(r" at offset \d+$")


class PullRequestError(Exception):
    """The request is refused; the message is the status line, e.g. `400 Bad Request - heartbeat value too large`."""


@dataclass
class PullRequest:
    """What a client asks for. Durations are nanoseconds; 0 means not given. A batch below 1 is served as 1."""

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

    Clients ask with the same few bodies again and again, so results are remembered and must not be changed.
    Raises PullRequestError.
    """
    return (_remembered if len(body) <= REMEMBERED_BYTES else _parse)(body, limits)


def _parse(body: bytes, limits: PullLimits) -> PullRequest:
    text = body.strip()
    request = PullRequest()
    if text.startswith(b"{"):
        try:
            request = decode(PullRequest, "JSApiConsumerGetNextRequest", text, strict=False)
        except DecodeError as error:
            raise PullRequestError(f"400 Bad Request - {_error_text(text, str(error))}") from error
        if _trailing(text):
            raise PullRequestError(f"400 Bad Request - {_error_text(text, '')}")
    elif 0 < len(text) <= MAX_BATCH_DIGITS and text.isdigit() and int(text) > 0:
        request.batch = int(text)
    else:
        request.batch = 1
    _check(request, limits)
    return request


_remembered = lru_cache(maxsize=REMEMBERED_BODIES)(_parse)


def _error_text(text: bytes, error: str) -> str:
    """Go words an error in a text that is at hand as a whole otherwise than one in a stream of values."""
    trailing = _trailing(text)
    if trailing:
        return f"invalid character {char_quoted(trailing[0])} after top-level value"
    return _OFFSET.sub("", error).replace("unexpected EOF", "unexpected end of JSON input")


def _trailing(text: bytes) -> str:
    """What stands behind the first value, "" when nothing or when the first value is broken itself."""
    try:
        decoded = text.decode("utf-8", "replace")
        _, end = json.JSONDecoder().raw_decode(decoded)
    except (ValueError, RecursionError):
        return ""
    return decoded[end:].lstrip(" \t\r\n")


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
