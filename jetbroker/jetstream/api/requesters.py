"""Who asked, as advisories and audits tell it."""

import time
from typing import Any

from jetbroker.addresses import split
from jetbroker.forms.gotext import format_time
from jetbroker.jetstream.host.host import Host
from jetbroker.jetstream.models.contracts import Origin


def client_fields(host: Host, origin: Origin | None) -> dict[str, Any]:
    """Who asked, as nats-server describes a connection; empty fields are left out."""
    account = {"acc": host.account_name}
    if origin is None:
        return account
    start_ns = time.time_ns() - int((host.tick.loop.time() - origin.opened_at) * 1e9)
    facts = {
        "start": format_time(start_ns),
        "host": split(origin.peer)[0],
        "id": origin.cid,
        **account,
        "user": origin.user,
        "name": origin.name,
        "lang": origin.lang,
        "ver": origin.version,
        "rtt": getattr(origin, "rtt_ns", 0),
        "server": origin.server or host.server_info.server_name,
        "cluster": host.server_info.cluster,
    }
    kind = {"kind": "Leafnode"} if origin.server else {"kind": "Client", "client_type": "nats"}
    return {name: value for name, value in facts.items() if value} | kind
