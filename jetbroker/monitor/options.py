# ruff: noqa: RUF009 -- json_field returns dataclasses.field(), which is made for this place
"""What may be asked of each service, with the names, types and refusals that nats-server has for it in JSON.

The monitoring port knows the same options by other names: each endpoint says which (`asked`).
"""

from dataclasses import dataclass, make_dataclass, replace
from typing import Any

from jetbroker import limits
from jetbroker.forms import gojson
from jetbroker.jetstream.models.decode import (
    BOOL,
    DURATION,
    INT,
    TEXTS,
    UINT64,
    DecodeError,
    NumberKind,
    Place,
    StructKind,
    TextKind,
    embedded_field,
    json_field,
)
from jetbroker.monitor.orders import ORDERS


class RefusedOptions(Exception):
    """The body of a request cannot be read; the text is Go's."""


class _OptionKind(TextKind):
    """A text; what is longer than a protocol line names nothing."""

    def __init__(self, go_type: str = "string") -> None:
        self.go_type = go_type

    def read(self, value: Any, where: Place, old: Any, strict: bool) -> Any:
        return super().read(value, where, old, strict)[: limits.SYSTEM_OPTION_CHARACTERS]


_TEXT = _OptionKind()
_SORT = _OptionKind("server.SortOpt")
_STATE = NumberKind("server.ConnState", INT.low, INT.high)
OPEN, CLOSED, ALL = range(3)  # of connections


@dataclass
class EventFilterOptions:
    """Which servers shall answer; "" and no tags: any."""

    server_name: str = json_field(_TEXT)
    cluster: str = json_field(_TEXT)
    host: str = json_field(_TEXT)
    exact_match: bool = json_field(BOOL)
    tags: list[str] = json_field(TEXTS)
    domain: str = json_field(_TEXT)


@dataclass
class ConnzOptions:
    """Which connections, in which order, with what."""

    sort: str = json_field(_SORT)
    auth: bool = json_field(BOOL)
    subscriptions: bool = json_field(BOOL)
    subscriptions_detail: bool = json_field(BOOL)
    offset: int = json_field(INT)
    limit: int = json_field(INT)
    cid: int = json_field(UINT64)
    mqtt_client: str = json_field(_TEXT)
    state: int = json_field(_STATE)
    user: str = json_field(_TEXT)
    account: str = json_field(_TEXT, key="acc")
    filter_subject: str = json_field(_TEXT)


@dataclass
class SubszOptions:
    """Whose subscriptions, and which of them."""

    offset: int = json_field(INT)
    limit: int = json_field(INT)
    subscriptions: bool = json_field(BOOL)
    account: str = json_field(_TEXT)
    test: str = json_field(_TEXT)


@dataclass
class JSzOptions:
    """How much of JetStream."""

    account: str = json_field(_TEXT)
    accounts: bool = json_field(BOOL)
    streams: bool = json_field(BOOL)
    consumers: bool = json_field(BOOL, key="consumer")
    direct_consumers: bool = json_field(BOOL, key="direct_consumer")
    config: bool = json_field(BOOL)
    leader_only: bool = json_field(BOOL)
    offset: int = json_field(INT)
    limit: int = json_field(INT)
    raft: bool = json_field(BOOL)
    stream_leader_only: bool = json_field(BOOL)


@dataclass
class HealthzOptions:
    """How far to look."""

    js_enabled: bool = json_field(BOOL, key="js-enabled")
    js_enabled_only: bool = json_field(BOOL, key="js-enabled-only")
    js_server_only: bool = json_field(BOOL, key="js-server-only")
    js_meta_only: bool = json_field(BOOL, key="js-meta-only")
    account: str = json_field(_TEXT)
    stream: str = json_field(_TEXT)
    consumer: str = json_field(_TEXT)
    details: bool = json_field(BOOL)

    @property
    def server_only(self) -> bool:
        """Leave streams and consumers alone? `js_meta_only` is about clusters, and changes nothing here."""
        return self.js_enabled or self.js_enabled_only or self.js_server_only


@dataclass
class LeafzOptions:
    """Whose links, and with their subjects?"""

    subscriptions: bool = json_field(BOOL)
    account: str = json_field(_TEXT)


@dataclass
class RoutezOptions:
    """Of routes, which a lone server has none of."""

    subscriptions: bool = json_field(BOOL)
    subscriptions_detail: bool = json_field(BOOL)


@dataclass
class GatewayzOptions:
    """Of gateways, which a lone server has none of."""

    name: str = json_field(_TEXT)
    accounts: bool = json_field(BOOL)
    account_name: str = json_field(_TEXT)
    subscriptions: bool = json_field(BOOL)
    subscriptions_detail: bool = json_field(BOOL)


@dataclass
class AccountzOptions:
    """One account in detail; "": the names of all."""

    account: str = json_field(_TEXT)


