"""`/jsz`: JetStream, from the whole server down to its consumers."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jetbroker import limits
from jetbroker.forms.api_level import API_LEVEL
from jetbroker.forms.gotext import SECOND, format_time, quoted
from jetbroker.monitor.options import JSzOptions
from jetbroker.monitor.query import BadRequest, NotAsked, Query
from jetbroker.monitor.sources import Room, Sources, now_text, paced, page
from jetbroker.turns import in_turns

if TYPE_CHECKING:
    # a core-only broker never loads these
    from jetbroker.jetstream.account import JetStream
    from jetbroker.jetstream.server import JetStreamServer
    from jetbroker.jetstream.streams.stream import Stream

DEFAULT_LIMIT = 1024
_SYNC_INTERVAL_NS = 120_000_000_000  # nats-server shows its default beside sync_always
_UINT64 = 2**64
_DETAIL = ("accounts", "streams", "consumers", "direct-consumers", "config")
_OF_CLUSTERS = ("leader-only", "raft", "stream-leader-only")


def asked(query: Query) -> JSzOptions:
    """What a query string asks for. Raises BadRequest."""
    flags = {name.replace("-", "_"): query.boolean(name) for name in _DETAIL}
    offset, limit = query.integer("offset"), query.integer("limit")
    flags |= {name.replace("-", "_"): query.boolean(name) for name in _OF_CLUSTERS}
    return JSzOptions(account=query.text("acc"), offset=offset, limit=limit, **flags)


async def jsz(sources: Sources, options: JSzOptions) -> dict[str, Any]:
    """The server's figures; accounts, their streams and consumers where asked for. Raises BadRequest."""
    server = sources.jetstream
    if server is None and options.leader_only:
        raise NotAsked("filtered response: not leader")
    enabled = _enabled(server)
    answer = _stats(server, API_LEVEL) | {"server_id": sources.server_id, "now": now_text()}
    if server is None:
        answer |= {"disabled": True, "config": {"max_memory": 0, "max_storage": 0}}
    else:
        answer |= {"config": _config(server), "limits": _limits(server)}
    answer |= _totals(enabled, led=options.raft)
    streams = options.streams or options.consumers
    asked = _Asked(streams, options.consumers, options.direct_consumers, options.config, Room())
    details = [await _account(sources, jetstream, asked) for jetstream in _shown(enabled, options)]
    if details:
        answer["account_details"] = details
    faults = sum(1 for _ in server.store.faults) if server is not None and server.store is not None else 0
    if faults:
        answer["storage_faults"] = faults
    return answer | _breaches(server) | _shipping(server) | {"total": len(enabled)}


def _shown(enabled: "list[JetStream]", options: JSzOptions) -> "list[JetStream]":
    """The accounts that are asked for: the one that is named, or a page of all of them."""
    named = [jetstream for jetstream in enabled if jetstream.account_name == options.account]
    all_of_them = options.accounts or ((options.streams or options.consumers) and not options.account)
    if named or not all_of_them:
        return named
    limit = options.limit or DEFAULT_LIMIT
    if limit < 0:
        return enabled
    return page(sorted(enabled, key=lambda jetstream: jetstream.account_name), options.offset, limit)


def _totals(enabled: "list[JetStream]", *, led: bool) -> dict[str, int]:
    """`led`: also those that this server leads, which are all of them."""
    found = [stream for jetstream in enabled for stream in jetstream.streams.values()]
    consumers = sum(len(stream.listed_consumers()) for stream in found)
    shown = {"streams": len(found) + sum(len(jetstream.offline) for jetstream in enabled)}
    if led and found:
        shown["streams_leader"] = len(found)
    shown["consumers"] = consumers + sum(len(stream.offline) for stream in found)
    if led and consumers:
        shown["consumers_leader"] = consumers
    shown["messages"] = sum(stream.log.messages for stream in found)
    return shown | {"bytes": sum(stream.log.bytes for stream in found)}


