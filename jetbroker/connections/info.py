"""INFO: what the broker says of itself to a client, first when it comes, again when it has logged in."""

import sys
from typing import Any

import orjson

from jetbroker import NATS_VERSION, __version__
from jetbroker.addresses import split
from jetbroker.auth.authenticator import Authenticator
from jetbroker.auth.nkeys import CurveKey
from jetbroker.config.advertise import advertised
from jetbroker.config.options import Options
from jetbroker.connections.client import ClientProtocol
from jetbroker.forms.api_level import API_LEVEL

PROTOCOL = 1
# as in nats-server's
ORDER = (
    "server_id server_name version proto go host port headers auth_required tls_required tls_verify tls_available "
    "max_payload jetstream client_id client_ip nonce cluster domain ldm connect_info remote_account acc_is_sys api_lvl "
    "xkey"
).split()


class ServerInfo:
    """The INFO all clients get, and each client's own additions.

    `port` and `websocket_port` are those that are listened on, known once the listeners are open. `cluster` is "" but
    for a server that dials others: it is a cluster of its own, named as itself.
    """

    def __init__(self, options: Options, server_id: str, authenticator: Authenticator) -> None:
        self.server_id = server_id
        self.server_name = options.server_name or server_id
        self.curve_key = CurveKey()
        self.authenticator = authenticator
        self.port = options.port
        self.websocket_port = options.websocket.port
        self.cluster = ""
        self.fields: dict[str, Any] = {}
        self._tls_first = False
        self._websocket: dict[str, Any] = {}
        self.apply(options)

    def apply(self, options: Options) -> None:
        """Follow the options, at start and after each reload: only clients that come later hear of it."""
        host, port = options.host, self.port
        if options.client_advertise:
            host, port = advertised(options.client_advertise, self.port)
        fields: dict[str, Any] = {
            "server_id": self.server_id,
            "server_name": self.server_name,
            "version": NATS_VERSION,
            "proto": PROTOCOL,
            "go": f"jetbroker {__version__}, Python {sys.version_info.major}.{sys.version_info.minor}",
            "host": host,
            "port": port,
            "headers": not options.no_header_support,
            "max_payload": options.max_payload,
            "api_lvl": API_LEVEL,
        }
        # a server with remotes is a cluster of its own
        self.cluster = self.server_name if options.leafnodes.remotes else ""
        if self.cluster:
            fields["cluster"] = self.cluster
        if options.jetstream.enabled:
            fields["jetstream"] = True
            if options.jetstream.domain:
                fields["domain"] = options.jetstream.domain
        if options.tls is not None:
            fields["tls_available" if options.allow_non_tls else "tls_required"] = True
            if options.tls.verify:
                fields["tls_verify"] = True
        self.fields = fields
        self._tls_first = options.tls is not None and options.tls.handshake_first is not None
        self._websocket = self._for_websockets(options)

    def first(self, client: ClientProtocol) -> bytes:
        """What greets a connection."""
        info = self._of(client)
        if self.authenticator.announced(client.kind):
            info["auth_required"] = True
        if self._tls_first and client.tls is not None and client.kind == "nats":
            info["tls_required"] = True
        if client.arrival is not None and client.arrival.hides_address:
            del info["client_ip"]  # it would be the proxy's
        if client.identity.nonce:
            info["nonce"] = client.identity.nonce.decode()
        return _line(info)

    def after_login(self, client: ClientProtocol) -> bytes:
        """The second INFO (2.12): sent behind the PONG to the first PING after CONNECT."""
        info = self._of(client)
        if self.authenticator.due(client.kind):
            info["auth_required"] = True
        info["connect_info"] = True
        info["remote_account"] = client.account.name
        if client.account.is_system:
            info["acc_is_sys"] = True
        return _line(info)

    def lame_duck(self, client: ClientProtocol) -> bytes:
        """Go elsewhere."""
        info = self._of(client)
        if self.authenticator.due(client.kind):
            info["auth_required"] = True
        info["ldm"] = True
        return _line(info)

    def _for_websockets(self, options: Options) -> dict[str, Any]:
        """What differs for them."""
        block = options.websocket
        fields: dict[str, Any] = {"host": block.host or options.host, "port": self.websocket_port}
        if block.tls is not None:
            fields |= {"tls_required": True, "tls_available": True}
        return fields

    def _of(self, client: ClientProtocol) -> dict[str, Any]:
        info = dict(self.fields)
        if client.kind == "websocket":
            info.pop("tls_required", None)
            info.pop("tls_available", None)
            info |= self._websocket
        info["max_payload"] = max(client.payload_limit, -1)
        return info | {"client_id": client.cid, "client_ip": split(client.peer)[0], "xkey": self.curve_key.public}


def _line(info: dict[str, Any]) -> bytes:
    return b"INFO " + orjson.dumps({name: info[name] for name in ORDER if name in info}) + b" \r\n"
