"""What must hold before the broker starts: the checks nats-server makes at start only, not in `-t`.

:func:`settle` comes first: a value of 0 means "the default" for most options, as in nats-server.
"""

from jetbroker import limits
from jetbroker.config.certificate_users import can_be_mapped, mapped_types
from jetbroker.config.durations import format_duration
from jetbroker.config.nkeys import is_public_key
from jetbroker.config.no_auth_user import check_no_auth_user
from jetbroker.config.options import (
    DEFAULT_CONNECT_ERROR_REPORTS,
    DEFAULT_HOST,
    DEFAULT_PORT,
    DEFAULT_RECONNECT_ERROR_REPORTS,
    GLOBAL_ACCOUNT,
    SYSTEM_ACCOUNT,
    Options,
    TlsOptions,
)
from jetbroker.config.subjects import is_valid_subject
from jetbroker.errors import ConfigError
from jetbroker.forms.gotext import quoted

_MAX_PORT = 65_535
_INVALID_PORT = "listen tcp: address {}: invalid port"
_HIGH_PAYLOAD_BYTES = 8 * 1024 * 1024
_BCRYPT_VARIANTS = "abxy"
_BCRYPT_PREFIX_LENGTH = 7  # $2a$10$
_ZERO_MEANS: dict[str, int | float | str] = {
    "host": DEFAULT_HOST,
    "port": DEFAULT_PORT,
    "max_control_line": limits.MAX_CONTROL_LINE_BYTES,
    "max_payload": limits.MAX_PAYLOAD_BYTES,
    "max_pending": limits.MAX_PENDING_BYTES,
    "max_connections": limits.MAX_CONNECTIONS,
    "max_closed_clients": limits.CLOSED_CONNECTIONS,
    "ping_interval": limits.PING_INTERVAL_SECONDS,
    "ping_max": limits.PING_MAX_OUTSTANDING,
    "write_deadline": limits.WRITE_DEADLINE_SECONDS,
    "lame_duck_duration": limits.LAME_DUCK_DURATION_SECONDS,
    "lame_duck_grace_period": limits.LAME_DUCK_GRACE_SECONDS,
    "connect_error_reports": DEFAULT_CONNECT_ERROR_REPORTS,
    "reconnect_error_reports": DEFAULT_RECONNECT_ERROR_REPORTS,
}
_TLS_LOGIN_SECONDS = 1.0  # for the login behind a handshake that may take all of its time
# nats-server starts with these below zero, and then no client gets anywhere.
_NOT_NEGATIVE = ("max_control_line", "ping_interval", "ping_max", "write_deadline")


def settle(options: Options) -> None:
    """Put the defaults where the configuration says 0 or nothing."""
    for field, default in _ZERO_MEANS.items():
        if not getattr(options, field):
            setattr(options, field, default)
    leafnodes = options.leafnodes
    leafnodes.reconnect = leafnodes.reconnect or limits.LEAF_RECONNECT_SECONDS
    if leafnodes.dial_timeout <= 0:
        leafnodes.dial_timeout = limits.LEAF_DIAL_SECONDS
    if leafnodes.defined:
        from jetbroker.config.leafnodes import settle_leafnodes

        settle_leafnodes(leafnodes)
    for tls in (options.tls, options.websocket.tls, options.leafnodes.tls):
        if tls is not None and tls.timeout <= 0:
            tls.timeout = limits.TLS_TIMEOUT_SECONDS
    if options.authorization.timeout <= 0:
        options.authorization.timeout = _login_seconds(options.tls)
    if options.leafnodes.authorization.timeout <= 0:
        options.leafnodes.authorization.timeout = _login_seconds(options.leafnodes.tls)
    websocket = options.websocket
    if websocket.port and not websocket.host:
        websocket.host = DEFAULT_HOST
    if websocket.handshake_timeout <= 0:
        websocket.handshake_timeout = limits.WEBSOCKET_HANDSHAKE_SECONDS


def _login_seconds(tls: TlsOptions | None) -> float:
    return limits.AUTH_TIMEOUT_SECONDS if tls is None else tls.timeout + _TLS_LOGIN_SECONDS


