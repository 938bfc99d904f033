"""The API of the technical preview of 2020, in today's terms: `$JS.ENABLED`, `$JS.STREAM.<stream>.CREATE` and so on.

A request is taken apart, handed to today's endpoint, and the answer put into the words of then: `+OK`,
`-ERR 'reason'`, or the JSON without its type. Who sends one must be allowed to send today's request, too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from jetbroker.forms.gojson import dumps, fast_value
from jetbroker.forms.gotext import ZERO_TIME_TEXT
from jetbroker.jetstream.account import JetStream
from jetbroker.jetstream.api.dispatch import Api
from jetbroker.jetstream.api.endpoints import PREFIX, Request
from jetbroker.jetstream.api.templates import template_endpoints
from jetbroker.jetstream.models.contracts import Origin
from jetbroker.jetstream.templates.templates import Templates
from jetbroker.routing.router import CallbackReceiver
from jetbroker.routing.subscription import Subscription

_OLD = "$JS."
_SUBJECTS = ("ENABLED", "INFO", "STREAM.>", "NEXT.*.*", "TEMPLATE.*.*", "TEMPLATES.LIST")
_OK = b"+OK"
_BAD_REQUEST = "bad request"
_OLD_KEYS = ("deliver_all", "deliver_last", "deliver_new", "stream_seq", "start_time", "delivery_subject")

Render = Callable[[dict[str, Any]], bytes]


@dataclass(frozen=True)
class Translation:
    """Today's subject without `$JS.API.`, the body, and how the answer is told."""

    subject: str
    body: bytes
    render: Render


class BadRequest(ValueError):
    """A body that means nothing."""


class PreviewApi:
    """Takes the old requests of one account, and is today's API for the others, with stream templates."""

    def __init__(self, js: JetStream, has_links: Callable[[], bool]) -> None:
        self._host = js.host
        self._templates = js.templates = Templates(js)
        self._today = Api(js, has_links, template_endpoints(self._templates))
        self._subscriptions: list[Subscription] = []

    def start(self) -> None:
        """Subscribe and begin to answer, and to make streams."""
        self._today.start()
        self._templates.start()
        receiver = CallbackReceiver(self._host.tick, self._received)
        for subject in _SUBJECTS:
            self._subscriptions.append(self._host.router.subscribe(receiver, (_OLD + subject).encode()))

    async def stop(self) -> None:
        """Take no more requests, and make no more streams."""
        self._templates.stop()
        for subscription in self._subscriptions:
            self._host.router.unsubscribe(subscription)
        self._subscriptions = []
        await self._today.stop()

    def _received(
        self, subject: bytes, reply: bytes | None, headers: bytes, payload: bytes, origin: Origin | None
    ) -> None:
        tokens = subject.decode("utf-8", "replace").split(".")[1:]
        if tokens[0] == "NEXT":
            target = ".".join((PREFIX + "CONSUMER.MSG.NEXT", *tokens[1:])).encode()
            if _may_publish(origin, target):
                self._host.router.publish_for(origin, target, reply, headers, payload)
            return
        try:
            found = translated(tokens, payload)
        except BadRequest as error:
            self._refuse(reply, str(error))
            return
        if found is None:
            return
        today = PREFIX + found.subject
        if not _may_publish(origin, today.encode()):
            self._refuse(reply, f"permissions violation for publish to {today}")
            return
        self._today.take(Request(today, found.subject.split("."), reply, headers, found.body, origin, found.render))

    def _refuse(self, reply: bytes | None, reason: str) -> None:
        if reply is not None:
            self._host.router.publish_bytes(reply, None, b"", _error(reason))


def _may_publish(origin: Origin | None, subject: bytes) -> bool:
    permissions = getattr(origin, "permissions", None)
    return permissions is None or bool(permissions.publishable(subject))


def translated(tokens: list[str], body: bytes) -> Translation | None:
    """The request whose subject, without `$JS`, has these tokens; None: there is none. Raises BadRequest."""
    match tokens:
        case ["ENABLED"]:
            return Translation("INFO", b"", _done)
        case ["INFO"]:
            return Translation("INFO", b"", _bare())
        case ["STREAM", "LIST"]:
            return Translation("STREAM.NAMES", _object_or_nothing(body), _names("streams"))
        case ["TEMPLATES", "LIST"]:
            return Translation("STREAM.TEMPLATE.NAMES", _object_or_nothing(body), _names("streams"))
        case ["TEMPLATE", name, "CREATE"]:
            return Translation(f"STREAM.TEMPLATE.CREATE.{name}", body, _done)
        case ["TEMPLATE", name, "INFO"]:
            return Translation(f"STREAM.TEMPLATE.INFO.{name}", b"", _bare())
        case ["TEMPLATE", name, "DELETE"]:
            return Translation(f"STREAM.TEMPLATE.DELETE.{name}", b"", _done)
        case ["STREAM", stream, *verb]:
            return _of_stream(stream, verb, body)
    return None


