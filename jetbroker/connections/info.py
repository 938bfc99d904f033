"""INFO: what the broker says of itself to a client, first when it comes, again when it has logged in."""

from typing import Any

import orjson

from jetbroker.connections.client import ClientProtocol


class ServerInfo:
    """The INFO all clients get, and each client's own additions."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields
        self.login_configured = False

    def first(self, client: ClientProtocol) -> bytes:
        """What greets a connection."""
        return self._line(client, self.fields)

    def after_login(self, client: ClientProtocol) -> bytes:
        """The second INFO (2.12): sent behind the PONG to the first PING after CONNECT."""
        info = dict(self.fields)
        if self.login_configured:
            info["auth_required"] = True
        info["connect_info"] = True
        info["remote_account"] = client.account.name
        if client.account.is_system:
            info["acc_is_sys"] = True
        return self._line(client, info)

    def lame_duck(self, client: ClientProtocol) -> bytes:
        """Go elsewhere."""
        return self._line(client, {**self.fields, "ldm": True})

    def _line(self, client: ClientProtocol, fields: dict[str, Any]) -> bytes:
        host, _, _ = client.peer.rpartition(":")
        return b"INFO " + orjson.dumps({**fields, "client_id": client.cid, "client_ip": host}) + b" \r\n"
