# ruff: noqa: RUF009 -- json_field returns dataclasses.field(), which is made for this place
"""API handlers: account, streams, and messages in them."""

import base64
import time
from dataclasses import dataclass
from typing import Any

from jetbroker import limits
from jetbroker.config.options import TIER
from jetbroker.errors import SequenceError, StorageError
from jetbroker.forms.api_level import API_LEVEL
from jetbroker.forms.gotext import Timestamp, format_time
from jetbroker.jetstream.account import JetStream
from jetbroker.jetstream.api.endpoints import (
    Endpoint,
    PagedRequest,
    Request,
    clip_offset,
    expect_no_body,
    only_in_clusters,
    read_body,
    read_optional_body,
)
from jetbroker.jetstream.api.pages import existing, first_of, last_of, page_of, subjects_page
from jetbroker.jetstream.models.config import StreamConfigRequest
from jetbroker.jetstream.models.contracts import AccountLimits
from jetbroker.jetstream.models.decode import BOOL, INT, TEXT, TEXTS, TIME, UINT64, embedded_field, json_field
from jetbroker.jetstream.models.errors import api_error
from jetbroker.jetstream.models.metadata import shown_metadata
from jetbroker.jetstream.models.names import valid_stream_subject
from jetbroker.jetstream.models.offline import paged_offline
from jetbroker.jetstream.models.stream_config import check_stream_config
from jetbroker.jetstream.streams.removals import purge
from jetbroker.jetstream.streams.stream import Stream
from jetbroker.turns import in_turns

_FOUND = 0  # READ_OK of the log
_DAMAGED = 2  # READ_DAMAGED


@dataclass
class StreamListRequest:
    """Body of STREAM.NAMES and STREAM.LIST."""

    page: PagedRequest = embedded_field(PagedRequest, "ApiPagedRequest")
    subject: str = json_field(TEXT)


@dataclass
class StreamInfoRequest:
    """Body of STREAM.INFO."""

    page: PagedRequest = embedded_field(PagedRequest, "ApiPagedRequest")
    deleted_details: bool = json_field(BOOL)
    subjects_filter: str = json_field(TEXT)


@dataclass
class PurgeRequest:
    """Body of STREAM.PURGE."""

    seq: int = json_field(UINT64)
    filter: str = json_field(TEXT)
    keep: int = json_field(UINT64)


@dataclass
class MessageDeleteRequest:
    """Body of STREAM.MSG.DELETE."""

    seq: int = json_field(UINT64)
    no_erase: bool = json_field(BOOL)


@dataclass
class MessageGetRequest:
    """Body of STREAM.MSG.GET; some belong to direct gets: batches are refused here."""

    seq: int = json_field(UINT64)
    last_by_subj: str = json_field(TEXT)
    next_by_subj: str = json_field(TEXT)
    batch: int | None = json_field(INT)
    max_bytes: int = json_field(INT)
    start_time: Timestamp | None = json_field(TIME)
    multi_last: list[str] = json_field(TEXTS)
    up_to_seq: int = json_field(UINT64)
    up_to_time: Timestamp | None = json_field(TIME)
    no_hdr: bool = json_field(BOOL)


# --- account ---


async def account_info(js: JetStream, request: Request) -> dict[str, Any]:
    """INFO."""
    used = {
        "memory": js.usage.used_bytes("memory"),
        "storage": js.usage.used_bytes("file"),
        "reserved_memory": js.usage.reserved_bytes("memory"),
        "reserved_storage": js.usage.reserved_bytes("file"),
        "streams": len(js.streams) + len(js.offline),
        "consumers": js.usage.consumer_count(),
    }
    nothing = {**dict.fromkeys(_COUNTED, 0), "max_bytes_required": False}
    reply: dict[str, Any] = {**used, "limits": nothing if js.tiers else _limits(js.usage.limits)}
    reply |= _domain(js)
    reply["api"] = {"level": API_LEVEL, "total": js.requests.total, "errors": js.requests.errors}
    unused = dict.fromkeys(used, 0)
    tiers = {name: {**(used if name == TIER else unused), "limits": _limits(tier)} for name, tier in js.tiers.items()}
    return reply | {"tiers": dict(sorted(tiers.items()))} if tiers else reply


_COUNTED = (
    "max_memory",
    "max_storage",
    "max_streams",
    "max_consumers",
    "max_ack_pending",
    "memory_max_stream_bytes",
    "storage_max_stream_bytes",
)


def _limits(allowed: AccountLimits) -> dict[str, Any]:
    return {name: getattr(allowed, name) for name in (*_COUNTED, "max_bytes_required")}


# --- streams ---


