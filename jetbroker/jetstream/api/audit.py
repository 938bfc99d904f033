"""Who asked the API for what: `$JS.EVENT.ADVISORY.API`, for whoever listens in the account that asked."""

from typing import Any

from jetbroker.jetstream.account import JetStream
from jetbroker.jetstream.api.endpoints import Request
from jetbroker.jetstream.api.requesters import client_fields

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
            "client": client_fields(self._host, request),
            "subject": request.subject,
        }
        if request.body:
            fields["request"] = request.body.decode("utf-8", "replace")
        fields["response"] = body.decode()
        if self._host.server_info.domain:
            fields["domain"] = self._host.server_info.domain
        self._host.advisories.publish(_SUBJECT, fields, "api_audit")
