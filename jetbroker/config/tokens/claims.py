"""What tokens say, typed: operators, accounts, users, activations. Times are seconds since 1970; 0: not said.

Limits: -1 is none. One that is missing is 0, as in nats-server, and allows nothing; JetStream's 0 is no JetStream.
"""

from dataclasses import field
from typing import TYPE_CHECKING, Any

from jetbroker.config.durations import bounded
from jetbroker.config.options import PermissionsOptions, ResponsePermissions, SubjectPermissions
from jetbroker.config.tokens.envelope import Token, open_kind
from jetbroker.config.tokens.fields import Fields, TokenError

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from jetbroker.config.block import dataclass

STREAM, SERVICE = "stream", "service"
_KINDS = (STREAM, SERVICE)
_USER_SCOPE = "user_scope"
_COMMON_FIELDS = ("aud", "exp", "jti", "iat", "iss", "name", "nbf", "sub")
_OPERATOR_FIELDS = (
    "signing_keys", "account_server_url", "operator_service_urls", "system_account", "assert_server_version",
    "strict_signing_key_usage",
)  # fmt: skip
_EVERYBODY = "*"


@dataclass(slots=True)
class Claims:
    """What every token says. `issuer` has signed it."""

    subject: str
    issuer: str
    name: str
    issued_at: int
    expires: int
    not_before: int
    tags: tuple[str, ...]


@dataclass(slots=True)
class OperatorClaims(Claims):
    """An operator. `raw` is the JSON, for monitoring."""

    audience: str
    signing_keys: tuple[str, ...]
    account_server_url: str
    system_account: str
    assert_server_version: str
    strict_signing_keys: bool
    raw: dict[str, Any] = field(repr=False)

    @property
    def shown(self) -> dict[str, Any]:
        """The claims as nats-server shows them: known fields in its order, what is empty left out."""
        nats = self.raw.get("nats") or {}
        own = {"tags": list(self.tags), "type": "operator", "version": nats.get("version", 1)}
        inner = {key: nats.get(key) for key in _OPERATOR_FIELDS} | own
        outer = {key: self.raw.get(key) for key in _COMMON_FIELDS}
        outer["nats"] = {key: value for key, value in inner.items() if value}
        return {key: value for key, value in outer.items() if value}


@dataclass(slots=True)
class NatsLimits:
    """Of a user or an account: subscriptions, bytes of a message. -1: no limit."""

    subscriptions: int
    payload: int


@dataclass(slots=True)
class TimeRange:
    """Times of the day, `HH:MM:SS`; the end may lie before the start: behind midnight."""

    start: str
    end: str


@dataclass(slots=True)
class UserLimits:
    """What a user may do, from where and when; of a user's own token or of the scope of the key that signed it.

    `unset`: nothing of it is said at all, as it must be where a scope says it.
    """

    permissions: PermissionsOptions | None
    limits: NatsLimits
    sources: tuple[str, ...]  # CIDR blocks; empty: from anywhere
    times: tuple[TimeRange, ...]
    times_location: str
    bearer: bool
    proxy_required: bool
    connection_types: tuple[str, ...]
    unset: bool


@dataclass(slots=True)
class UserClaims(Claims):
    """A user. `issuer_account` is empty when the account's own key has signed."""

    may: UserLimits
    issuer_account: str

    @property
    def account(self) -> str:
        """Whose user it is."""
        return self.issuer_account or self.issuer


@dataclass(slots=True)
class ActivationClaims(Claims):
    """The permission to import: of the account `subject`."""

    import_subject: str
    kind: str
    issuer_account: str


@dataclass(slots=True)
class Import:
    """An account's import; `to` is the older way to say `local_subject`."""

    kind: str
    account: str
    subject: str
    token: str
    to: str
    local_subject: str
    share: bool
    allow_trace: bool


@dataclass(slots=True)
class Export:
    """An account's export. `threshold_ns` 0: the default."""

    kind: str
    subject: str
    token_required: bool
    revocations: dict[str, int]
    response_type: str
    threshold_ns: int
    latency: tuple[int, str] | None  # percent (0: by headers), subject
    token_position: int
    allow_trace: bool


@dataclass(slots=True)
class JetStreamLimits:
    """-1: no limit, for the last three also 0. No memory and no storage: no JetStream."""

    memory: int
    storage: int
    streams: int
    consumers: int
    max_ack_pending: int
    memory_max_stream_bytes: int
    storage_max_stream_bytes: int
    max_bytes_required: bool

    @property
    def enabled(self) -> bool:
        """May the account have streams?"""
        return bool(self.memory or self.storage)