def _of_stream(stream: str, verb: list[str], body: bytes) -> Translation | None:
    match verb:
        case ["CREATE" | "UPDATE" as action]:
            return Translation(f"STREAM.{action}.{stream}", body, _done)
        case ["INFO"]:
            return Translation(f"STREAM.INFO.{stream}", b"", _bare("total", "offset", "limit", "cluster", "ts"))
        case ["DELETE" | "PURGE" as action]:
            return Translation(f"STREAM.{action}.{stream}", b"", _done)
        case ["MSG", "DELETE"]:
            return Translation(f"STREAM.MSG.DELETE.{stream}", _sequence(body), _done)
        case ["MSG", "BYSEQ"]:
            return Translation(f"STREAM.MSG.GET.{stream}", _sequence(body), _message)
        case ["CONSUMERS"]:
            return Translation(f"CONSUMER.NAMES.{stream}", b"", _names("consumers"))
        case ["CONSUMER", consumer, "CREATE"]:
            return Translation(f"CONSUMER.DURABLE.CREATE.{stream}.{consumer}", _consumer_request(body), _done)
        case ["CONSUMER", consumer, "INFO"]:
            return Translation(f"CONSUMER.INFO.{stream}.{consumer}", b"", _bare("ts"))
        case ["CONSUMER", consumer, "DELETE"]:
            return Translation(f"CONSUMER.DELETE.{stream}.{consumer}", b"", _done)
        case ["EPHEMERAL", "CONSUMER", "CREATE"]:
            return Translation(f"CONSUMER.CREATE.{stream}", _consumer_request(body), _done_with_name)
        case [name] if stream == "INFO":  # as the last form of the preview had it
            return Translation(f"STREAM.INFO.{name}", b"", dumps)
    return None


# --- bodies ---


def _object_or_nothing(body: bytes) -> bytes:
    return body if body.lstrip()[:1] == b"{" else b""


def _sequence(body: bytes) -> bytes:
    """A number, or today's object."""
    text = body.strip()
    if text[:1] == b"{":
        return text
    if not text.isdigit() or len(text) > len(str(2**64)):
        raise BadRequest(_BAD_REQUEST)
    return b'{"seq":%b}' % (text.lstrip(b"0") or b"0")


def _consumer_request(body: bytes) -> bytes:
    """Where a consumer begins is said in today's words; the rest stays as it is, to be judged by today's API."""
    try:
        asked = fast_value(body)
    except ValueError:
        return body
    config = asked.get("config") if isinstance(asked, dict) else None
    if not isinstance(config, dict) or not any(key in config for key in _OLD_KEYS):
        return body
    new = {key: value for key, value in config.items() if key not in _OLD_KEYS}
    if config.get("delivery_subject"):
        new["deliver_subject"] = config["delivery_subject"]
    chosen = [key for key in ("deliver_all", "deliver_last", "deliver_new") if config.get(key)]
    if chosen:
        new["deliver_policy"] = chosen[0].removeprefix("deliver_")
    if config.get("stream_seq"):
        chosen.append("stream_seq")
        new |= {"deliver_policy": "by_start_sequence", "opt_start_seq": config["stream_seq"]}
    if config.get("start_time", ZERO_TIME_TEXT) != ZERO_TIME_TEXT:
        chosen.append("start_time")
        new |= {"deliver_policy": "by_start_time", "opt_start_time": config["start_time"]}
    if len(chosen) > 1:
        raise BadRequest(_BAD_REQUEST)
    try:
        return orjson.dumps({**asked, "config": new})
    except TypeError:
        raise BadRequest(_BAD_REQUEST) from None


# --- answers ---


def _error(reason: str) -> bytes:
    return f"-ERR '{reason}'".encode()


def _refusal(response: dict[str, Any]) -> bytes | None:
    return _error(response["error"]["description"]) if "error" in response else None


def _done(response: dict[str, Any]) -> bytes:
    return _refusal(response) or _OK


def _done_with_name(response: dict[str, Any]) -> bytes:
    return _refusal(response) or f"+OK {response['name']}".encode()


def _bare(*unknown: str) -> Render:
    """JSON without its type, and without what the preview did not know."""
    left_out = {"type", *unknown}

    def render(response: dict[str, Any]) -> bytes:
        shown = {key: value for key, value in response.items() if key not in left_out}
        return _refusal(response) or dumps(shown)

    return render


def _names(key: str) -> Render:
    """A list, and nothing around it."""
    return lambda response: _refusal(response) or dumps(response[key] or [])


def _message(response: dict[str, Any]) -> bytes:
    return _refusal(response) or dumps(response["message"])
