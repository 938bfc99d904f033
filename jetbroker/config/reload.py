"""What a reload of the configuration changes, and what it may not change. Pure: options in, changes out.

The rows stand in the order in which nats-server looks at its options: of several that may not change the first one is
named, and the log's lines come in this order.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from jetbroker import limits
from jetbroker.config.advertise import advertised
from jetbroker.config.durations import format_duration
from jetbroker.config.options import SYSTEM_ACCOUNT, Options, ShipOptions, TlsOptions, UserOptions, WebsocketOptions
from jetbroker.errors import ConfigError
from jetbroker.forms.sizes import friendly_bytes

if TYPE_CHECKING:
    from jetbroker.config.leaf_reload import LeafChanges

_SYNC_SECONDS = 120.0  # nats-server's interval where it syncs always
REDACTED = "[REDACTED]"


class Change(NamedTuple):
    """One option that changes: what it is called here, and the log's line about it ("": none)."""

    name: str
    line: str
    links: "LeafChanges | None" = None  # what to do with them


class NotReloadableError(ConfigError):
    """The new configuration changes what only a restart can change."""


Reader: TypeAlias = Callable[[Options], Any]
Writer: TypeAlias = Callable[[Any], str]
Judge: TypeAlias = Callable[[Options, Options], bool]


class Row(NamedTuple):
    """An option: its name here and in nats-server, how to read it, the line about it (None: it may not change).

    `differs` judges old and new options where comparing the values is not enough; it may refuse by itself.
    """

    name: str
    theirs: str
    read: Reader
    line: Writer | None = None
    differs: Judge | None = None


def changes(old: Options, new: Options, *, certificates_changed: bool = False) -> list[Change]:
    """What a reload has to do, in order. Raises :class:`NotReloadableError`.

    `certificates_changed`: the files that `tls {}` names hold something else than before.
    """
    found: list[Change] = []
    for row in _ROWS:
        if row.name == "leafnodes":
            found += _changes_of_links(old, new)
            continue
        differs = row.differs(old, new) if row.differs else row.read(old) != row.read(new)
        if row.name == "tls" and new.tls is not None and (certificates_changed or new.tls.ca_file):
            differs = True  # authorities are always told of, as if they were others
        if not differs:
            continue
        after = row.read(new)
        if row.line is None:
            before = shown(row.read(old))
            raise NotReloadableError(f"config reload not supported for {row.theirs}: old={before}, new={shown(after)}")
        found.append(Change(row.name, row.line(after)))
    return found


def _changes_of_links(old: Options, new: Options) -> list[Change]:
    if not (old.leafnodes.defined or new.leafnodes.defined):
        return []
    from jetbroker.config.leaf_reload import leaf_changes  # what it needs is not loaded without the block

    try:
        found = leaf_changes(old.leafnodes, new.leafnodes)
    except ConfigError as error:
        raise NotReloadableError(f"config reload not supported for LeafNode: {error}") from None
    return [] if found is None else [Change("leafnodes", "", found), *(Change("", line) for line in found.lines)]


