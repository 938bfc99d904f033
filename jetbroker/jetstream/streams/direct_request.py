"""A direct get request: what a client may ask for, and the status it gets when that makes no sense."""

from dataclasses import dataclass
from typing import Any

from jetbroker.bounds import INT64_MAX, INT64_MIN, UINT64_MAX
from jetbroker.forms.api_level import level_supported
from jetbroker.forms.gojson import fast_value
from jetbroker.forms.gotext import parse_time


class DirectError(Exception):
    """A request that is answered by a status line; `status` is the text after `NATS/1.0 `."""

    def __init__(self, status: bytes) -> None:
        super().__init__(status.decode())
        self.status = status


EMPTY = DirectError(b"408 Empty Request")
MALFORMED = DirectError(b"408 Malformed Request")
BAD = DirectError(b"408 Bad Request")
API_LEVEL_TOO_LOW = DirectError(b"412 Required Api Level")


@dataclass(slots=True)
class DirectRequest:
    """What to send. Zero, empty and None mean: not asked for. Times in nanoseconds since 1970, in 64 bits."""

    seq: int = 0
    last_by_subject: bytes = b""
    next_by_subject: bytes = b""
    batch: int = 0
    max_bytes: int = 0
    start_time_ns: int | None = None
    multi_last: tuple[bytes, ...] = ()
    up_to_seq: int = 0
    up_to_time_ns: int | None = None
    no_hdr: bool = False


def parse_request(subject: bytes, body: bytes, level: bytes | None) -> DirectRequest:
    """The request behind a subject tail (b"": none) and a body. Raises DirectError."""
    if not level_supported(level):
        raise API_LEVEL_TOO_LOW
    if not subject:
        if not body:
            raise EMPTY
        request = _from_fields(_fields(body))
        _check(request)
        return request
    if body:
        asked = _from_fields(_fields(body))
        if asked != DirectRequest(no_hdr=asked.no_hdr):
            raise BAD
        return DirectRequest(last_by_subject=subject, no_hdr=asked.no_hdr)
    return DirectRequest(last_by_subject=subject)


def _fields(body: bytes) -> dict[str, Any]:
    try:
        fields = fast_value(body)
    except ValueError:
        raise MALFORMED from None
    if not isinstance(fields, dict):
        raise MALFORMED
    return {name.lower(): value for name, value in fields.items() if value is not None}


def _from_fields(fields: dict[str, Any]) -> DirectRequest:
    return DirectRequest(
        seq=_integer(fields, "seq", 0, UINT64_MAX),
        last_by_subject=_text(fields, "last_by_subj"),
        next_by_subject=_text(fields, "next_by_subj"),
        batch=_integer(fields, "batch", INT64_MIN, INT64_MAX),
        max_bytes=_integer(fields, "max_bytes", INT64_MIN, INT64_MAX),
        start_time_ns=_time(fields, "start_time"),
        multi_last=_texts(fields, "multi_last"),
        up_to_seq=_integer(fields, "up_to_seq", 0, UINT64_MAX),
        up_to_time_ns=_time(fields, "up_to_time"),
        no_hdr=_flag(fields, "no_hdr"),
    )


def _check(request: DirectRequest) -> None:
    starts = bool(request.seq) + bool(request.last_by_subject) + (request.start_time_ns is not None)
    if not (starts or request.next_by_subject or request.multi_last):
        raise EMPTY
    if starts > 1 or (request.last_by_subject and (request.next_by_subject or request.batch)):
        raise BAD
    if request.up_to_seq and request.up_to_time_ns is not None:
        raise BAD
    if request.multi_last and (request.last_by_subject or request.next_by_subject):
        raise BAD


def _integer(fields: dict[str, Any], name: str, low: int, high: int) -> int:
    value = fields.get(name, 0)
    if type(value) is not int or not low <= value <= high:
        raise MALFORMED
    return value


def _text(fields: dict[str, Any], name: str) -> bytes:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise MALFORMED
    return value.encode()


def _texts(fields: dict[str, Any], name: str) -> tuple[bytes, ...]:
    values = fields.get(name, [])
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise MALFORMED
    return tuple(value.encode() for value in values)


def _flag(fields: dict[str, Any], name: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise MALFORMED
    return value


def _time(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise MALFORMED
    try:
        return parse_time(value).unix_nano
    except ValueError:
        raise MALFORMED from None
