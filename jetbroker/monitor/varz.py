"""`/varz`: the server as a whole."""

import os
import time
from typing import Any

from jetbroker import NATS_VERSION
from jetbroker.config.options import SYSTEM_ACCOUNT
from jetbroker.connections.closed import Traffic
from jetbroker.jetstream.gotext import format_time
from jetbroker.monitor import jsz
from jetbroker.monitor.sources import Sources, go_float, now_text, paced, uptime_text

_TLS_TIMEOUT_SECONDS = 2  # nats-server's default; there is no TLS here yet
_COUNT_AT_ONCE = 1024  # connections


async def varz(sources: Sources) -> dict[str, Any]:
    """The fields of nats-server 2.14, in its order."""
    traffic = await _traffic(sources)
    return {
        **_settings(sources),
        "jetstream": jsz.server_summary(sources),
        "tls_timeout": _TLS_TIMEOUT_SECONDS,
        "write_deadline": _nanoseconds(sources.options.write_deadline),
        **_process(sources),
        **_counters(sources, traffic),
        "http_req_stats": dict(sorted(sources.requests.items())),
        "config_load_time": format_time(sources.started_ns),
        "config_digest": sources.options.config_digest,
        **({"tags": sources.options.server_tags} if sources.options.server_tags else {}),
        "feature_flags": {},
        "system_account": sources.options.system_account or SYSTEM_ACCOUNT,
        "slow_consumer_stats": _by_kind(sources.clients.shared.slow_consumers),
        "stale_connection_stats": _by_kind(sources.clients.stale),
        "disk_io_wait_stats": {"waiters": 0, "waits": 0, "wait_time": 0, "max_wait_time": 0},
    }


def _settings(sources: Sources) -> dict[str, Any]:
    options, info = sources.options, sources.info
    return {
        "server_id": sources.server_id,
        "server_name": info["server_name"],
        "version": NATS_VERSION,
        "proto": info["proto"],
        "go": info["go"],
        "host": options.host,
        "port": info["port"],
        **({"auth_required": True} if sources.clients.logins.authenticator.configured else {}),
        "max_connections": options.max_connections,
        **({"max_subscriptions": options.max_subscriptions} if options.max_subscriptions else {}),
        "ping_interval": _nanoseconds(options.ping_interval),
        "ping_max": options.ping_max,
        "http_host": options.http_host or options.host,
        "http_port": sources.http_port,
        "http_base_path": options.http_base_path,
        "https_port": 0,
        "auth_timeout": go_float(options.authorization.timeout),
        "max_control_line": options.max_control_line,
        "max_payload": options.max_payload,
        "max_pending": options.max_pending,
        **{name: {} for name in ("cluster", "gateway", "leaf", "mqtt", "websocket")},
    }


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


def _counters(sources: Sources, traffic: Traffic) -> dict[str, Any]:
    clients = sources.clients
    return {
        "connections": len(clients.connected),
        "total_connections": clients.total,
        "routes": 0,
        "remotes": 0,
        "leafnodes": 0,
        "in_msgs": traffic.in_msgs,
        "in_bytes": traffic.in_bytes,
        "in_client_msgs": traffic.in_msgs,
        "in_client_bytes": traffic.in_bytes,
        "out_msgs": traffic.out_msgs,
        "out_bytes": traffic.out_bytes,
        "out_client_msgs": traffic.out_msgs,
        "out_client_bytes": traffic.out_bytes,
        "slow_consumers": clients.shared.slow_consumers,
        "stale_connections": clients.stale,
        "stalled_clients": clients.shared.stalls,
        "subscriptions": sum(account.router.subscriptions for account in sources.accounts.values()),
    }


async def _traffic(sources: Sources) -> Traffic:
    """Of all connections there are and were."""
    total = Traffic()
    clients = sources.clients
    async for client in paced(list(clients.connected.values()), _COUNT_AT_ONCE):
        if client.cid in clients.connected:  # those that ended in between are among the closed ones below
            total.add(client)
    for gone in clients.closed_traffic.values():
        total.merge(gone)
    return total


def _by_kind(clients: int) -> dict[str, int]:
    return {"clients": clients, "routes": 0, "gateways": 0, "leafs": 0}


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)
