"""The broker's options: what the configuration file and the command line end up in.

Names are nats-server's keys. Units stand in each field's name or comment: durations are float seconds, sizes bytes.
A value of 0 or -1 means what it means in nats-server and is said beside the field.

Dataclasses without validators: every check needs the place in the file for its message, and that is known to the
loader (:mod:`jetbroker.config.loader`) only. pydantic checks the declared types in the tests; importing it would take
half of the 0.3 seconds a start may take.
"""

import os
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from jetbroker import limits

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from jetbroker.config.block import dataclass

DEFAULT_PORT = 4222
RANDOM_PORT = -1  # as `port`: any free port
DEFAULT_LEAF_PORT = 7422  # of a remote's URL without one
DEFAULT_HOST = "0.0.0.0"
GLOBAL_ACCOUNT = "$G"
SYSTEM_ACCOUNT = "$SYS"
UNLIMITED = -1
TIER = "R1"  # of streams with one replica: there are no others
DEFAULT_CONNECT_ERROR_REPORTS = 3600
DEFAULT_RECONNECT_ERROR_REPORTS = 1


@dataclass(slots=True)
class SubjectPermissions:
    """`publish` or `subscribe` of a user. `allow` None: everything; an empty list: nothing. Deny wins over allow.

    Entries of `subscribe` may be `subject queue`.
    """

    allow: list[str] | None = None
    deny: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ResponsePermissions:
    """`allow_responses`: how often a received reply subject may be published to, and for how long (seconds).

    Negative: without that bound.
    """

    max_msgs: int = 1
    expires: float = 120.0


@dataclass(slots=True)
class PermissionsOptions:
    """`permissions {}`; None: nothing was said of it. The loader has put the defaults of block or account here."""

    publish: SubjectPermissions | None = None
    subscribe: SubjectPermissions | None = None
    responses: ResponsePermissions | None = None


@dataclass(slots=True)
class UserOptions:
    """One user of `authorization.users` or of an account: by name, or by `nkey` (public, `U...`).

    `password` may be a bcrypt hash ($2a$, $2b$, $2x$, $2y$). `connection_types` are upper case; empty: all.
    """

    user: str = ""
    password: str = ""
    nkey: str = ""
    permissions: PermissionsOptions | None = None
    connection_types: frozenset[str] = frozenset()
    proxy_required: bool = False


@dataclass(slots=True)
class AuthorizationOptions:
    """`authorization {}`: either one user and password, or one token, or a list of users."""

    user: str = ""
    password: str = ""
    token: str = ""
    timeout: float = 0.0  # for the login; 0: two seconds, with `tls {}` one more than that takes
    users: list[UserOptions] = field(default_factory=list)
    default_permissions: PermissionsOptions | None = None
    proxy_required: bool = False
    defined: bool = False  # the block is there, be it empty

    @property
    def required(self) -> bool:
        """True when a client must log in because of this block."""
        return bool(self.user or self.token or self.users)


@dataclass(slots=True)
class TlsOptions:
    """A `tls {}` block. Paths as configured; `timeout` in seconds.

    `handshake_first`: None: INFO goes first; 0.0: it never does; else it does once the client was silent for so long.
    """

    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    verify: bool = False
    verify_and_map: bool = False
    insecure: bool = False
    timeout: float = limits.TLS_TIMEOUT_SECONDS
    handshake_first: float | None = None
    min_version: str = ""  # "1.2" or "1.3"; empty: 1.2
    ciphers: list[str] = field(default_factory=list)  # Go's names; empty: the default list
    curves: list[str] = field(default_factory=list)
    certs: list[tuple[str, str]] = field(default_factory=list)  # (cert_file, key_file) pairs
    pinned_certs: frozenset[str] = frozenset()  # SHA-256 of the SPKI, lower-case hex
    connection_rate_limit: int = 0  # handshakes per second; 0: unlimited


@dataclass(slots=True)
class WebsocketOptions:
    """`websocket {}`; port 0 without `listen` means there is no listener. Durations in seconds."""

    host: str = ""  # empty: the default host
    port: int = 0
    advertise: str = ""
    no_tls: bool = False
    tls: TlsOptions | None = None
    same_origin: bool = False
    allowed_origins: list[str] = field(default_factory=list)
    handshake_timeout: float = limits.WEBSOCKET_HANDSHAKE_SECONDS
    compression: bool = False
    no_auth_user: str = ""
    user: str = ""
    password: str = ""
    token: str = ""
    auth_timeout: float = 0.0  # 0: that of `authorization`
    jwt_cookie: str = ""
    user_cookie: str = ""
    pass_cookie: str = ""
    token_cookie: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    ping_interval: float = 0.0  # 0: the server's

    @property
    def own_handshake_timeout(self) -> float:
        """That of the block; 0 where it leaves it to the default."""
        return 0.0 if self.handshake_timeout == limits.WEBSOCKET_HANDSHAKE_SECONDS else self.handshake_timeout


