"""The broker's options: what the configuration file and the command line end up in.

Names are nats-server's keys. Units stand in each field's name or comment: durations are float seconds, sizes bytes.
A value of 0 or -1 means what it means in nats-server and is said beside the field.

Plain dataclasses without validators: every check needs the place in the file for its message, and that is known to the
loader (:mod:`jetbroker.config.loader`) only. pydantic checks the declared types in the tests; importing it would take
half of the 0.3 seconds a start may take.
"""

import os
from dataclasses import dataclass, field

from jetbroker import limits

DEFAULT_PORT = 4222
RANDOM_PORT = -1  # as `port`: any free port
DEFAULT_HOST = "0.0.0.0"
GLOBAL_ACCOUNT = "$G"
SYSTEM_ACCOUNT = "$SYS"
UNLIMITED = -1


@dataclass(slots=True)
class UserOptions:
    """One user of `authorization.users` or of an account. `password` may be a bcrypt hash ($2a$, $2b$, $2x$, $2y$)."""

    user: str = ""
    password: str = ""


@dataclass(slots=True)
class AuthorizationOptions:
    """`authorization {}`: either one user and password, or one token, or a list of users."""

    user: str = ""
    password: str = ""
    token: str = ""
    timeout: float = limits.AUTH_TIMEOUT_SECONDS
    users: list[UserOptions] = field(default_factory=list)

    @property
    def required(self) -> bool:
        """True when a client must log in because of this block."""
        return bool(self.user or self.token or self.users)


@dataclass(slots=True)
class AccountJetStreamOptions:
    """`jetstream` of an account. Sizes in bytes; -1: no limit of its own."""

    enabled: bool = True
    max_memory: int = UNLIMITED
    max_store: int = UNLIMITED
    max_streams: int = UNLIMITED
    max_consumers: int = UNLIMITED
    max_ack_pending: int = UNLIMITED
    max_bytes_required: bool = False
    memory_max_stream_bytes: int = UNLIMITED
    store_max_stream_bytes: int = UNLIMITED


@dataclass(slots=True)
class AccountOptions:
    """One entry of `accounts {}`. `jetstream` is None when the account has no entry of that name."""

    name: str
    users: list[UserOptions] = field(default_factory=list)
    jetstream: AccountJetStreamOptions | None = None


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

    # monitoring
    http_host: str = ""  # empty: `host`
    http_port: int = 0  # 0: no monitoring; -1: any free port
    http_base_path: str = ""

    # logging and run files
    debug: bool = False
    trace: bool = False
    logtime: bool = True
    logtime_utc: bool = False
    log_file: str = ""
    pid_file: str = ""
    ports_file_dir: str = ""

    # limits
    max_control_line: int = limits.MAX_CONTROL_LINE_BYTES
    max_payload: int = limits.MAX_PAYLOAD_BYTES  # negative: unlimited
    max_pending: int = limits.MAX_PENDING_BYTES
    max_connections: int = limits.MAX_CONNECTIONS  # negative: unlimited
    max_subscriptions: int = 0  # per connection; 0: unlimited
    max_closed_clients: int = limits.CLOSED_CONNECTIONS  # remembered for monitoring

    # timers
    ping_interval: float = limits.PING_INTERVAL_SECONDS
    ping_max: int = limits.PING_MAX_OUTSTANDING
    write_deadline: float = limits.WRITE_DEADLINE_SECONDS
    lame_duck_duration: float = limits.LAME_DUCK_DURATION_SECONDS
    lame_duck_grace_period: float = limits.LAME_DUCK_GRACE_SECONDS

    # who may do what
    authorization: AuthorizationOptions = field(default_factory=AuthorizationOptions)
    accounts: dict[str, AccountOptions] = field(default_factory=dict)
    no_auth_user: str = ""
    system_account: str = ""  # empty: $SYS

    jetstream: JetStreamOptions = field(default_factory=JetStreamOptions)

    # the command line's part, applied again after each reload of the file: (field, value), nested fields dotted
    flags: list[tuple[str, str | int | float | bool]] = field(default_factory=list)

    @property
    def auth_required(self) -> bool:
        """True when clients must log in: credentials or account users are configured."""
        return self.authorization.required or any(account.users for account in self.accounts.values())

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