@dataclass(slots=True)
class AccountLimits:
    """What the operator allows an account."""

    nats: NatsLimits
    imports: int
    exports: int
    wildcard_exports: bool
    disallow_bearer: bool
    connections: int
    leafnodes: int
    jetstream: JetStreamLimits
    tiers: dict[str, JetStreamLimits]


@dataclass(slots=True)
class Mapping:
    """Where a mapping leads. `weight` in percent."""

    subject: str
    weight: int
    cluster: str


@dataclass(slots=True)
class AccountClaims(Claims):
    """An account. `signing_keys`: each with the scope of the users it may sign, None for any user."""

    imports: tuple[Import, ...]
    exports: tuple[Export, ...]
    limits: AccountLimits
    signing_keys: dict[str, UserLimits | None]
    revocations: dict[str, int]
    default_permissions: PermissionsOptions | None
    mappings: dict[str, tuple[Mapping, ...]]
    external_users: tuple[str, ...]
    traces: tuple[str, int] | None  # to which subject, and how many in percent


def is_revoked(revocations: dict[str, int], subject: str, issued_at: int) -> bool:
    """Was what `subject` got at that time taken back?"""
    return any(revocations.get(key, issued_at - 1) >= issued_at for key in (subject, _EVERYBODY))


def read_operator(text: str) -> OperatorClaims:
    """Decode an operator's token. Raises TokenError."""
    token = open_kind(text, "operator")
    nats = token.claims.block("nats")
    return OperatorClaims(
        *_common(token),
        audience=token.claims.text("aud"),
        signing_keys=nats.texts("signing_keys"),
        account_server_url=nats.text("account_server_url"),
        system_account=nats.text("system_account"),
        assert_server_version=nats.text("assert_server_version"),
        strict_signing_keys=nats.flag("strict_signing_key_usage"),
        raw=dict(token.claims.raw),
    )


def read_user(text: str) -> UserClaims:
    """Decode a user's token. Raises TokenError."""
    token = open_kind(text, "user")
    nats = token.claims.block("nats")
    old = token.version == 1
    issuer_account = (token.claims if old else nats).text("issuer_account")
    return UserClaims(*_common(token), may=_user_limits(nats, -1 if old else 0), issuer_account=issuer_account)


def read_activation(text: str) -> ActivationClaims:
    """Decode the token of an import. Raises TokenError."""
    token = open_kind(text, "activation")
    nats = token.claims.block("nats")
    old = token.version == 1
    return ActivationClaims(
        *_common(token),
        import_subject=nats.text("subject"),
        kind=_kind(nats, "type" if old else "kind"),
        issuer_account=(token.claims if old else nats).text("issuer_account"),
    )


def read_account(text: str) -> AccountClaims:
    """Decode an account's token. Raises TokenError."""
    token = open_kind(text, "account")
    nats = token.claims.block("nats")
    authorization, traces = nats.block("authorization"), nats.block("trace")
    return AccountClaims(
        *_common(token),
        imports=tuple(_import(entry) for entry in nats.blocks("imports")),
        exports=tuple(_export(entry) for entry in nats.blocks("exports")),
        limits=_account_limits(nats.block("limits"), old=token.version == 1),
        signing_keys=_signing_keys(nats),
        revocations=nats.integers("revocations"),
        default_permissions=_permissions(nats.block("default_permissions")),
        mappings=_mappings(nats.block("mappings")),
        external_users=authorization.texts("auth_users"),
        traces=(traces.text("dest"), traces.integer("sampling")) if "trace" in nats else None,
    )


def _common(token: Token) -> tuple[str, str, str, int, int, int, tuple[str, ...]]:
    claims = token.claims
    return (
        claims.text("sub"),
        claims.text("iss"),
        claims.text("name"),
        claims.integer("iat"),
        claims.integer("exp"),
        claims.integer("nbf"),
        (claims if token.version == 1 else claims.block("nats")).texts("tags"),
    )


def _kind(block: Fields, key: str) -> str:
    kind = block.text(key)
    if kind and kind not in _KINDS:
        raise TokenError(f'unknown export type "{kind}"')
    return kind


# --- users ---


def _user_limits(block: Fields, missing: int) -> UserLimits:
    limits = NatsLimits(block.integer("subs", missing), block.integer("payload", missing))
    data = block.integer("data", missing)  # nothing counts it, in nats-server neither
    times = tuple(TimeRange(entry.text("start"), entry.text("end")) for entry in block.blocks("times"))
    permissions = _permissions(block)
    kinds = block.texts("allowed_connection_types")
    flags = (block.flag("bearer_token"), block.flag("proxy_required"))
    sources, location = _sources(block), block.text("times_location")
    said = (permissions, limits.subscriptions, limits.payload, data, times, location, *flags, kinds)
    unset = not any(said) and not any(key in block for key in ("src", "times", "allowed_connection_types"))
    return UserLimits(permissions, limits, sources, times, location, *flags, kinds, unset)


