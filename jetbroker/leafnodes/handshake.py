"""What two servers tell each other when a link begins: INFO of the accepting side, CONNECT of the soliciting one.

Both are read as Go reads them (connections/typed_json.py) and written with nats-server's keys in its order.
"""

from dataclasses import dataclass, field
from typing import Any

from jetbroker.config.options import SubjectPermissions
from jetbroker.connections.handshake import decode_connect, read_info
from jetbroker.connections.typed_json import BOOLEAN, INT, TEXT, TEXTS, Kind, read_struct
from jetbroker.forms.gojson import dumps

INFO_ORDER = (
    "server_id server_name version proto go host port headers auth_required tls_required tls_verify max_payload "
    "jetstream ip client_id nonce cluster domain ldm compression connect_info remote_account "
    "acc_is_sys api_lvl import export info_on_connect leafnode_urls"
).split()
CONNECT_ORDER = (
    "version nkey jwt sig user pass auth_token server_id domain name is_hub cluster headers jetstream deny_pub isolate "
    "compress_mode remote_account protocol"
).split()
_CONNECT: dict[str, Kind] = {
    **dict.fromkeys(
        "version nkey jwt sig user pass auth_token server_id domain name cluster compress_mode gateway "
        "remote_account".split(),
        TEXT,
    ),
    **dict.fromkeys(("is_hub", "headers", "jetstream", "isolate"), BOOLEAN),
    "deny_pub": TEXTS,
    "protocol": INT,
}


@dataclass(slots=True)
class LinkInfo:
    """An INFO of the accepting side. `imports` and `exports` None: it says nothing of them."""

    server: str = ""
    version: str = ""
    headers: bool = False
    tls_required: bool = False
    cid: int = 0
    protocol: int = 0
    nonce: bytes = b""
    cluster: str = ""
    domain: str = ""
    compression: str = ""
    connect_info: bool = False
    info_on_connect: bool = False
    remote_account: str = ""
    imports: SubjectPermissions | None = None
    exports: SubjectPermissions | None = None
    urls: list[str] | None = None  # host:port of its leafnode ports
    websocket_urls: list[str] = field(default_factory=list)


@dataclass(slots=True)
class LinkConnect:
    """A CONNECT of the soliciting side; `lang` and the wish for an account are a client's."""

    version: str = ""
    nkey: str = ""
    jwt: str = field(default="", repr=False)
    signature: str = field(default="", repr=False)
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    domain: str = ""
    jetstream: bool = False  # its account has it
    server: str = ""
    is_hub: bool = False
    cluster: str = ""
    headers: bool = False
    deny_publish: list[str] = field(default_factory=list)
    isolate: bool = False
    gateway: str = ""
    compression: str = ""
    remote_account: str = ""
    protocol: int = 0
    lang: str = ""
    names_account: bool = False


def decode_link_info(raw: bytes) -> LinkInfo:
    """Raises ProtocolError where Go would fail."""
    given = read_info(raw)
    return LinkInfo(
        server=given.get("server_name") or given.get("server_id", ""),
        version=given.get("version", ""),
        headers=given.get("headers", False),
        tls_required=given.get("tls_required", False),
        cid=given.get("client_id", 0),
        protocol=given.get("proto", 0),
        nonce=given.get("nonce", "").encode(),
        cluster=given.get("cluster", ""),
        domain=given.get("domain", ""),
        compression=given.get("compression", ""),
        connect_info=given.get("connect_info", False),
        info_on_connect=given.get("info_on_connect", False),
        remote_account=given.get("remote_account", ""),
        imports=_rules(given.get("import")),
        exports=_rules(given.get("export")),
        urls=given.get("leafnode_urls"),
        websocket_urls=given.get("ws_connect_urls", []),
    )


def decode_link_connect(raw: bytes) -> LinkConnect:
    """Raises ProtocolError where Go would fail: it reads a CONNECT as a client's first, then as a server's."""
    as_client = decode_connect(raw)
    given = read_struct(raw, "leafConnectInfo", _CONNECT)
    return LinkConnect(
        version=given.get("version", ""),
        nkey=given.get("nkey", ""),
        jwt=given.get("jwt", ""),
        signature=given.get("sig", ""),
        user=given.get("user", ""),
        password=given.get("pass", ""),
        token=given.get("auth_token", ""),
        domain=given.get("domain", ""),
        jetstream=given.get("jetstream", False),
        server=given.get("name", ""),
        is_hub=given.get("is_hub", False),
        cluster=given.get("cluster", ""),
        headers=given.get("headers", False),
        deny_publish=given.get("deny_pub", []),
        isolate=given.get("isolate", False),
        gateway=given.get("gateway", ""),
        compression=given.get("compress_mode", ""),
        remote_account=given.get("remote_account", ""),
        protocol=given.get("protocol", 0),
        lang=as_client.lang,
        names_account=bool(as_client.account or as_client.new_account),
    )


def info_line(fields: dict[str, Any]) -> bytes:
    """INFO with the fields that are not empty; those that nats-server always sends are the caller's to give."""
    return b"INFO " + dumps({name: fields[name] for name in INFO_ORDER if name in fields}) + b" \r\n"


def connect_line(fields: dict[str, Any]) -> bytes:
    """CONNECT with the fields that are not empty."""
    return b"CONNECT " + dumps({name: fields[name] for name in CONNECT_ORDER if fields.get(name)}) + b"\r\n"


def rules_as_json(rules: SubjectPermissions | None) -> dict[str, list[str]] | None:
    """As INFO's `import` and `export` have them; None: nothing is said."""
    if rules is None:
        return None
    found = {"allow": rules.allow, "deny": rules.deny}
    return {name: list(entries) for name, entries in found.items() if entries}


def _rules(given: dict[str, list[str]] | None) -> SubjectPermissions | None:
    if given is None:
        return None
    return SubjectPermissions(allow=given.get("allow"), deny=given.get("deny", []))
