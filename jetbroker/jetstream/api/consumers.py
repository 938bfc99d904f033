# ruff: noqa: RUF009 -- json_field and embedded_field return dataclasses.field(), which is made for this place
"""API handlers: consumers."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from jetbroker import limits
from jetbroker.forms.gotext import ZERO_TIME, ZERO_TIME_TEXT, Timestamp
from jetbroker.jetstream.account import JetStream
from jetbroker.jetstream.api.endpoints import (
    MANY,
    Endpoint,
    Later,
    PagedRequest,
    Request,
    clip_offset,
    expect_no_body,
    only_in_clusters,
    read_body,
    read_optional_body,
)
from jetbroker.jetstream.api.pages import page_of
from jetbroker.jetstream.consumers.consumer import Consumer
from jetbroker.jetstream.models.config import ConsumerConfig, CreateConsumerRequest
from jetbroker.jetstream.models.consumer_config import check_group_name
from jetbroker.jetstream.models.decode import TEXT, TIME, UINT64, DecodeError, embedded_field, json_field
from jetbroker.jetstream.models.errors import api_error
from jetbroker.jetstream.models.metadata import shown_metadata
from jetbroker.jetstream.models.offline import paged_offline
from jetbroker.jetstream.models.unmarshal import unmarshal
from jetbroker.turns import in_turns

T = TypeVar("T")
_SEPARATORS = frozenset("/\\")


@dataclass
class ConsumerListRequest:
    """Body of CONSUMER.NAMES and CONSUMER.LIST."""

    page: PagedRequest = embedded_field(PagedRequest, "ApiPagedRequest")


@dataclass
class PauseRequest:
    """Body of CONSUMER.PAUSE."""

    pause_until: Timestamp | None = json_field(TIME)


@dataclass
class ResetRequest:
    """Body of CONSUMER.RESET; no sequence: back to the ack floor."""

    seq: int = json_field(UINT64)


@dataclass
class UnpinRequest:
    """Body of CONSUMER.UNPIN."""

    group: str = json_field(TEXT)


async def consumer_info(js: JetStream, consumer: Consumer) -> dict[str, Any]:
    """ConsumerInfo as replies about one consumer show it."""
    await in_turns(consumer.counting())
    info: dict[str, Any] = consumer.info()
    info["config"]["metadata"] = shown_metadata(consumer.config.metadata, js.host.server_info.version)
    return info


async def _create(js: JetStream, request: Request) -> dict[str, Any] | Later:
    """CONSUMER.CREATE.S, CONSUMER.CREATE.S.C and CONSUMER.CREATE.S.C.<filter>."""
    name = request.tokens[3] if len(request.tokens) > 3 else ""
    body = _read_create(js, request, request.tokens[2], name)
    config = body.config
    if name:
        if config.durable_name and config.durable_name != name:
            raise api_error("consumer_durable_name_not_match_subject")
        _check_filter_tail(config, ".".join(request.tokens[4:]))
        config.name = name
    elif config.durable_name:
        raise api_error("consumer_ephemeral_with_durable_name")
    return await _make(js, body)


async def _create_durable(js: JetStream, request: Request) -> dict[str, Any] | Later:
    """CONSUMER.DURABLE.CREATE.S.C."""
    name = request.tokens[4]
    body = _read_create(js, request, request.tokens[3], name)
    if not body.config.durable_name:
        raise api_error("consumer_durable_name_not_set")
    if body.config.durable_name != name:
        raise api_error("consumer_durable_name_not_match_subject")
    body.config.name = name
    return await _make(js, body)


def _read_create(js: JetStream, request: Request, stream: str, name: str) -> CreateConsumerRequest:
    body = read_body(js, CreateConsumerRequest, "CreateConsumerRequest", request)
    if body.stream_name != stream:
        raise api_error("stream_mismatch")
    if _SEPARATORS.intersection(name or body.config.name):
        raise api_error("consumer_name_contains_path_separators")
    return body


def _check_filter_tail(config: ConsumerConfig, tail: str) -> None:
    if not tail:
        return
    if config.filter_subjects:
        raise api_error("consumer_multiple_filters_not_allowed")
    if config.filter_subject != tail:
        raise api_error("consumer_create_filter_subject_mismatch")


async def _make(js: JetStream, body: CreateConsumerRequest) -> dict[str, Any] | Later:
    if body.config.num_replicas > 1:
        raise api_error("stream_replicas_not_supported")
    stream = js.stream(body.stream_name)
    is_new = (body.config.durable_name or body.config.name) not in stream.consumers
    consumer = await js.create_consumer(stream, body.config, action=body.action, pedantic=body.pedantic)
    info = await consumer_info(js, consumer)
    if info.get("paused"):
        js.tell_pause(consumer)
    if consumer.state_log is None:
        return info
    undo = partial(js.take_back_consumer, stream, consumer) if is_new else None
    return Later(info, consumer.state_log.commit(), "consumer_store_failed", undo)


async def _names(js: JetStream, request: Request) -> dict[str, Any]:
    asked = read_optional_body(js, ConsumerListRequest, "JSApiConsumersRequest", request)
    stream = js.stream(request.tokens[2])
    names = sorted([*stream.listed_consumers(), *stream.offline])
    offset = clip_offset(asked.page.offset, len(names))
    page = names[offset : offset + limits.JS_NAMES_PAGE]
    return {"total": len(names), "offset": offset, "limit": limits.JS_NAMES_PAGE, "consumers": page}


async def _list(js: JetStream, request: Request) -> dict[str, Any]:
    asked = read_optional_body(js, ConsumerListRequest, "JSApiConsumersRequest", request)
    stream = js.stream(request.tokens[2])
    consumers = stream.listed_consumers()
    names = sorted([*consumers, *stream.offline])
    offset = clip_offset(asked.page.offset, len(names))
    shown = names[offset : offset + limits.JS_LIST_PAGE]
    page = await page_of(_rows(consumers[name] for name in shown if name in consumers))
    reply: dict[str, Any] = {"total": len(names), "offset": offset, "limit": limits.JS_LIST_PAGE, "consumers": page}
    return reply | paged_offline(stream.offline, shown)


def _rows(consumers: "Iterable[Consumer]") -> Iterator[dict[str, Any] | None]:
    for consumer in consumers:
        yield from consumer.counting()
        yield _listed(consumer)


def _listed(consumer: Consumer) -> dict[str, Any]:
    info: dict[str, Any] = consumer.info()
    info["config"]["metadata"] = consumer.config.metadata
    return info


async def _info(js: JetStream, request: Request) -> dict[str, Any]:
    expect_no_body(request.body)
    return await consumer_info(js, js.consumer(js.stream(request.tokens[2]), request.tokens[3]))


async def _delete(js: JetStream, request: Request) -> dict[str, Any]:
    expect_no_body(request.body)
    await js.delete_consumer(js.stream(request.tokens[2]), request.tokens[3])
    return {"success": True}


async def _pause(js: JetStream, request: Request) -> dict[str, Any]:
    """A time in the future pauses, none or one in the past resumes."""
    asked = read_optional_body(js, PauseRequest, "JSApiConsumerPauseRequest", request)
    consumer = js.consumer(js.stream(request.tokens[2]), request.tokens[3])
    try:
        until = None if asked.pause_until in (None, ZERO_TIME) else asked.pause_until.utc()
    except ValueError as error:
        text = f"json: error calling MarshalJSON for type *time.Time: {error}"
        raise api_error("consumer_store_failed", err=text) from None
    await js.pause_consumer(consumer, until)
    left = until.left(time.time_ns()) if until is not None else 0
    answer = {"paused": left > 0, "pause_until": ZERO_TIME_TEXT if until is None else str(until)}
    return answer | ({"pause_remaining": left} if left > 0 else {})


async def _unpin(js: JetStream, request: Request) -> dict[str, Any]:
    """The pinned client of a consumer is so no more."""
    asked = _unmarshal(UnpinRequest, "JSApiConsumerUnpinRequest", request.body)
    if not asked.group:
        raise api_error("invalid_json", err="consumer group not specified")
    check_group_name(asked.group)
    consumer = js.consumer(js.stream(request.tokens[2]), request.tokens[3])
    if asked.group not in consumer.config.priority_groups:
        raise api_error("consumer_invalid_priority_group")
    consumer.unpin(asked.group)
    return {}


async def _reset(js: JetStream, request: Request) -> dict[str, Any] | Later | None:
    """An unknown consumer is met with silence: the answer is the consumer's own."""
    stream = js.streams.get(request.tokens[2])
    consumer = stream.consumers.get(request.tokens[3]) if stream is not None else None
    if consumer is None or request.reply is None:
        return None
    asked = _unmarshal(ResetRequest, "JSApiConsumerResetRequest", request.body or b"{}")
    await in_turns(consumer.settling())
    seq = consumer.reset(asked.seq)
    answer = await consumer_info(js, consumer) | {"reset_seq": seq}
    if consumer.state_log is None:
        return answer
    return Later(answer, consumer.state_log.commit(), "consumer_store_failed")