@dataclass
class AccountStatzOptions:
    """Whose figures; also of accounts that nobody uses?"""

    accounts: list[str] = json_field(TEXTS)
    include_unused: bool = json_field(BOOL)


@dataclass
class RaftzOptions:
    """Of Raft groups, which a lone server has none of."""

    account: str = json_field(_TEXT)
    group: str = json_field(_TEXT)


@dataclass
class ProfilezOptions:
    """A profile of a Go program. `duration` in nanoseconds."""

    name: str = json_field(_TEXT)
    debug: int = json_field(INT)
    duration: int = json_field(DURATION)


@dataclass
class IpqueueszOptions:
    """Which of nats-server's queues."""

    all: bool = json_field(BOOL)
    filter: str = json_field(_TEXT)


@dataclass
class ConnectionOrder:
    """The connection that something is to be done with."""

    cid: int = json_field(UINT64)


@dataclass
class AccNumConnsReq:
    """The account that another server begins to count."""

    account: str = json_field(_TEXT, key="acc")


@dataclass
class VarzOptions:
    """There are none."""


@dataclass
class Request:
    """What a body says: `options` of the service, and which `servers` are meant."""

    options: Any
    servers: EventFilterOptions


def _kind(options: type[Any] | None, go_name: str) -> StructKind:
    """How the requests to a service are read."""
    parts: list[tuple[str, Any, Any]] = [
        ("servers", EventFilterOptions, embedded_field(EventFilterOptions, "EventFilterOptions"))
    ]
    if options is not None:
        parts.insert(0, ("options", options, embedded_field(options, options.__name__)))
    return StructKind(make_dataclass(go_name, parts), go_name, optional=False)


_KINDS = {
    "CONNZ": _kind(ConnzOptions, "ConnzEventOptions"),
    "SUBSZ": _kind(SubszOptions, "SubszEventOptions"),
    "JSZ": _kind(JSzOptions, "JszEventOptions"),
    "HEALTHZ": _kind(HealthzOptions, "HealthzEventOptions"),
    "LEAFZ": _kind(LeafzOptions, "LeafzEventOptions"),
    "ROUTEZ": _kind(RoutezOptions, "RoutezEventOptions"),
    "GATEWAYZ": _kind(GatewayzOptions, "GatewayzEventOptions"),
    "ACCOUNTZ": _kind(AccountzOptions, "AccountzEventOptions"),
    "STATZ": _kind(AccountStatzOptions, "AccountStatzEventOptions"),
    "RAFTZ": _kind(RaftzOptions, "RaftzEventOptions"),
    "PROFILEZ": _kind(ProfilezOptions, "ProfilezEventOptions"),
    "EXPVARZ": _kind(None, "ExpvarzEventOptions"),
    "IPQUEUESZ": _kind(IpqueueszOptions, "IpqueueszEventOptions"),
    "VARZ": _kind(VarzOptions, "VarzEventOptions"),
    "STATSZ": _kind(None, "StatszEventOptions"),
    "INFO": _kind(None, "AccInfoEventOptions"),
    **dict.fromkeys(ORDERS, StructKind(EventFilterOptions, "EventFilterOptions", optional=False)),
}
_ORDERED = {
    "KICK": StructKind(ConnectionOrder, "KickClientReq", optional=False),
    "LDM": StructKind(ConnectionOrder, "LDMClientReq", optional=False),
}
_CONNS = StructKind(AccNumConnsReq, "accNumConnsReq", optional=False)


def read(service: str, body: bytes) -> Request:
    """The request of a body; an empty one asks for nothing in particular. Raises RefusedOptions."""
    kind = _KINDS[service]
    found = _read(kind, body, kind.cls()) if body else kind.cls()
    if isinstance(found, EventFilterOptions):
        return Request(None, found)
    return Request(getattr(found, "options", None), found.servers)


def read_connection(order: str, body: bytes) -> int:
    """The id of the connection that an order is about; 0 where none is meant. Raises RefusedOptions."""
    kind = _ORDERED.get(order)
    found: ConnectionOrder = ConnectionOrder() if kind is None else _read(kind, body, ConnectionOrder())
    return found.cid


def read_account(body: bytes, account: str) -> str:
    """Whose connections are to be counted; `account` where the body does not say. Raises RefusedOptions."""
    found: AccNumConnsReq = _read(_CONNS, body, AccNumConnsReq(account)) if body else AccNumConnsReq(account)
    return found.account


def _read(kind: StructKind, body: bytes, empty: Any) -> Any:
    try:
        return kind.read(gojson.fast_value(body), Place(), replace(empty), False)
    except (ValueError, DecodeError) as error:
        refusal = str(error)
    try:
        return kind.read(gojson.one_value(body), Place(), empty, False)
    except gojson.TooLong:
        raise RefusedOptions(refusal) from None
    except (gojson.JsonError, DecodeError) as error:
        raise RefusedOptions(str(error)) from None
