"""What a client's CONNECT and INFO may hold."""

from typing import Any

from jetbroker.connections.typed_json import (
    BOOLEAN,
    INT,
    RULES,
    TEXT,
    TEXTS,
    Kind,
    read_struct,
)

_CONNECT_BOOLEANS = {"verbose", "pedantic", "echo", "tls_required", "headers", "no_responders", "new_account"}
_CONNECT_TEXTS = {
    "nkey",
    "jwt",
    "sig",
    "auth_token",
    "user",
    "pass",
    "name",
    "lang",
    "version",
    "account",
    "proxy_sig",
    "remote_account",
}
_CONNECT: dict[str, Kind] = {
    **dict.fromkeys(_CONNECT_BOOLEANS, BOOLEAN),
    **dict.fromkeys(_CONNECT_TEXTS, TEXT),
    "protocol": INT,
    # of leafnodes: they mean nothing to a client, but their types are looked at
    "import": RULES,
    "export": RULES,
}
_INFO: dict[str, Kind] = {
    **dict.fromkeys(
        "server_id server_name version git_commit go host ip client_ip nonce cluster domain compression remote_account "
        "route_account route_acc_add_reqid gateway gateway_url xkey".split(),
        TEXT,
    ),
    **dict.fromkeys(
        "headers auth_required tls_required tls_verify tls_available jetstream cluster_dynamic ldm connect_info "
        "acc_is_sys lnoc lnocu info_on_connect gateway_nrp gateway_iom".split(),
        BOOLEAN,
    ),
    **dict.fromkeys(("connect_urls", "ws_connect_urls", "gateway_urls", "leafnode_urls"), TEXTS),
    **dict.fromkeys(("proto", "port", "api_lvl", "route_pool_size", "route_pool_idx"), INT),
    "max_payload": ("int32", -(2**31), 2**31 - 1),
    "client_id": ("uint64", 0, 2**64 - 1),
    "gossip_mode": ("uint8", 0, 255),
    "gateway_cmd": ("uint8", 0, 255),
    "import": RULES,
    "export": RULES,
}


class ConnectOptions:
    """What a client asked for in CONNECT. `protocol` is 0 or 1 in a client that follows the rules."""

    __slots__ = (*sorted(_CONNECT_BOOLEANS), *sorted(_CONNECT_TEXTS - {"pass"}), "password", "protocol")

    def __init__(self) -> None:
        self.verbose = True
        self.pedantic = True
        self.echo = True
        self.tls_required = self.headers = self.no_responders = self.new_account = False
        self.nkey = self.jwt = self.sig = self.auth_token = self.user = self.password = ""
        self.name = self.lang = self.version = self.account = self.proxy_sig = self.remote_account = ""
        self.protocol = 0


def decode_connect(raw: bytes, before: ConnectOptions | None = None) -> ConnectOptions:
    """Parse CONNECT's JSON; raises ProtocolError without a text (closed without a word) where Go would fail.

    What it leaves out stays as in `before`, an earlier CONNECT.
    """
    options = before or ConnectOptions()
    for key, value in read_struct(raw, "ClientOpts", _CONNECT).items():
        if key not in ("import", "export"):
            setattr(options, "password" if key == "pass" else key, value)
    return options


def read_info(raw: bytes) -> dict[str, Any]:
    """What an INFO holds, by its names, as far as it is given. Raises ProtocolError where Go would fail."""
    return read_struct(raw, "Info", _INFO)
