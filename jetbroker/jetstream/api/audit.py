"""Who asked the API for what: `$JS.EVENT.ADVISORY.API`, for whoever listens in the account that asked."""

import time
from typing import Any

from jetbroker.addresses import split
from jetbroker.forms.gotext import format_time
from jetbroker.jetstream.account import JetStream
from jetbroker.jetstream.api.endpoints import Request
from jetbroker.jetstream.models.contracts import Origin

_SUBJECT = "$JS.EVENT.ADVISORY.API"


class Audit:
    """Of the requests of one account."""

    def __init__(self, js: JetStream) -> None:
        self._host = js.host

    def tell(self, request: Request, body: bytes) -> None:
        """That `request` was answered with `body`."""
        if not self._host.router.interested(_SUBJECT.encode()):
            return
        fields: dict[str, Any] = {
            "server": self._host.server_info.server_name,
            "client": self._client(request.origin),
            "subject": request.subject,
        }
        if request.body:
            fields["request"] = request.body.decode("utf-8", "replace")
        fields["response"] = body.decode()
        if self._host.server_info.domain:
            fields["domain"] = self._host.server_info.domain
        self._host.advisories.publish(_SUBJECT, fields, "api_audit")

    def _client(self, origin: Origin | None) -> dict[str, Any]:
        """Who asked, as nats-server describes a connection; empty fields are left out."""
        account = {"acc": self._host.account_name}
        if origin is None:
            return account
        start_ns = time.time_ns() - int((self._host.tick.loop.time() - origin.opened_at) * 1e9)
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
            "server": origin.server or self._host.server_info.server_name,
            "cluster": self._host.server_info.cluster,
        }
        kind = {"kind": "Leafnode"} if origin.server else {"kind": "Client", "client_type": "nats"}
        return {name: value for name, value in facts.items() if value} | kind