def server_figures(server: "JetStreamServer") -> dict[str, Any]:
    """What all accounts hold together, and what the configuration lets them."""
    return _config(server) | _totals(_enabled(server), led=False)


async def of_account(sources: Sources, options: JSzOptions) -> dict[str, Any]:
    """One account, with its streams and consumers where asked for. Raises BadRequest."""
    server, name = sources.jetstream, options.account
    if server is None:
        raise BadRequest("jetstream not enabled")
    if name not in sources.accounts:
        raise BadRequest(f"account {quoted(name)} not found")
    found = server.by_account.get(name)
    if found is None or not found.enabled:
        raise BadRequest(f"account {quoted(name)} not jetstream enabled")
    asked = _Asked(options.streams, options.consumers, options.direct_consumers, options.config, Room())
    return await _account(sources, found, asked)


def server_summary(sources: Sources) -> dict[str, Any]:
    """JetStream in `/varz`; empty without."""
    server = sources.jetstream
    if server is None:
        return {}
    shown = {"config": _config(server), "stats": _stats(server, API_LEVEL), "limits": _limits(server)}
    return shown | _breaches(server)


def _breaches(server: "JetStreamServer | None") -> dict[str, int]:
    """Consumers that the watchdog had to set going; nothing as long as there were none."""
    return {"watchdog_breaches": server.watchdog.breaches} if server is not None and server.watchdog.breaches else {}


def _shipping(server: "JetStreamServer | None") -> dict[str, Any]:
    """How the copy elsewhere is coming along; nothing without one."""
    wanted = None if server is None else server.options.jetstream.ship
    if server is None or server.shipping is None or wanted is None:
        return {}
    figures = server.shipping.figures
    counts = "passes failures objects bytes moved streams segments".split()
    shown: dict[str, Any] = {"url": wanted.url} | {name: getattr(figures, name) for name in counts}
    if figures.passed_at:
        shown["last_pass"] = format_time(round(figures.passed_at * SECOND))
    if figures.error:
        shown["error"] = figures.error
    return {"ship": shown}


def _enabled(server: "JetStreamServer | None") -> "list[JetStream]":
    return [jetstream for jetstream in server.by_account.values() if jetstream.enabled] if server is not None else []


def _config(server: "JetStreamServer") -> dict[str, Any]:
    options = server.options.jetstream
    reserved = server.reservations
    shown: dict[str, Any] = {
        "max_memory": reserved.max_memory,
        "max_storage": reserved.max_storage,
        "store_dir": os.path.abspath(server.options.store_path),
    }
    if options.sync_interval is None:
        shown |= {"sync_interval": _SYNC_INTERVAL_NS, "sync_always": True}
    else:
        shown["sync_interval"] = round(options.sync_interval * 1e9)
    if options.domain:
        shown["domain"] = options.domain
    if options.max_memory_store > 0 and options.max_file_store > 0:  # nats-server forgets it beside what it works out
        shown["compress_ok"] = True
    if options.strict:
        shown["strict"] = True
    return shown


def _limits(server: "JetStreamServer") -> dict[str, int]:
    """As configured; what is not is left out."""
    wanted = server.options.jetstream.limits
    batches = wanted.batches
    shown = {
        "max_request_batch": wanted.max_request_batch,
        "max_ack_pending": wanted.max_ack_pending,
        "max_ha_assets": wanted.max_ha_assets,
        "max_duplicate_window": round(wanted.duplicate_window * SECOND),
        "max_batch_inflight_per_stream": batches.max_inflight_per_stream,
        "max_batch_inflight_total": batches.max_inflight_total,
        "max_batch_size": batches.max_msgs,
        "max_batch_timeout": round(batches.timeout * SECOND),
    }
    return {name: value for name, value in shown.items() if value}