def check_start(options: Options) -> None:
    """Raise :class:`~jetbroker.errors.ConfigError` when the broker cannot begin to start with these options."""
    for field in _NOT_NEGATIVE:
        if getattr(options, field) < 0:
            raise ConfigError(f"{field} needs to be positive")
    if options.max_payload > options.max_pending:
        raise ConfigError(
            f"max_payload ({options.max_payload}) cannot be higher than max_pending ({options.max_pending})"
        )
    if " " in options.server_name:
        raise ConfigError("server name cannot contain spaces")
    _check_lame_duck(options)
    if options.operator.tokens or options.operator.default_sentinel:
        from jetbroker.config.operator import check_operators

        check_operators(options)
    if options.leafnodes.defined:
        from jetbroker.config.leafnodes import check_leafnodes

        check_leafnodes(options)
    check_no_auth_user(options, options.no_auth_user)
    _check_default_domains(options)
    _check_jetstream(options)
    if options.websocket.port:
        from jetbroker.config.websocket import check_websocket

        check_websocket(options)
    refused = "Error setting server INFO with ClientAdvertise value of {}, err={}"
    _check_advertise(options.client_advertise, options.port, refused)
    system = options.system_account
    in_tokens = options.operator.resolver  # looked for when the tokens are read
    if system and not in_tokens and system not in (*options.accounts, SYSTEM_ACCOUNT, GLOBAL_ACCOUNT):
        raise ConfigError("error resolving system account: account missing")


def check_opening(options: Options) -> None:
    """What a start meets on its way only, when it has begun to log, in this order. Raises ConfigError."""
    check_monitoring(options)
    check_jetstream_accounts(options)
    check_websocket_port(options)
    check_websocket_advertise(options)
    check_leafnodes_port(options)
    check_port(options)


def check_port(options: Options) -> None:
    """Raise ConfigError when it is none."""
    if not -1 <= options.port <= _MAX_PORT:
        why = _INVALID_PORT.format(options.port)
        raise ConfigError(f'Error listening on port: {options.host}:{options.port}, "{why}"')


def check_websocket_port(options: Options) -> None:
    """Raise ConfigError when it is none."""
    if not -1 <= options.websocket.port <= _MAX_PORT:
        raise ConfigError(f"Unable to listen for websocket connections: {_INVALID_PORT.format(options.websocket.port)}")


def check_leafnodes_port(options: Options) -> None:
    """Raise ConfigError when it is none, or what the listener advertises is no address."""
    leafnodes = options.leafnodes
    if not -1 <= leafnodes.port <= _MAX_PORT:
        why = _INVALID_PORT.format(leafnodes.port)
        raise ConfigError(f"Error listening on leafnode port: {leafnodes.port} - {why}")
    if leafnodes.port:
        refused = "Error setting leafnode INFO with LeafNode.Advertise value of {}, err={}"
        _check_advertise(leafnodes.advertise, leafnodes.port, refused)


def check_websocket_advertise(options: Options) -> None:
    """Raise ConfigError when it is no address."""
    if options.websocket.port:
        _check_advertise(options.websocket.advertise, options.port, "Unable to get websocket connect URLs: {1}")


def warnings(options: Options) -> list[str]:
    """What a start warns of in its log."""
    return [*password_warnings(options), *other_warnings(options)]


def password_warnings(options: Options) -> list[str]:
    """Those that come before the file is named."""
    return ["Plaintext passwords detected, use nkeys or bcrypt"] if _has_plain_passwords(options) else []


def other_warnings(options: Options) -> list[str]:
    """Those that come behind that."""
    found = []
    if options.max_payload > _HIGH_PAYLOAD_BYTES:
        found.append("Maximum payloads over 8.00 MB are generally discouraged and could lead to poor performance")
    # Test helpers of clients set these two; refusing them would keep the broker from starting there.
    found += [
        f"jetstream {name} has no effect yet"
        for name in ("max_buffered_msgs", "max_buffered_size")
        if getattr(options.jetstream, name)
    ]
    if options.monitoring.dashboard and not (options.http_port or options.https_port):
        found.append("dashboard has no effect without a monitoring port: set http_port or https_port")
    if options.leafnodes.default_js_domain:
        what = "a temporary backwards compatibility measure and will be removed"
        found.append(f"The option `default_js_domain` is {what}")
    return found


