"""What an origin answers when it is asked for a consumer. It may be anybody: nothing is taken that is out of range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jetbroker import limits
from jetbroker.bounds import INT32_MAX
from jetbroker.forms.gojson import fast_value
from jetbroker.jetstream.models.names import valid_name

_MAX_CODE = 65_535


class AnswerError(Exception):
    """The answer is none."""


@dataclass(frozen=True)
class ConsumerAnswer:
    """The consumer that was made or set back. `delivered`: its origin's last sequence that it is done with."""

    name: str
    delivered: int
    pending: int
    deliver_subject: str
    ack_policy: str


def read_answer(payload: bytes) -> ConsumerAnswer | dict[str, Any]:
    """The consumer, or the error the origin tells, as JSON. Raises AnswerError."""
    if len(payload) > limits.JS_ORIGIN_ANSWER_BYTES:
        raise AnswerError
    try:
        answer = fast_value(payload)
    except ValueError as error:
        raise AnswerError from error
    if isinstance(answer, dict) and answer.get("error") is not None:
        return _error(answer["error"])
    config, delivered = _get(answer, "config", dict), _get(answer, "delivered", dict)
    name = _get(answer, "name", str)
    if not valid_name(name) or len(name) > limits.JS_NAME_BYTES:
        raise AnswerError
    return ConsumerAnswer(
        name=name,
        delivered=_number(_get(delivered, "stream_seq", int)),
        pending=_number(answer.get("num_pending", 0)),
        deliver_subject=_get(config, "deliver_subject", str),
        ack_policy=_get(config, "ack_policy", str),
    )


def _error(error: Any) -> dict[str, Any]:
    """It is kept and shown, so that it must be short."""
    code, err_code = _get(error, "code", int), error.get("err_code", 0)
    text = error.get("description", "")
    if not isinstance(text, str) or type(err_code) is not int or not 0 <= err_code <= _MAX_CODE:
        raise AnswerError
    shown = {"code": min(max(code, 0), INT32_MAX), "err_code": err_code}
    return shown | {"description": text[: limits.JS_ORIGIN_ERROR_CHARS]}


def _get(container: Any, name: str, kind: type) -> Any:
    value = container.get(name) if isinstance(container, dict) else None
    if type(value) is not kind:
        raise AnswerError
    return value


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= limits.STREAM_SKIP_SEQUENCE:
        raise AnswerError
    return value