def stream_info(js: JetStream, stream: Stream, *, state: dict[str, Any] | None = None) -> dict[str, Any]:
    """StreamInfo as CREATE and UPDATE show it."""
    config = stream.config.to_json()
    if stream.template:
        config["template_owner"] = stream.template
    metadata = stream.config.metadata | stream.chain_head()
    config["metadata"] = shown_metadata(metadata, js.host.server_info.version)
    return {
        "config": config,
        "created": format_time(stream.created_ns),
        "state": stream.state() if state is None else state,
        **(stream.origins.info() if stream.origins is not None else {}),
        "ts": format_time(time.time_ns()),
    }


async def _create(js: JetStream, request: Request) -> dict[str, Any]:
    name = request.tokens[2]
    body = read_body(js, StreamConfigRequest, "StreamConfigRequest", request)
    if body.config.name != name:
        raise api_error("stream_mismatch")
    if "/" in name or "\\" in name:
        raise api_error("stream_name_contains_path_separators")
    stream = await js.create_stream(body.config, pedantic=body.pedantic)
    return stream_info(js, stream) | {"did_create": True}


async def _update(js: JetStream, request: Request) -> dict[str, Any]:
    body = read_body(js, StreamConfigRequest, "StreamConfigRequest", request)
    await in_turns(
        check_stream_config(
            body.config, js.usage.limits, pedantic=body.pedantic, creating=False, find_stream=js.config_of
        )
    )
    if body.config.name != request.tokens[2]:
        raise api_error("stream_mismatch")
    stream = await js.update_stream(body.config, pedantic=body.pedantic)
    return stream_info(js, stream) | _domain(js)


async def _matching_streams(js: JetStream, subject: str) -> list[str]:
    if not subject:
        return sorted([*js.streams, *js.offline])
    if not valid_stream_subject(subject.encode()):
        return []
    return sorted(await in_turns(js.subjects.overlapping(subject.encode())))


async def _names(js: JetStream, request: Request) -> dict[str, Any]:
    asked = read_optional_body(js, StreamListRequest, "JSApiStreamNamesRequest", request)
    names = await _matching_streams(js, asked.subject)
    offset = clip_offset(asked.page.offset, len(names))
    page = names[offset : offset + limits.JS_NAMES_PAGE]
    return {"total": len(names), "offset": offset, "limit": limits.JS_NAMES_PAGE, "streams": page or None}


async def _list(js: JetStream, request: Request) -> dict[str, Any]:
    asked = read_optional_body(js, StreamListRequest, "JSApiStreamListRequest", request)
    names = await _matching_streams(js, asked.subject)
    offset = clip_offset(asked.page.offset, len(names))
    shown = names[offset : offset + limits.JS_LIST_PAGE]
    page = await page_of(existing(shown, lambda name: _listed(js, name)))
    reply: dict[str, Any] = {"total": len(names), "offset": offset, "limit": limits.JS_LIST_PAGE, "streams": page}
    return reply | paged_offline(js.offline, shown)


def _listed(js: JetStream, name: str) -> dict[str, Any] | None:
    stream = js.streams.get(name)
    if stream is None:
        return None
    info = stream_info(js, stream) | _domain(js)
    info["config"]["metadata"] = stream.config.metadata
    return info


def _domain(js: JetStream) -> dict[str, str]:
    """Beside what is told of a stream; CREATE's answer has none."""
    return {"domain": js.host.server_info.domain} if js.host.server_info.domain else {}


async def _info(js: JetStream, request: Request) -> dict[str, Any]:
    asked = read_optional_body(js, StreamInfoRequest, "JSApiStreamInfoRequest", request)
    stream = js.stream(request.tokens[2])
    paging = {"total": 0, "offset": 0, "limit": 0}
    subjects: dict[str, int] | None = None
    if asked.subjects_filter:
        offset = max(asked.page.offset, 0)
        subjects, total = await subjects_page(stream, asked.subjects_filter, offset, limits.JS_SUBJECTS_PAGE)
        if total:
            paging = {"total": total, "offset": offset, "limit": limits.JS_SUBJECTS_PAGE}
    info = stream_info(js, stream, state=stream.state(asked.deleted_details, subjects))
    behind = {key: info.pop(key) for key in ("mirror", "sources", "ts") if key in info}
    return paging | info | _domain(js) | {"cluster": js.host.server_info.placement()} | behind


async def _delete(js: JetStream, request: Request) -> dict[str, Any]:
    expect_no_body(request.body)
    await js.delete_stream(request.tokens[2])
    return {"success": True}


async def _purge(js: JetStream, request: Request) -> dict[str, Any]:
    asked = read_optional_body(js, PurgeRequest, "JSApiStreamPurgeRequest", request)
    if asked.seq and asked.keep:
        raise api_error("bad_request")
    stream = js.stream(request.tokens[2])
    if stream.config.sealed:
        raise api_error("stream_sealed")
    if stream.config.deny_purge:
        raise api_error("stream_purge_failed", err="stream purge not permitted")
    try:
        purged = await purge(stream, asked.filter, asked.seq, asked.keep)
    except SequenceError as error:
        raise api_error("stream_purge_failed", err=str(error)) from None
    try:
        await stream.commit()
    except StorageError as error:
        raise api_error("stream_purge_failed", err=str(error)) from error
    return {"success": True, "purged": purged}