@dataclass(slots=True)
class LeafUser:
    """One user of `leafnodes.authorization.users`. `account` empty: the global one."""

    user: str = ""
    password: str = field(default="", repr=False)
    account: str = ""
    proxy_required: bool = False


@dataclass(slots=True)
class LeafAuthorization:
    """`leafnodes { authorization {} }`: one user and password, or one nkey, or a list of users.

    `account` is whose links are that come in as none of `users`; empty: the global account's.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    nkey: str = ""  # public, `U...`
    account: str = ""
    timeout: float = 0.0  # seconds for the login; 0: two, with `tls {}` one more than that takes
    users: list[LeafUser] = field(default_factory=list)
    proxy_required: bool = False

    @property
    def defined(self) -> bool:
        """True when links log in by this block alone; else by the server's users, nkeys or tokens."""
        return bool(self.user or self.nkey or self.users)


@dataclass(slots=True)
class LeafCompression:
    """`compression` of links: the mode ("" is the default one until the options are settled), and seconds."""

    mode: str = ""
    rtt_thresholds: list[float] = field(default_factory=list)


@dataclass(slots=True)
class LeafUrl:
    """One URL of a remote, taken apart. `host` has no brackets; `port` 0: none is given.

    `rest` is path, query and fragment as they are written. `opaque`: a URL without `//`, which names no host.
    """

    scheme: str = ""
    host: str = ""
    port: int = 0
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    rest: str = ""
    opaque: str = ""

    @property
    def is_websocket(self) -> bool:
        """A link over WebSocket."""
        return self.scheme in ("ws", "wss")


@dataclass(slots=True)
class LeafRemote:
    """One entry of `leafnodes.remotes`: a hub (`hub`: a spoke) that is dialled. Durations in seconds.

    `isolate_leafnode_interest` keeps this remote from hearing of the interest of other links; `request_isolation` asks
    the other side for the same.
    """

    urls: list[LeafUrl] = field(default_factory=list)
    account: str = ""  # local one; empty: the global account, once the options are settled
    credentials: str = ""  # path of a file
    nkey: str = field(default="", repr=False)  # seed, `SU...`
    tls: TlsOptions | None = None
    hub: bool = False
    deny_imports: list[str] = field(default_factory=list)
    deny_exports: list[str] = field(default_factory=list)
    no_randomize: bool = False
    first_info_timeout: float = 0.0  # 0: one second, once the options are settled
    dial_timeout: float = 0.0  # 0: that of `leafnodes`
    compression: LeafCompression = field(default_factory=LeafCompression)
    ws_compression: bool = False
    ws_no_masking: bool = False
    isolate_leafnode_interest: bool = False
    request_isolation: bool = False
    disabled: bool = False
    ignore_discovered_servers: bool = False


@dataclass(slots=True)
class LeafOptions:
    """`leafnodes {}`; port 0 without `listen` means there is no listener. Durations in seconds."""

    host: str = ""  # empty: the default host
    port: int = 0
    advertise: str = ""
    no_advertise: bool = False
    authorization: LeafAuthorization = field(default_factory=LeafAuthorization)
    tls: TlsOptions | None = None
    compression: LeafCompression = field(default_factory=LeafCompression)
    min_version: str = ""  # of servers that may link, `2.8.0` or higher; empty: any
    isolate_leafnode_interest: bool = False
    write_deadline: float = 0.0  # 0: the server's
    write_timeout: str = ""  # as the server's
    reconnect: float = 0.0  # 0: one second, once the options are settled
    dial_timeout: float = 0.0  # 0: one second, once the options are settled
    remotes: list[LeafRemote] = field(default_factory=list)
    defined: bool = False  # the block is there, be it empty
    default_js_domain: dict[str, str] = field(default_factory=dict)  # by account; of the top level

    @property
    def enabled(self) -> bool:
        """True when there may be links at all: somebody listens for them, or dials."""
        return bool(self.port or self.remotes)


