"""`/leafz`: the links to other servers."""

from typing import Any

from jetbroker.addresses import split
from jetbroker.config.options import LeafRemote
from jetbroker.forms.gotext import duration_text
from jetbroker.limits import TLS_TIMEOUT_SECONDS
from jetbroker.monitor.connz import shown_rtt_ns
from jetbroker.monitor.options import LeafzOptions
from jetbroker.monitor.query import Query
from jetbroker.monitor.sources import Sources, go_float, now_text


def asked(query: Query) -> LeafzOptions:
    """What a query string asks for. Raises BadRequest."""
    return LeafzOptions(query.boolean("subs"), query.text("acc"))


def leafz(sources: Sources, options: LeafzOptions) -> dict[str, Any]:
    """The fields of nats-server 2.14, in its order."""
    with_subjects, account = options.subscriptions, options.account
    links = [] if sources.leafnodes is None else list(sources.leafnodes.leafs.live.values())
    rows = [_row(link, with_subjects) for link in links if not account or link.remote.account.name == account]
    return {"server_id": sources.server_id, "now": now_text(), "leafnodes": len(rows), "leafs": rows}


def _row(link: Any, with_subjects: bool) -> dict[str, Any]:
    peer = link.remote
    host, port = split(link.peer)
    row = {"id": link.cid, "name": peer.server, "is_spoke": peer.is_spoke}
    if peer.isolated:
        row["is_isolated"] = True
    row |= {
        "account": peer.account.name,
        "ip": host,
        "port": int(port or 0),
        "rtt": duration_text(shown_rtt_ns(link.pings.rtt_ns)),
        "in_msgs": link.in_msgs,
        "out_msgs": link.out_msgs,
        "in_bytes": link.in_bytes,
        "out_bytes": link.out_bytes,
        "subscriptions": link.subscription_count,
    }
    if with_subjects:
        row["subscriptions_list"] = [sub.subject.decode("utf-8", "replace") for sub in link.subscription_list()]
    return row | {"compression": peer.compression}


def settings(sources: Sources) -> dict[str, Any]:
    """What `/varz` shows of the configuration."""
    block = sources.options.leafnodes
    if not block.enabled:
        return {}
    found: dict[str, Any] = {}
    if block.port:
        found |= {"host": block.host or sources.options.host, "port": block.port}
        found["auth_timeout"] = go_float(block.authorization.timeout)
        found["tls_timeout"] = go_float(block.tls.timeout if block.tls is not None else TLS_TIMEOUT_SECONDS)
    if block.tls is not None:
        found |= {"tls_required": True, "tls_verify": block.tls.verify}
    found["remotes"] = [_remote(remote) for remote in block.remotes]
    found["write_deadline"] = round(block.write_deadline * 1e9)
    return {name: value for name, value in found.items() if value}


def _remote(remote: LeafRemote) -> dict[str, Any]:
    urls = [f"{url.host}:{url.port}" if url.port else url.host for url in remote.urls]
    found: dict[str, Any] = {"local_account": remote.account}
    if remote.tls is not None:
        found["tls_timeout"] = go_float(remote.tls.timeout)
    found["urls"] = urls
    denied = {"exports": remote.deny_exports, "imports": remote.deny_imports}
    if any(denied.values()):
        found["deny"] = {name: entries for name, entries in denied.items() if entries}
    return found