def _unmarshal(cls: type[T], go_name: str, body: bytes) -> T:
    try:
        return unmarshal(cls, go_name, body)
    except DecodeError as error:
        raise api_error("invalid_json", err=str(error)) from None


_PAGE = {"total": 0, "offset": 0, "limit": 0, "consumers": []}
_PAUSE = {"paused": False, "pause_until": ZERO_TIME_TEXT}

ENDPOINTS = (
    Endpoint("CONSUMER.CREATE", 3, MANY, "consumer_create", _create),
    Endpoint("CONSUMER.DURABLE.CREATE", 5, 5, "consumer_create", _create_durable),
    Endpoint("CONSUMER.NAMES", 3, 3, "consumer_names", _names, _PAGE, is_info=True),
    Endpoint("CONSUMER.LIST", 3, 3, "consumer_list", _list, _PAGE, is_info=True),
    Endpoint("CONSUMER.INFO", 4, 4, "consumer_info", _info, is_info=True),
    Endpoint("CONSUMER.DELETE", 4, 4, "consumer_delete", _delete),
    Endpoint("CONSUMER.PAUSE", 4, 4, "consumer_pause", _pause, _PAUSE),
    Endpoint("CONSUMER.UNPIN", 4, 4, "consumer_unpin", _unpin),
    Endpoint("CONSUMER.RESET", 4, 4, "consumer_reset", _reset, {"reset_seq": 0}, of_consumer=True),
    Endpoint("CONSUMER.LEADER.STEPDOWN", 5, 5, "consumer_leader_stepdown", only_in_clusters, is_cluster=True),
)