# --- messages ---


async def _message_get(js: JetStream, request: Request) -> dict[str, Any]:
    if not request.body:
        raise api_error("bad_request")
    asked = read_body(js, MessageGetRequest, "JSApiMsgGetRequest", request)
    starts = bool(asked.seq) + bool(asked.last_by_subj) + (asked.start_time is not None)
    is_alone = asked.last_by_subj and asked.next_by_subj
    if not (starts or asked.next_by_subj) or starts > 1 or is_alone:
        raise api_error("bad_request")
    if (asked.batch or 0) > 0 or asked.max_bytes > 0:
        raise api_error("bad_request")
    stream = js.stream(request.tokens[3])
    seq, subject, headers, payload, time_ns = await _find_message(stream, asked)
    message: dict[str, Any] = {"subject": subject.decode("utf-8", "replace"), "seq": seq}
    if headers and not asked.no_hdr:
        message["hdrs"] = base64.b64encode(headers).decode()
    if payload:
        message["data"] = base64.b64encode(payload).decode()
    message["time"] = format_time(time_ns)
    return {"message": message}


async def _find_message(stream: Stream, asked: MessageGetRequest) -> tuple[int, bytes, bytes, bytes, int]:
    log = stream.log
    seq = asked.seq
    if asked.start_time is not None:
        seq = log.seq_at_time(asked.start_time.unix_nano)
    if asked.last_by_subj:
        seq = await last_of(stream, asked.last_by_subj)
    if asked.next_by_subj or asked.start_time is not None:
        result, seq, subject, headers, payload, time_ns = await first_of(stream, asked.next_by_subj or ">", seq)
    else:
        result, subject, headers, payload, time_ns = log.get(seq)
    if result == _DAMAGED:
        raise api_error("stream_msg_delete_failed", err=f"message {seq} is damaged")
    if result != _FOUND:
        raise api_error("no_message_found")
    return seq, subject, headers, payload, time_ns


async def _message_delete(js: JetStream, request: Request) -> dict[str, Any]:
    if not request.body or request.body.strip() == b"{}":
        raise api_error("bad_request")
    asked = read_body(js, MessageDeleteRequest, "JSApiMsgDeleteRequest", request)
    stream = js.stream(request.tokens[3])
    if stream.config.sealed:
        raise api_error("stream_sealed")
    if stream.config.deny_delete:
        raise api_error("stream_msg_delete_failed", err="message delete not permitted")
    try:
        if not stream.delete_message(asked.seq, not asked.no_erase):
            _refuse_delete(stream, asked.seq)
        await stream.commit()
    except StorageError as error:
        raise api_error("stream_msg_delete_failed", err=str(error)) from error
    return {"success": True}


def _refuse_delete(stream: Stream, seq: int) -> None:
    if stream.config.storage == "file":
        if seq > stream.log.last_seq:
            raise api_error("stream_msg_delete_failed", err="stream store EOF")
        if seq < max(stream.log.first_seq, 1):
            raise api_error("stream_msg_delete_failed", err="no message found")
    raise api_error("sequence_not_found", seq=seq)


_PAGE = {"total": 0, "offset": 0, "limit": 0}

ENDPOINTS = (
    Endpoint("STREAM.CREATE", 3, 3, "stream_create", _create),
    Endpoint("STREAM.UPDATE", 3, 3, "stream_update", _update),
    Endpoint("STREAM.NAMES", 2, 2, "stream_names", _names, _PAGE | {"streams": None}, is_info=True),
    Endpoint("STREAM.LIST", 2, 2, "stream_list", _list, _PAGE | {"streams": []}, is_info=True),
    Endpoint("STREAM.INFO", 3, 3, "stream_info", _info, _PAGE, is_info=True),
    Endpoint("STREAM.DELETE", 3, 3, "stream_delete", _delete),
    Endpoint("STREAM.PURGE", 3, 3, "stream_purge", _purge, {"purged": 0}),
    Endpoint("STREAM.MSG.GET", 4, 4, "stream_msg_get", _message_get, is_quiet=True),
    Endpoint("STREAM.MSG.DELETE", 4, 4, "stream_msg_delete", _message_delete),
    Endpoint("STREAM.LEADER.STEPDOWN", 4, 4, "stream_leader_stepdown", only_in_clusters, is_cluster=True),
    Endpoint("STREAM.PEER.REMOVE", 4, 4, "stream_remove_peer", only_in_clusters, is_cluster=True),
)

__all__ = ["ENDPOINTS", "account_info", "stream_info"]
