"""`/varz`: the server as a whole."""

import os
import time
from typing import Any

from jetbroker import NATS_VERSION
from jetbroker.config.options import SYSTEM_ACCOUNT, Options, TlsOptions
from jetbroker.forms.gotext import format_time
from jetbroker.limits import TLS_TIMEOUT_SECONDS
from jetbroker.monitor import jsz, leafz
from jetbroker.monitor.sources import Sources, go_float, now_text, uptime_text
from jetbroker.monitor.traffic import Moved, of_server


async def varz(sources: Sources) -> dict[str, Any]:
    """The fields of nats-server 2.14, in its order."""
    moved = await of_server(sources)
    options, tls = sources.options, sources.options.tls
    return {
        **_settings(sources),
        "jetstream": jsz.server_summary(sources),
        "tls_timeout": go_float(tls.timeout if tls is not None else TLS_TIMEOUT_SECONDS),
        "write_deadline": _nanoseconds(options.write_deadline),
        **({"write_timeout": options.write_timeout} if options.write_timeout else {}),
        **_process(sources),
        **_counters(sources, moved),
        "http_req_stats": dict(sorted(sources.requests.items())),
        "config_load_time": format_time(sources.config_loaded_ns),
        "config_digest": options.config_digest,
        **({"tags": options.server_tags} if options.server_tags else {}),
        **({"metadata": dict(sorted(options.server_metadata.items()))} if options.server_metadata else {}),
        "feature_flags": {},
        **_operators(options),
        **({"system_account": options.system_account or SYSTEM_ACCOUNT} if options.has_system_account else {}),
        **({"pinned_account_fails": sources.unpinned} if sources.unpinned else {}),
        **_failures(sources),
        "disk_io_wait_stats": {"waiters": 0, "waits": 0, "wait_time": 0, "max_wait_time": 0},
        **_expiry(sources, tls),
    }


def _operators(options: Options) -> dict[str, Any]:
    """The operators' tokens, and what they say."""
    tokens = options.operator.tokens
    if not tokens:
        return {}
    from jetbroker.config.tokens.claims import read_operator

    return {
        "trusted_operators_jwt": tokens,
        "trusted_operators_claim": [read_operator(token).shown for token in tokens],
    }


def _settings(sources: Sources) -> dict[str, Any]:
    options, info, tls = sources.options, sources.info.fields, sources.options.tls
    return {
        "server_id": sources.server_id,
        "server_name": info["server_name"],
        "version": NATS_VERSION,
        "proto": info["proto"],
        "go": info["go"],
        "host": info["host"],
        "port": info["port"],
        **({"auth_required": True} if sources.info.authenticator.configured else {}),
        **({"tls_required": True} if tls is not None and not options.allow_non_tls else {}),
        **({"tls_verify": True} if tls is not None and tls.verify else {}),
        "max_connections": options.max_connections,
        **({"max_subscriptions": options.max_subscriptions} if options.max_subscriptions else {}),
        "ping_interval": _nanoseconds(options.ping_interval),
        "ping_max": options.ping_max,
        "http_host": options.http_host or options.host,
        "http_port": sources.http_port if options.http_port else 0,
        "http_base_path": options.monitoring.base_path,
        "https_port": sources.http_port if options.https_port else 0,
        "auth_timeout": go_float(options.authorization.timeout),
        "max_control_line": options.max_control_line,
        "max_payload": options.max_payload,
        "max_pending": options.max_pending,
        "cluster": {},
        "gateway": {},
        "leaf": leafz.settings(sources) | _expiry(sources, options.leafnodes.tls),
        "mqtt": {},
        "websocket": _websocket(sources),
    }


def _websocket(sources: Sources) -> dict[str, Any]:
    """What the block says; nothing of what it leaves to the defaults."""
    block = sources.options.websocket
    if not block.port:
        return {}
    fields = {
        "host": block.host,
        "port": sources.info.websocket_port,
        "advertise": block.advertise,
        "no_auth_user": block.no_auth_user,
        "jwt_cookie": block.jwt_cookie,
        "handshake_timeout": _nanoseconds(block.own_handshake_timeout),
        "auth_timeout": go_float(block.auth_timeout),
        "no_tls": block.no_tls,
        "tls_map": block.tls is not None and block.tls.verify_and_map,
        "tls_pinned_certs": sorted(block.tls.pinned_certs) if block.tls is not None else [],
        "same_origin": block.same_origin,
        "allowed_origins": block.allowed_origins,
        "compression": block.compression,
    }
    return {name: value for name, value in fields.items() if value} | _expiry(sources, block.tls)


def _expiry(sources: Sources, tls: TlsOptions | None) -> dict[str, str]:
    """When the first certificate of a block ends."""
    if tls is None:
        return {}
    ends = sources.expiries.of(tls.cert_file or (tls.certs[0][0] if tls.certs else ""), sources.config_loaded_ns)
    return {"tls_cert_not_after": ends} if ends else {}


def _process(sources: Sources) -> dict[str, Any]:
    cores = os.cpu_count() or 1
    return {
        "start": format_time(sources.started_ns),
        "now": now_text(),
        "uptime": uptime_text(time.time_ns() - sources.started_ns),
        "mem": sources.usage.memory_bytes(),
        "cores": cores,
        "gomaxprocs": cores,
        "cpu": go_float(sources.usage.cpu_percent()),
    }


def _counters(sources: Sources, moved: Moved) -> dict[str, Any]:
    clients, traffic, total = sources.clients, moved.clients, moved.total
    return {
        "connections": len(clients.connected),
        "total_connections": clients.total,
        "routes": 0,
        "remotes": 0,
        "leafnodes": len(sources.links),
        "in_msgs": total.in_msgs,
        "in_bytes": total.in_bytes,
        "in_client_msgs": traffic.in_msgs,
        "in_client_bytes": traffic.in_bytes,
        "out_msgs": total.out_msgs,
        "out_bytes": total.out_bytes,
        "out_client_msgs": traffic.out_msgs,
        "out_client_bytes": traffic.out_bytes,
        "slow_consumers": clients.shared.slow_consumers + _of_links(sources)[0],
        "stale_connections": clients.stale + _of_links(sources)[1],
        "stalled_clients": clients.shared.stalls,
        "subscriptions": sum(account.router.subscriptions for account in sources.accounts.values()),
    }


def _of_links(sources: Sources) -> tuple[int, int]:
    """Those that took nothing, those that did not answer."""
    leafs = None if sources.leafnodes is None else sources.leafnodes.leafs
    return (0, 0) if leafs is None else (leafs.shared.slow_consumers, leafs.stale)


def _failures(sources: Sources) -> dict[str, Any]:
    """Connections that were cut off because they took nothing, or did not answer."""
    slow, stale = sources.clients.shared.slow_consumers, sources.clients.stale
    of_links = _of_links(sources)
    none = {"routes": 0, "gateways": 0}
    return {
        "slow_consumer_stats": {"clients": slow, **none, "leafs": of_links[0]},
        "stale_connection_stats": {"clients": stale, **none, "leafs": of_links[1]},
    }


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