@dataclass(slots=True)
class MappingDestination:
    """Where a mapping leads: a subject with transform functions, and how many percent go there."""

    subject: str
    weight: int = 100
    cluster: str = ""


@dataclass(slots=True)
class MappingOptions:
    """One entry of `mappings {}`. accounts.graph checks what it says, with `place` (`file:line:column`) for its errors.

    `plain`: the file has just the destination's text, without a weight.
    """

    source: str
    destinations: list[MappingDestination] = field(default_factory=list)
    plain: bool = False
    place: str = ""


@dataclass(slots=True)
class ActivationOptions:
    """What an import's token proves: who let `importer` import `subject`. Seconds since 1970; `expires` 0: never.

    `issuer_account` is empty where the exporter's own key has signed, else `issuer` is one of its signing keys.
    """

    importer: str
    subject: str
    issuer: str
    issuer_account: str
    issued_at: int
    expires: int


@dataclass(slots=True)
class ExportOptions:
    """One entry of `exports []`. `kind` is "stream" or "service"; `accounts` None: public. Durations in seconds.

    `activated` (operator mode): an import needs a token that one of the `signers` has signed, and that is not revoked.
    """

    kind: str
    subject: str
    accounts: list[str] | None = None
    token_position: int = 0  # 1-based; 0: none
    response_type: str = "Singleton"  # or "Stream", "Chunked"
    response_threshold: float = 0.0  # 0: two minutes
    place: str = ""  # `file:line:column`, for errors that only show once all accounts are known
    activated: bool = False
    signers: frozenset[str] = frozenset()
    revocations: dict[str, int] = field(default_factory=dict)
    traced: bool = False  # allow_trace


@dataclass(slots=True)
class ImportOptions:
    """One entry of `imports []`. `subject` is the exporter's, `to` the local one (empty: the same).

    A stream may have a `prefix` instead of `to`.
    """

    kind: str
    account: str
    subject: str
    to: str = ""
    prefix: str = ""
    share: bool = False
    place: str = ""
    activation: ActivationOptions | None = None
    traced: bool = False  # allow_trace


@dataclass(slots=True)
class AccountLimits:
    """`limits {}` of an account; -1: none of its own."""

    max_connections: int = UNLIMITED
    max_subscriptions: int = UNLIMITED
    max_payload: int = UNLIMITED
    max_leafnodes: int = UNLIMITED


NO_LIMITS = AccountLimits()


@dataclass(slots=True)
class AccountJetStreamOptions:
    """`jetstream` of an account. Sizes in bytes; -1: no limit of its own.

    `tiers` (operator mode): limits by replicas. Of those only R1, streams with one, can be here: its limits are the
    account's then. No other tier lets a stream be made.
    """

    enabled: bool = True
    max_memory: int = UNLIMITED
    max_store: int = UNLIMITED
    max_streams: int = UNLIMITED
    max_consumers: int = UNLIMITED
    max_ack_pending: int = UNLIMITED
    max_bytes_required: bool = False
    memory_max_stream_bytes: int = UNLIMITED
    store_max_stream_bytes: int = UNLIMITED
    tiers: "dict[str, AccountJetStreamOptions]" = field(default_factory=dict)


class TraceOptions(NamedTuple):
    """Where messages with a traceparent are traced to, and how many of those that clients publish, in percent."""

    destination: bytes
    sampling: int = 100


@dataclass(slots=True)
class AccountOptions:
    """One entry of `accounts {}`, or what an account's token says.

    `jetstream` is None when the account has no entry of that name; `tag` is the name its token gives it.
    """

    name: str
    users: list[UserOptions] = field(default_factory=list)
    jetstream: AccountJetStreamOptions | None = None
    nkey: str = ""
    exports: list[ExportOptions] = field(default_factory=list)
    imports: list[ImportOptions] = field(default_factory=list)
    mappings: list[MappingOptions] = field(default_factory=list)
    limits: AccountLimits = field(default_factory=AccountLimits)
    traces: TraceOptions | None = None
    tag: str = ""


@dataclass(slots=True)
class OperatorOptions:
    """Operator mode: accounts and users are what tokens say. Tokens as texts; keys are public nkeys.

    `trusted_keys` may sign accounts; with operators they are taken from their tokens. Of `strict_keys` (keys of
    operators who want that) comes: accounts signed by them let in only users of their signing keys.
    """

    tokens: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    trusted_keys: list[str] = field(default_factory=list)
    strict_keys: frozenset[str] = frozenset()
    resolver: str = ""  # "MEMORY", or none
    default_sentinel: str = ""  # token of clients that send none
    preload: dict[str, str] = field(default_factory=dict)  # tokens by account
    pinned_accounts: frozenset[str] | None = None  # None: users of all accounts may come

    @property
    def enabled(self) -> bool:
        """Are clients known by tokens?"""
        return bool(self.trusted_keys)


