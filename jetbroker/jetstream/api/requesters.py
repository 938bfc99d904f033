"""Who asked, as advisories and audits tell it."""

import time
from typing import Any

from jetbroker.addresses import split
from jetbroker.forms.gojson import fast_value
from jetbroker.forms.gotext import format_time
from jetbroker.jetstream.api.endpoints import Request
from jetbroker.jetstream.host.host import Host
from jetbroker.jetstream.models.contracts import Origin
from jetbroker.wire.headers import header_value

_SECRET = ("jwt", "reply")


def client_fields(host: Host, request: Request) -> dict[str, Any]:
    """Who asked, as nats-server describes a connection; empty fields are left out."""
    origin = request.origin
    if origin is None:
        return {"acc": host.account_name}
    facts = {"server": origin.server or host.server_info.server_name, "cluster": host.server_info.cluster}
    if origin.account.name == host.account_name:
        facts |= _described(host, origin)
    else:
        facts |= {"acc": origin.account.name} | _told_by_import(request.headers) | {"svc": host.account_name}
    return {name: value for name, value in facts.items() if value and name not in _SECRET}


def _described(host: Host, origin: Origin) -> dict[str, Any]:
    start_ns = time.time_ns() - int((host.tick.loop.time() - origin.opened_at) * 1e9)
    login = origin.identity.login
    claims = None if login is None or login.token is None else login.token.claims
    return {
        "start": format_time(start_ns),
        "host": split(origin.peer)[0],
        "id": origin.cid,
        "acc": origin.account.name,
        "user": origin.user,
        "name": origin.name,
        "lang": origin.lang,
        "ver": origin.version,
        "rtt": origin.rtt_ns,
        "issuer_key": "" if login is None else login.issuer,
        "name_tag": "" if claims is None else claims.name,
        "tags": [] if claims is None else list(claims.tags),
        "kind": "Leafnode" if origin.server else "Client",
        "client_type": "" if origin.server else origin.kind,
    }


def _told_by_import(headers: bytes) -> dict[str, Any]:
    """As much as an import shares of somebody in another account: it says so in a header."""
    try:
        told = fast_value(header_value(headers, b"Nats-Request-Info") or b"")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}