def _sources(block: Fields) -> tuple[str, ...]:
    """A list, or a text with commas."""
    if isinstance(block.raw.get("src"), str):
        words = [word.strip().lower() for word in block.text("src").split(",")]
        return tuple(dict.fromkeys(word for word in words if word))
    return block.texts("src")


def _permissions(block: Fields) -> PermissionsOptions | None:
    """None when nothing is said of them."""
    options = PermissionsOptions(publish=_subjects(block.block("pub")), subscribe=_subjects(block.block("sub")))
    if "resp" in block:
        response = block.block("resp")
        default = ResponsePermissions()
        options.responses = ResponsePermissions(
            response.integer("max") or default.max_msgs, bounded(response.integer("ttl") / 1e9) or default.expires
        )
        # who may answer may publish nothing else, unless the token says what
        options.publish = options.publish or SubjectPermissions()
        if options.publish.allow is None:
            options.publish.allow = []
    return options if options.publish or options.subscribe or options.responses else None


def _subjects(block: Fields) -> SubjectPermissions | None:
    allow, deny = list(block.texts("allow")), list(block.texts("deny"))
    return SubjectPermissions(allow or None, deny) if allow or deny else None


# --- accounts ---


def _signing_keys(nats: Fields) -> dict[str, UserLimits | None]:
    keys: dict[str, UserLimits | None] = {}
    for entry in nats.entries("signing_keys"):
        if isinstance(entry, str):
            keys[entry] = None
            continue
        scope = Fields(entry, "signing_keys")
        if scope.text("kind") != _USER_SCOPE:
            raise TokenError(f'unknown signing key scope "{scope.text("type")}"')
        keys[scope.text("key")] = _user_limits(scope.block("template"), -1)
    return keys


def _import(entry: Fields) -> Import:
    return Import(
        kind=_kind(entry, "type"),
        account=entry.text("account"),
        subject=entry.text("subject"),
        token=entry.text("token"),
        to=entry.text("to"),
        local_subject=entry.text("local_subject"),
        share=entry.flag("share"),
        allow_trace=entry.flag("allow_trace"),
    )


def _export(entry: Fields) -> Export:
    latency = entry.block("service_latency")
    sampling = 0 if str(latency.raw.get("sampling")).lower() == "headers" else latency.integer("sampling")
    return Export(
        kind=_kind(entry, "type"),
        subject=entry.text("subject"),
        token_required=entry.flag("token_req"),
        revocations=entry.integers("revocations"),
        response_type=entry.text("response_type"),
        threshold_ns=entry.integer("response_threshold"),
        latency=(sampling, latency.text("results")) if "service_latency" in entry else None,
        token_position=entry.integer("account_token_position"),
        allow_trace=entry.flag("allow_trace"),
    )


def _account_limits(block: Fields, *, old: bool) -> AccountLimits:
    tiers = block.block("tiered_limits")
    none = Fields(None)  # version 1 knows no JetStream, and tiers replace the limits of all
    return AccountLimits(
        nats=NatsLimits(block.integer("subs"), block.integer("payload")),
        imports=block.integer("imports"),
        exports=block.integer("exports"),
        wildcard_exports=block.flag("wildcards"),
        disallow_bearer=block.flag("disallow_bearer"),
        connections=block.integer("conn"),
        leafnodes=block.integer("leaf"),
        jetstream=_jetstream_limits(none if old or tiers.raw else block),
        tiers={} if old else {name: _jetstream_limits(tiers.block(name)) for name in tiers.raw},
    )


def _jetstream_limits(block: Fields) -> JetStreamLimits:
    return JetStreamLimits(
        memory=block.integer("mem_storage"),
        storage=block.integer("disk_storage"),
        streams=block.integer("streams"),
        consumers=block.integer("consumer"),
        max_ack_pending=block.integer("max_ack_pending"),
        memory_max_stream_bytes=block.integer("mem_max_stream_bytes"),
        storage_max_stream_bytes=block.integer("disk_max_stream_bytes"),
        max_bytes_required=block.flag("max_bytes_required"),
    )


def _mappings(block: Fields) -> dict[str, tuple[Mapping, ...]]:
    return {
        source: tuple(
            Mapping(entry.text("subject"), entry.integer("weight") or 100, entry.text("cluster"))
            for entry in block.blocks(source)
        )
        for source in block.raw
    }