def _has_plain_passwords(options: Options) -> bool:
    """A user without a password counts too, unless it can be known by its certificate."""
    if options.authorization.password and not is_bcrypt(options.authorization.password):
        return True
    if options.operator.enabled:
        return False
    mapped = mapped_types(options)
    named = [user for user in options.all_users() if not user.nkey]
    return any(
        not is_bcrypt(user.password) and (user.password or not can_be_mapped(mapped, user.connection_types))
        for user in named
    )


def is_bcrypt(password: str) -> bool:
    """True when a configured password or token is a hash: it begins like `$2a$10$`; anything else is plain."""
    return (
        len(password) >= _BCRYPT_PREFIX_LENGTH
        and password.startswith("$2")
        and password[2] in _BCRYPT_VARIANTS
        and password[3] == password[6] == "$"
        and password[4:6].isascii()
        and password[4:6].isdigit()
    )


def _check_lame_duck(options: Options) -> None:
    grace, duration = options.lame_duck_grace_period, options.lame_duck_duration
    if grace >= duration:
        raise ConfigError(
            f"lame duck grace period ({format_duration(grace)}) should be strictly lower than "
            f"lame duck duration ({format_duration(duration)})"
        )


def check_monitoring(options: Options) -> None:
    """Raise ConfigError when its port cannot be opened as asked for."""
    if options.http_port and options.https_port:
        both = f"both HTTP ({options.http_port}) and HTTPs ({options.https_port}) ports"
        raise ConfigError(f"Can't start monitoring: can't specify {both}")
    if options.https_port and options.tls is None:
        raise ConfigError("Can't start monitoring: TLS cert and key required for HTTPS")
    for port in (options.http_port, options.https_port):
        if not -1 <= port <= _MAX_PORT:
            raise ConfigError(f"Can't start monitoring: can't listen to the monitor port: {_INVALID_PORT.format(port)}")


def _check_advertise(text: str, port: int, failure: str) -> None:
    if not text:
        return
    from jetbroker.config.advertise import advertised

    try:
        advertised(text, port)
    except ConfigError as error:
        raise ConfigError(failure.format(text, error)) from None


def check_jetstream_accounts(options: Options) -> None:
    """Raise ConfigError when an account is to have JetStream that cannot."""
    system = options.accounts.get(options.system_account or SYSTEM_ACCOUNT)
    if options.jetstream.enabled and system is not None and system.jetstream is not None:
        raise ConfigError("Not allowed to enable JetStream on the system account")


def _check_default_domains(options: Options) -> None:
    domains = options.leafnodes.default_js_domain
    for name, domain in domains.items():
        if options.operator.tokens:
            if not is_public_key("account", name):
                what = "which is not a valid public account nkey"
                raise ConfigError(f"default_js_domain contains account name {quoted(name)}, {what}")
        elif name != GLOBAL_ACCOUNT:
            account = options.accounts.get(name)
            if account is None:
                what = f"`default_js_domain` references non existing account {quoted(name)}"
                raise ConfigError(f"in non operator mode, {what}")
            if account.jetstream is not None and domain:
                raise ConfigError(f"default_js_domain contains account name {quoted(name)} with enabled JetStream")
    for name, domain in domains.items():
        if name == (options.system_account or SYSTEM_ACCOUNT):
            raise ConfigError(f"system account {quoted(name)} can not be in default_js_domain")
        if domain and not is_valid_subject(f"$JS.{domain}.API.>"):
            what = f"with invalid domain name {quoted(domain)}"
            raise ConfigError(f"default_js_domain contains account {quoted(name)} {what}")


def _check_jetstream(options: Options) -> None:
    domain = options.jetstream.domain
    if any(char in domain for char in ".*>"):
        raise ConfigError("invalid domain name: may not contain ., * or >")
    if any(char in domain for char in " \t\r\n\f"):
        raise ConfigError(f'invalid domain name: derived "$JS.{domain}.API.>" is not a valid subject')