def shown(value: Any) -> str:
    """A value as Go's `%v` shows it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


# --- how values are written ---


def _said(name: str) -> Writer:
    return lambda value: f"Reloaded: {name} = {shown(value)}"


def _named(text: str) -> Writer:
    return lambda value: f"Reloaded: {text}"


# --- how values are read ---


def _attribute(path: str) -> Reader:
    names = path.split(".")

    def read(options: Options) -> Any:
        value: Any = options
        for name in names:
            value = getattr(value, name)
        return value

    return read


def _duration(path: str) -> Reader:
    read = _attribute(path)
    return lambda options: format_duration(read(options))


def _of_tls(read: Callable[[TlsOptions], Any], without: Any = None) -> Reader:
    return lambda options: without if options.tls is None else read(options.tls)


def _tls_settings(tls: TlsOptions) -> tuple[object, ...]:
    """What a TLS context is made of."""
    files = (tls.cert_file, tls.key_file, tls.ca_file, tuple(tls.certs))
    return (*files, tls.verify, tls.insecure, tls.min_version, tuple(tls.ciphers), tuple(tls.curves))


def _handshake_first(tls: TlsOptions) -> bool:
    return tls.handshake_first is not None


def _first_fallback(tls: TlsOptions) -> str:
    return format_duration(tls.handshake_first or 0.0)


def _websocket(options: Options) -> str:
    """The block as nats-server shows it, secrets left out. Its certificates may change, so they are no part of it."""
    block = options.websocket
    shape = (
        f"{{{block.host} {block.port} {block.advertise} {block.no_auth_user} {block.jwt_cookie} {block.user_cookie} "
        f"{block.pass_cookie} {block.token_cookie} {block.user} {_secret(block.password)} {_secret(block.token)} "
        f"{block.auth_timeout:g} {shown(block.no_tls)} "
    )
    tls = block.tls
    pins = " ".join(f"{pin}:{{}}" for pin in sorted(tls.pinned_certs)) if tls else ""
    handshake = format_duration(block.own_handshake_timeout)
    return shape + (
        f"<nil> {shown(bool(tls and tls.verify_and_map))} map[{pins}] {shown(block.same_origin)} "
        f"[{' '.join(sorted(block.allowed_origins))}] {shown(block.compression)} {handshake} "
        f"{format_duration(block.ping_interval)} map[{_pairs(block.headers)}] <nil>}}"
    )


def _secret(text: str) -> str:
    return REDACTED if text else ""


def _pairs(values: dict[str, str]) -> str:
    return " ".join(f"{name}:{value}" for name, value in sorted(values.items()))


def _default_domains(options: Options) -> str:
    return f"map[{_pairs(options.leafnodes.default_js_domain)}]"


def _sync_always(options: Options) -> bool:
    return options.jetstream.sync_interval is None


def _sync_interval(options: Options) -> str:
    seconds = options.jetstream.sync_interval
    return format_duration(_SYNC_SECONDS if seconds is None else seconds)


# --- rules of their own ---


def _always(old: Options, new: Options) -> bool:
    """Users and accounts are gone through at each reload."""
    return True


def _nkeys_differ(old: Options, new: Options) -> bool:
    """Those of accounts count as new each time, as in nats-server."""
    if any(user.nkey for options in (old, new) for account in options.accounts.values() for user in account.users):
        return True
    before, after = ([user for user in options.authorization.users if user.nkey] for options in (old, new))
    return sorted(before, key=_nkey) != sorted(after, key=_nkey)


def _nkey(user: UserOptions) -> str:
    return user.nkey


def _no_auth_user_differs(old: Options, new: Options) -> bool:
    """It may only go, and only together with the user it names."""
    if not new.no_auth_user:
        return any(user.user == old.no_auth_user for user in new.all_users() if user.user)
    return old.no_auth_user != new.no_auth_user


def _keys_differ(old: Options, new: Options) -> bool:
    """Those of operators count as their tokens do."""
    return not old.operator.tokens and old.operator.trusted_keys != new.operator.trusted_keys


def _operators_differ(old: Options, new: Options) -> bool:
    return sorted(old.operator.tokens) != sorted(new.operator.tokens)


def _resolver_differs(old: Options, new: Options) -> bool:
    """Accounts are gone through at each reload, but they come from where they came from."""
    if old.operator.resolver != new.operator.resolver:
        raise NotReloadableError("config reload does not support moving to or from an account resolver")
    return bool(new.operator.resolver)


def _system_account_differs(old: Options, new: Options) -> bool:
    """The default one may be named or not."""
    if old.system_account == SYSTEM_ACCOUNT and not new.system_account:
        return False
    return old.system_account != new.system_account


def _bounds_differ(field: str) -> Judge:
    """`max_mem` and `max_file` of a JetStream that stays on may grow, nothing else."""

    def differs(old: Options, new: Options) -> bool:
        before, after = getattr(old.jetstream, field), getattr(new.jetstream, field)
        if not (old.jetstream.enabled and new.jetstream.enabled) or before == after:
            return False
        if before < 0:
            what = "jetstream dynamic max memory and store"
        elif after < 0:
            what = "jetstream max memory and max store"
        elif after < before:
            what = "decreasing jetstream max memory and store"
        else:
            return True
        raise NotReloadableError(f"config reload not supported for {what}")

    return differs


def _store_dir_differs(old: Options, new: Options) -> bool:
    """It cannot change while there is a JetStream; without one it does not matter."""
    before, after = old.jetstream, new.jetstream
    if before.store_dir != after.store_dir and before.enabled and (after.enabled or after.store_dir):
        what = "storage directory" if after.store_dir else "storage dir"
        raise NotReloadableError(f"config reload not supported for jetstream {what}")
    return False


def _websocket_differs(old: Options, new: Options) -> bool:
    """Its certificates may change, not more."""
    return _without_certificates(old.websocket) != _without_certificates(new.websocket)


def _without_certificates(block: WebsocketOptions) -> WebsocketOptions:
    tls = block.tls
    kept = TlsOptions(verify_and_map=tls.verify_and_map, pinned_certs=tls.pinned_certs) if tls else TlsOptions()
    return replace(block, tls=kept, allowed_origins=sorted(block.allowed_origins))


def _grown(name: str) -> Writer:
    return lambda size: f"Reloaded: JetStream {name} = {friendly_bytes(size)}"


def _stall(value: bool) -> str:
    return f"Reloaded: fast producers will {'not ' if value else ''}be stalled"


def _advertise(value: str) -> str:
    if value:
        try:
            advertised(value, 0)
        except ConfigError as error:
            raise NotReloadableError(f"invalid ClientAdvertise value of {value}, err={error}") from None
    return f"Reload: client_advertise = {value}"


def _ship(value: ShipOptions | None) -> str:
    return f"Reloaded: jetstream ship = {'disabled' if value is None else value.url}"


def _pid_file(value: str) -> str:
    return f"Reloaded: pid_file = {value}" if value else ""


def _tls(value: object) -> str:
    return f"Reloaded: tls = {'disabled' if value is None else 'enabled'}"


def _plain(path: str, theirs: str, line: Writer | None = None) -> Row:
    return Row(path, theirs, _attribute(path), line)


def _said_row(path: str, theirs: str, name: str = "") -> Row:
    return Row(path, theirs, _attribute(path), _said(name or path))


def _bounds(field: str, name: str) -> Row:
    path = f"jetstream.{field}"
    return Row(path, field, _attribute(path), _grown(name), _bounds_differ(field))


def _jetstream_limits(options: Options) -> str:
    """As nats-server shows all of them."""
    all_of = options.jetstream.limits
    batches = all_of.batches
    numbers = f"{all_of.max_request_batch} {all_of.max_ack_pending} {all_of.max_ha_assets}"
    of_batches = f"{batches.max_inflight_per_stream} {batches.max_inflight_total} {batches.max_msgs}"
    durations = format_duration(all_of.duplicate_window), format_duration(batches.timeout)
    return f"{{{numbers} {durations[0]} {of_batches} {durations[1]}}}"


_ROWS: tuple[Row, ...] = (
    _plain("server_name", "ServerName"),
    _plain("host", "Host"),
    _plain("port", "Port"),
    _plain("client_advertise", "ClientAdvertise", _advertise),
    _said_row("trace", "Trace"),
    _said_row("debug", "Debug"),
    _said_row("trace_verbose", "TraceVerbose"),
    _said_row("trace_headers", "TraceHeaders"),
    _plain("disable_sublist_cache", "NoSublistCache"),
    _plain("no_header_support", "NoHeaderSupport"),
    _said_row("logtime", "Logtime"),
    _said_row("logtime_utc", "LogtimeUTC"),
    _said_row("max_connections", "MaxConn"),
    _plain("max_subscriptions", "MaxSubs"),
    _plain("max_sub_tokens", "MaxSubTokens"),
    Row("nkeys", "Nkeys", Options.all_users, _named("authorization nkey users"), _nkeys_differ),
    Row("users", "Users", Options.all_users, _named("authorization users"), _always),
    Row("accounts", "Accounts", _attribute("accounts"), _named("accounts"), _always),
    Row("no_auth_user", "NoAuthUser", _attribute("no_auth_user"), differs=_no_auth_user_differs),
    _said_row("operator.default_sentinel", "DefaultSentinel", "default_sentinel"),
    Row("system_account", "SystemAccount", _attribute("system_account"), differs=_system_account_differs),
    _plain("no_system_account", "NoSystemAccount"),
    _plain("authorization.user", "Username", _named("authorization username")),
    _plain("authorization.password", "Password", _named("authorization password")),
    _plain("authorization.proxy_required", "ProxyRequired"),
    _plain("proxy_protocol", "ProxyProtocol"),
    _plain("authorization.token", "Authorization", _named("authorization token")),
    Row("ping_interval", "PingInterval", _duration("ping_interval"), _said("ping_interval")),
    _said_row("ping_max", "MaxPingsOut"),
    _plain("http_host", "HTTPHost"),
    _plain("http_port", "HTTPPort"),
    _plain("monitoring.base_path", "HTTPBasePath"),
    _plain("https_port", "HTTPSPort"),
    _said_row("monitoring.dashboard", "Dashboard", "dashboard"),
    _plain("monitoring.dashboard_hosts", "DashboardHosts", _named("dashboard_hosts")),
    _said_row("authorization.timeout", "AuthTimeout", "authorization timeout"),
    _said_row("max_control_line", "MaxControlLine"),
    _said_row("max_payload", "MaxPayload"),
    _plain("max_pending", "MaxPending"),
    _plain("no_fast_producer_stall", "NoFastProducerStall", _stall),
    _plain("leafnodes", "LeafNode"),  # see _changes_of_links
    _plain("jetstream.enabled", "JetStream", _named("JetStream")),
    Row("jetstream.strict", "NoJetStreamStrict", lambda options: not options.jetstream.strict),
    _bounds("max_memory_store", "max_mem_store"),
    _bounds("max_file_store", "max_file_store"),
    _plain("jetstream.domain", "JetStreamDomain"),
    Row("jetstream.limits", "JetStreamLimits", _jetstream_limits),
    _plain("jetstream.tech_preview_api", "TechPreviewAPI"),
    _plain("jetstream.max_outstanding_catchup", "JetStreamMaxCatchup"),
    Row(
        "jetstream.request_queue_limit", "JetStreamRequestQueueLimit", lambda options: options.jetstream.queue_limits[0]
    ),
    Row("jetstream.info_queue_limit", "JetStreamInfoQueueLimit", lambda options: options.jetstream.queue_limits[1]),
    _plain("jetstream.max_buffered_msgs", "StreamMaxBufferedMsgs"),
    _plain("jetstream.max_buffered_size", "StreamMaxBufferedSize"),
    Row("jetstream.store_dir", "StoreDir", _attribute("jetstream.store_dir"), differs=_store_dir_differs),
    Row("jetstream.sync_interval", "SyncInterval", _sync_interval),
    Row("jetstream.sync_always", "SyncAlways", _sync_always),
    _plain("jetstream.ship", "Ship", _ship),
    Row("default_js_domain", "JsAccDefaultDomain", _default_domains),
    Row("websocket", "Websocket", _websocket, differs=_websocket_differs),
    _plain("pid_file", "PidFile", _pid_file),
    _said_row("ports_file_dir", "PortsFileDir"),
    _said_row("log_file", "LogFile"),
    _plain("log_size_limit", "LogSizeLimit"),
    _plain("log_max_num", "LogMaxFiles"),
    _said_row("syslog", "Syslog"),
    _said_row("remote_syslog", "RemoteSyslog"),
    Row(
        "tls.timeout", "TLSTimeout", _of_tls(lambda tls: tls.timeout, limits.TLS_TIMEOUT_SECONDS), _said("tls timeout")
    ),
    Row("tls.verify_and_map", "TLSMap", _of_tls(lambda tls: tls.verify_and_map, without=False)),
    Row("tls", "TLSConfig", _of_tls(_tls_settings), _tls),
    Row(
        "tls.pinned_certs",
        "TLSPinnedCerts",
        _of_tls(lambda tls: tls.pinned_certs, frozenset()),
        lambda value: f"Reloaded: {len(value)} pinned_certs",
    ),
    Row("tls.connection_rate_limit", "TLSRateLimit", _of_tls(lambda tls: tls.connection_rate_limit, 0)),
    Row(
        "tls.handshake_first",
        "TLSHandshakeFirst",
        _of_tls(_handshake_first, without=False),
        lambda value: f"Reloaded: Client TLS handshake first: {shown(value)}",
    ),
    Row(
        "tls.handshake_first_fallback",
        "TLSHandshakeFirstFallback",
        _of_tls(_first_fallback, "0s"),
        lambda value: f"Reloaded: Client TLS handshake first fallback delay: {value}",
    ),
    _plain("allow_non_tls", "AllowNonTLS"),
    Row("write_deadline", "WriteDeadline", _duration("write_deadline"), _said("write_deadline")),
    _plain("write_timeout", "WriteTimeout"),
    _plain("max_closed_clients", "MaxClosedClients"),
    Row("lame_duck_duration", "LameDuckDuration", _duration("lame_duck_duration")),
    Row("lame_duck_grace_period", "LameDuckGracePeriod", _duration("lame_duck_grace_period")),
    _said_row("max_traced_msg_len", "MaxTracedMsgLen"),
    _said_row("connect_error_reports", "ConnectErrorReports"),
    _said_row("reconnect_error_reports", "ReconnectErrorReports"),
    Row("operator.trusted_keys", "TrustedKeys", _attribute("operator.trusted_keys"), differs=_keys_differ),
    Row("operator.tokens", "TrustedOperators", _attribute("operator.names"), differs=_operators_differ),
    Row("operator.resolver", "AccountResolver", _attribute("operator"), _named("accounts"), _resolver_differs),
    _plain("server_tags", "Tags", _named("tags")),
    _plain("server_metadata", "Metadata", _named("metadata")),
)