def _stats(server: "JetStreamServer | None", level: int) -> dict[str, Any]:
    enabled = _enabled(server)
    reserved = enabled[0].usage.server if enabled else None
    api = _api(level if server is not None else 0, enabled)
    if server is not None:
        api["total"] += server.ended_requests
        api["errors"] += server.ended_errors
    return {
        "memory": sum(jetstream.usage.used_bytes("memory") for jetstream in enabled),
        "storage": sum(jetstream.usage.used_bytes("file") for jetstream in enabled),
        "reserved_memory": reserved.reserved_memory if reserved is not None else 0,
        "reserved_storage": reserved.reserved_storage if reserved is not None else 0,
        "accounts": len(enabled),
        "ha_assets": 0,
        "api": api,
    }


def _api(level: int, of: "list[JetStream]") -> dict[str, int]:
    shown = {
        "level": level,
        "total": sum(jetstream.requests.total for jetstream in of),
        "errors": sum(jetstream.requests.errors for jetstream in of),
    }
    inflight = sum(jetstream.requests.inflight for jetstream in of)
    return shown | ({"inflight": inflight} if inflight else {})


@dataclass(frozen=True)
class _Asked:
    """What accounts are shown with."""

    streams: bool
    consumers: bool
    direct: bool
    config: bool
    room: Room


async def _account(sources: Sources, jetstream: "JetStream", asked: _Asked) -> dict[str, Any]:
    known = sources.accounts.get(jetstream.account_name)
    shown: dict[str, Any] = {
        "name": (known.tag if known is not None else "") or jetstream.account_name,
        "id": jetstream.account_name,
        "memory": jetstream.usage.used_bytes("memory"),
        "storage": jetstream.usage.used_bytes("file"),
        # nats-server shows the account's limits here, and none of them as an unsigned -1
        "reserved_memory": jetstream.usage.limits.max_memory % _UINT64,
        "reserved_storage": jetstream.usage.limits.max_storage % _UINT64,
        "accounts": 0,
        "ha_assets": 0,
        "api": _api(0, [jetstream]),
    }
    if asked.streams:
        rows = list(jetstream.streams.values())[: limits.MONITOR_ROWS]
        details = [await _stream(jetstream, stream, asked) async for stream in paced(rows)]
        if details:
            shown["stream_detail"] = details
        if jetstream.offline:
            shown["offline"] = asked.room.take(dict(sorted(jetstream.offline.items())))
    return shown


async def _stream(jetstream: "JetStream", stream: "Stream", asked: _Asked) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": stream.name,
        "created": format_time(stream.created_ns),
        "cluster": jetstream.host.server_info.placement(),
    }
    if asked.config:
        shown["config"] = stream.config.to_json()
    shown["state"] = stream.state()
    faults = jetstream.store.faults.of_stream(jetstream.account_name, stream.name)
    if faults:
        shown["storage_faults"] = [_fault(fault) for fault in faults]
    if stream.origins is not None:
        shown |= stream.origins.info()
    asked.room.take(shown)
    if asked.consumers:
        listed = stream.listed_consumers()
        shown |= await _consumers("consumer_detail", listed, asked)
        if asked.direct:
            direct = {name: consumer for name, consumer in stream.consumers.items() if name not in listed}
            shown |= await _consumers("direct_consumer_detail", direct, asked)
        if stream.offline:
            shown["offline"] = asked.room.take(dict(sorted(stream.offline.items())))
    return shown


async def _consumers(field: str, consumers: dict[str, Any], asked: _Asked) -> dict[str, Any]:
    """A field of a stream's details; none when there are no consumers of the kind."""
    details = []
    async for consumer in paced(list(consumers.values())[: limits.MONITOR_ROWS]):
        await in_turns(consumer.counting())
        details.append(asked.room.take(_consumer(consumer.info(), asked.config)))
    return {field: details} if details else {}


def _fault(fault: Any) -> dict[str, str]:
    shown = {"consumer": fault.consumer} if fault.consumer else {}
    return {**shown, "file": fault.file, "error": fault.reason}


def _consumer(info: dict[str, Any], config: bool) -> dict[str, Any]:
    return info if config else {name: value for name, value in info.items() if name != "config"}
