"""CONNECT and INFO as Go's encoding/json reads them: keys in any case, unknown ones ignored, wrong types refused.

Rules: as nats-server 2.14.5 was observed to keep them (tests/differential/).
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from jetbroker.connections.json_faults import syntax_fault, type_fault
from jetbroker.errors import ProtocolError

BOOLEANS = {"verbose", "pedantic", "echo", "tls_required", "headers", "no_responders", "new_account"}
TEXTS = {
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
RULES = {"import", "export"}  # of leafnodes: they mean nothing here, but their types are looked at
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
# what an INFO may hold; a client's means nothing, but its types are looked at
INFO_TEXTS = set(
    "server_id server_name version git_commit go host ip client_ip nonce cluster domain compression remote_account "
    "route_account route_acc_add_reqid gateway gateway_url xkey".split()
)
INFO_BOOLEANS = set(
    "headers auth_required tls_required tls_verify tls_available jetstream cluster_dynamic ldm connect_info acc_is_sys "
    "lnoc lnocu info_on_connect gateway_nrp gateway_iom".split()
)
INFO_LISTS = {"connect_urls", "ws_connect_urls", "gateway_urls", "leafnode_urls"}
INFO_NUMBERS = {
    **dict.fromkeys(("proto", "port", "api_lvl", "route_pool_size", "route_pool_idx"), ("int", INT64_MIN, INT64_MAX)),
    "max_payload": ("int32", -(2**31), 2**31 - 1),
    "client_id": ("uint64", 0, 2**64 - 1),
    "gossip_mode": ("uint8", 0, 255),
    "gateway_cmd": ("uint8", 0, 255),
}
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_FOLDED = str.maketrans({"\u017f": "s", "\u212a": "k"})  # the only letters that Go takes for ASCII ones


class ConnectOptions:
    """What a client asked for in CONNECT. `protocol` is 0 or 1 in a client that follows the rules."""

    __slots__ = (*sorted(BOOLEANS), *sorted(TEXTS - {"pass"}), "password", "protocol")

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
    for key, value in _decode_object(raw, "ClientOpts").given():
        if key in BOOLEANS:
            _require(isinstance(value, bool), value, "bool", key, "ClientOpts")
        elif key in TEXTS:
            _require(isinstance(value, str), value, "string", key, "ClientOpts")
            value = _LONE_SURROGATE.sub("\ufffd", value)  # as Go reads them
        elif key == "protocol":
            _require(_is_number(value, INT64_MIN, INT64_MAX), value, "int", key, "ClientOpts")
        else:
            if key in RULES:
                _check_rules(value, key, "ClientOpts")
            continue
        setattr(options, "password" if key == "pass" else key, value)
    return options


def check_info(raw: bytes) -> None:
    """INFO from a client is ignored, but bad JSON and wrong types close the connection. Raises ProtocolError."""
    for key, value in _decode_object(raw, "Info").given():
        if key in INFO_TEXTS:
            _require(isinstance(value, str), value, "string", key, "Info")
        elif key in INFO_BOOLEANS:
            _require(isinstance(value, bool), value, "bool", key, "Info")
        elif key in INFO_LISTS:
            _check_texts(value, key, "Info")
        elif key in INFO_NUMBERS:
            wanted, least, most = INFO_NUMBERS[key]
            _require(_is_number(value, least, most), value, wanted, key, "Info")
        elif key in RULES:
            _check_rules(value, key, "Info")


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with all of its keys, in order: each one's type counts, the last one's value."""

    def given(self) -> Iterator[tuple[str, Any]]:
        """Keys as Go compares them, and values; a null means the key was not given."""
        return ((name.translate(_FOLDED).lower(), value) for name, value in self if value is not None)


class _Float(float):
    """A number that is no integer; shown as it was written."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def _decode_object(raw: bytes, holder: str) -> _Pairs:
    text = raw.decode("utf-8", "replace")
    try:
        found = json.loads(text, object_pairs_hook=_Pairs, parse_constant=_refuse, parse_float=_Float)
    except (ValueError, RecursionError):
        raise ProtocolError("", detail=syntax_fault(raw) or "exceeded max depth") from None
    if found is None:
        return _Pairs()
    _require(isinstance(found, _Pairs), found, f"server.{holder}")
    pairs: _Pairs = found
    return pairs


def _check_rules(value: Any, key: str, holder: str) -> None:
    """`{"allow": [...], "deny": [...]}`: lists of strings."""
    _require(isinstance(value, _Pairs), value, "server.SubjectPermission", key, holder)
    for name, found in value.given():
        if name in ("allow", "deny"):
            _check_texts(found, f"{key}.{name}", "SubjectPermission")


def _check_texts(value: Any, key: str, holder: str) -> None:
    _require(type(value) is list, value, "[]string", key, holder)
    for entry in value:
        _require(entry is None or isinstance(entry, str), entry, "string", key, holder)


def _is_number(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _require(condition: bool, value: Any, wanted: str, field: str = "", holder: str = "") -> None:
    if not condition:
        given = {} if isinstance(value, _Pairs) else value
        raise ProtocolError("", detail=type_fault(given, wanted, field, holder))