@dataclass(slots=True)
class BatchOptions:
    """`jetstream { limits { batch {} } }`: of batches. 0 and below: nats-server's default."""

    max_msgs: int = 0
    max_inflight_per_stream: int = 0
    max_inflight_total: int = 0
    timeout: float = 0.0  # seconds without a message until a batch is given up


@dataclass(slots=True)
class LimitOptions:
    """`jetstream { limits {} }`, for all accounts; 0 and below: no limit.

    `duplicate_window` in seconds. `max_ha_assets` bounds what has replicas: a server without a cluster has none.
    """

    max_request_batch: int = 0
    max_ack_pending: int = 0
    max_ha_assets: int = 0
    duplicate_window: float = 0.0
    batches: BatchOptions = field(default_factory=BatchOptions)


@dataclass(slots=True)
class ShipOptions:
    """`jetstream { ship {} }`: a copy of the store elsewhere. Times in seconds; `rate`: bytes a second, -1: any."""

    url: str = ""
    interval: float = 60.0
    rate: int = 50 * 1024 * 1024
    unsealed: bool = False
    check: bool = False
    keep_dropped: float = 3600.0


@dataclass(slots=True)
class JetStreamOptions:
    """`jetstream {}`. Sizes in bytes; -1: taken from the machine (75% of memory, 75% of the free disk)."""

    enabled: bool = False
    store_dir: str = ""  # as configured; the store itself is `store_dir`/jetstream, see Options.store_path
    max_memory_store: int = UNLIMITED
    max_file_store: int = UNLIMITED
    sync_interval: float | None = None  # None: `always`, an ack means the message is on disk; else seconds
    domain: str = ""
    strict: bool = True  # refuse API requests with unknown fields
    max_buffered_msgs: int = 0  # accepted, without effect yet (checks.warnings says so)
    max_buffered_size: int = 0  # the same
    request_queue_limit: int = 0  # requests of an account that may wait; 0 and below: nats-server's 10,000
    info_queue_limit: int = 0  # INFO, NAMES and LIST; 0 and below: as many as others
    max_outstanding_catchup: int = 0  # of clusters: without effect
    tech_preview_api: bool = False  # the subjects of 2020, too
    limits: LimitOptions = field(default_factory=LimitOptions)
    ship: ShipOptions | None = None

    @property
    def queue_limits(self) -> tuple[int, int]:
        """How many requests of an account may wait: those that change something, and those that ask."""
        most = self.request_queue_limit if self.request_queue_limit > 0 else limits.JS_API_QUEUE_REQUESTS
        return most, self.info_queue_limit if self.info_queue_limit > 0 else most


@dataclass(slots=True)
class MonitoringOptions:
    """What the monitoring port answers, wherever it is."""

    base_path: str = ""  # before all paths
    dashboard: bool = False  # a page for people, at /dashboard
    dashboard_hosts: list[str] = field(default_factory=list)  # names it is asked for by, besides addresses


