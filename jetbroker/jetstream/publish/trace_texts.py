"""What a trace says of a message that a stream refuses: nats-server has other texts there than in its answers."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jetbroker.forms.gotext import quoted
from jetbroker.jetstream.models.errors import ApiError, api_error

DUPLICATE = ApiError(0, 0, "msgid is duplicate")
_TOO_LARGE = "maximum payload exceeded"
_PLAIN = {
    api_error("stream_not_match").err_code: "expected stream does not match",
    api_error("message_ttl_disabled").err_code: "message TTL disabled",
    api_error("stream_message_exceeds_maximum").err_code: _TOO_LARGE,
    api_error("stream_header_exceeds_maximum").err_code: _TOO_LARGE,
}
_WRAPPED = frozenset(api_error(name, err="").err_code for name in ("stream_store_failed", "stream_rollup_failed"))
_WRONG_SEQUENCE = api_error("stream_wrong_last_sequence", seq=0).err_code
_WRONG_ID = api_error("stream_wrong_last_msg_id", id="").err_code


class Outcome(NamedTuple):
    """What became of a message. `late`: what it was refused for behind all checks of its headers."""

    subject: bytes
    error: ApiError | None
    late: ApiError | None
    unwanted: bool  # interest retention, and nobody is interested
    stored: bool


def tell(event: dict[str, Any], trace: Any, outcome: Outcome) -> None:
    """Add that to the event of a tracing.trace.MessageTrace."""
    error = outcome.error
    if error is None and not (trace.only or outcome.stored) and "Nats-Msg-Id" in trace.headers:
        error = DUPLICATE
    text = "" if error is None else _text(error, trace.headers)
    if error is None or (error is outcome.late and text != _TOO_LARGE):
        event["subject"] = outcome.subject.decode("utf-8", "replace")
        if outcome.unwanted:
            event["nointerest"] = True
    if text:
        event["error"] = text


def _text(error: ApiError, headers: Mapping[str, Sequence[str]]) -> str:
    if error.err_code == _WRONG_SEQUENCE:
        return _wrong_sequence(error.description.rpartition(" ")[2], headers)
    if error.err_code == _WRONG_ID:
        expected = headers["Nats-Expected-Last-Msg-Id"][0]
        last = error.description.removeprefix("wrong last msg ID:").strip()
        return f"last msgid mismatch: {quoted(expected)} vs {quoted(last)}"
    if error is DUPLICATE or error.err_code in _WRAPPED:
        return error.description
    return _PLAIN.get(error.err_code, str(error))


def _wrong_sequence(last: str, headers: Mapping[str, Sequence[str]]) -> str:
    """That of the subject is looked at first."""
    of_subject = headers.get("Nats-Expected-Last-Subject-Sequence", (last,))[0]
    if of_subject != last:
        return f"last sequence by subject mismatch: {of_subject} vs {last}"
    return f"last sequence mismatch: {headers['Nats-Expected-Last-Sequence'][0]} vs {last}"