@dataclass(slots=True)
class Options:
    """Everything the broker is told from outside. Plain values; nothing here opens a file or a socket."""

    # where they came from
    config_file: str = ""
    config_digest: str = ""  # `sha256:<hex>` of the parsed configuration; empty without a file

    # listening
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    server_name: str = ""  # empty: the server's id
    server_tags: list[str] = field(default_factory=list)
    server_metadata: dict[str, str] = field(default_factory=dict)
    client_advertise: str = ""  # `host[:port]` that INFO shows instead of the listener's
    proxy_protocol: bool = False  # every client connection begins with a PROXY header, version 1 or 2
    tls: TlsOptions | None = None
    allow_non_tls: bool = False
    websocket: WebsocketOptions = field(default_factory=WebsocketOptions)
    leafnodes: LeafOptions = field(default_factory=LeafOptions)

    # monitoring
    http_host: str = ""  # empty: `host`
    http_port: int = 0  # 0: no monitoring; -1: any free port
    https_host: str = ""
    https_port: int = 0  # as http_port; with the certificate of `tls {}`
    monitoring: MonitoringOptions = field(default_factory=MonitoringOptions)

    # logging and run files
    debug: bool = False
    trace: bool = False
    trace_verbose: bool = False  # the system account's traffic too
    trace_headers: bool = False  # headers only, no payload
    max_traced_msg_len: int = 0  # bytes of a payload that the trace shows; 0: all
    log_size_limit: int = 0  # bytes; the file is rotated there; 0: never
    log_max_num: int = 0  # rotated files that are kept; 0: all
    syslog: bool = False
    remote_syslog: str = ""  # `udp://host:port` or `tcp://host:port`
    connect_error_reports: int = DEFAULT_CONNECT_ERROR_REPORTS
    reconnect_error_reports: int = DEFAULT_RECONNECT_ERROR_REPORTS
    logtime: bool = True
    logtime_utc: bool = False
    log_file: str = ""
    pid_file: str = ""
    ports_file_dir: str = ""

    # limits
    max_control_line: int = limits.MAX_CONTROL_LINE_BYTES
    max_payload: int = limits.MAX_PAYLOAD_BYTES  # negative: unlimited
    max_pending: int = limits.MAX_PENDING_BYTES
    max_connections: int = limits.MAX_CONNECTIONS  # negative: nobody can come (0 in the file, too)
    max_subscriptions: int = 0  # per connection; 0: unlimited
    max_sub_tokens: int = 0  # 0: unlimited
    no_header_support: bool = False
    no_fast_producer_stall: bool = False
    disable_sublist_cache: bool = False
    max_closed_clients: int = limits.CLOSED_CONNECTIONS  # remembered for monitoring

    # timers
    ping_interval: float = limits.PING_INTERVAL_SECONDS
    ping_max: int = limits.PING_MAX_OUTSTANDING
    write_deadline: float = limits.WRITE_DEADLINE_SECONDS
    write_timeout: str = ""  # "close" or "retry"; both mean the same here
    lame_duck_duration: float = limits.LAME_DUCK_DURATION_SECONDS
    lame_duck_grace_period: float = limits.LAME_DUCK_GRACE_SECONDS

    # who may do what
    authorization: AuthorizationOptions = field(default_factory=AuthorizationOptions)
    accounts: dict[str, AccountOptions] = field(default_factory=dict)
    no_auth_user: str = ""
    mappings: list[MappingOptions] = field(default_factory=list)  # of $G
    no_system_account: bool = False
    system_account: str = ""  # empty: $SYS
    operator: OperatorOptions = field(default_factory=OperatorOptions)

    jetstream: JetStreamOptions = field(default_factory=JetStreamOptions)

    # the command line's part, applied again after each reload of the file: (field, value), nested fields dotted
    flags: list[tuple[str, str | int | float | bool]] = field(default_factory=list)

    @property
    def auth_required(self) -> bool:
        """True when clients must log in: credentials, account users or operators are configured."""
        if self.operator.enabled:
            return True
        return self.authorization.required or any(account.users for account in self.accounts.values())

    def limits_of(self, account: str) -> AccountLimits:
        """The configured limits of an account, by its name."""
        configured = self.accounts.get(account)
        return NO_LIMITS if configured is None else configured.limits

    @property
    def has_system_account(self) -> bool:
        """Does anybody answer to `$SYS.`? JetStream needs the account, whatever `no_system_account` says."""
        if self.system_account or SYSTEM_ACCOUNT in self.accounts:
            return True
        return not self.operator.enabled and (self.jetstream.enabled or not self.no_system_account)

    @property
    def uses_sharing(self) -> bool:
        """True when there are mappings, or accounts that give each other something."""
        accounts = self.accounts.values()
        return bool(self.mappings) or any(one.mappings or one.exports or one.imports for one in accounts)

    def all_users(self) -> list[UserOptions]:
        """The users of `authorization` and of all accounts; the one of `authorization.user` is not among them."""
        return [*self.authorization.users, *(user for account in self.accounts.values() for user in account.users)]

    @property
    def store_path(self) -> str:
        """The directory of the store, `/jetstream` appended as nats-server does."""
        base = self.jetstream.store_dir
        if not base:
            import tempfile  # its imports cost start-up time

            base = os.path.join(tempfile.gettempdir(), "nats")
        return os.path.join(base, "jetstream")


class Loaded:
    """What a configuration says: the options, and what is worth telling but stops no start (`-t` counts it).

    `is_empty`: there is a file, with nothing in it.
    """

    def __init__(self, options: Options, notices: list[str], *, is_empty: bool = False) -> None:
        self.options = options
        self.notices = notices
        self.is_empty = is_empty
