"""What a reload changes of `leafnodes {}`. Pure: options in, changes out.

Remotes come, go, and change their certificates, their compression, and whether they are disabled. Of the listener only
certificates and compression change. All else is refused.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from jetbroker import limits
from jetbroker.config.durations import format_duration
from jetbroker.config.leafnodes import remote_name
from jetbroker.config.options import LeafCompression, LeafOptions, LeafRemote, TlsOptions
from jetbroker.errors import ConfigError

REDACTED = "[REDACTED]"


class ChangedRemote(NamedTuple):
    """A remote that stays. What `after` says of certificates holds from its next connection on, in any case."""

    before: LeafRemote
    after: LeafRemote
    tls_first: bool  # these say what differs
    compression: bool
    disabled: bool


class LeafChanges(NamedTuple):
    """What there is to do: `removed` remotes are closed, `added` ones are dialled.

    Of those that stay, links are closed where a remote is disabled now, and made again where its compression differs;
    where `compression` of the listener differs, so are the links that came in.
    """

    added: list[LeafRemote]
    removed: list[LeafRemote]
    kept: list[ChangedRemote]
    tls_first: bool
    compression: bool
    lines: list[str]  # for the log


def leaf_changes(old: LeafOptions, new: LeafOptions) -> LeafChanges | None:
    """The changes; None: nothing to do. Raises ConfigError that names the field which only a restart changes."""
    _check_same_users(old, new)
    _check_same(_LISTENER, old, new)
    coming = {remote_name(remote): remote for remote in new.remotes}
    removed, kept = [], []
    for before in old.remotes:
        after = coming.pop(remote_name(before), None)
        if after is None:
            removed.append(before)
            continue
        try:
            _check_same(_REMOTE, before, after)
        except ConfigError as error:
            raise ConfigError(f"remote {remote_name(after, redacted=True)}: {error}") from None
        kept.append(
            ChangedRemote(
                before,
                after,
                _is_first(before.tls) != _is_first(after.tls),
                before.compression != after.compression,
                before.disabled != after.disabled,
            )
        )
    tls_first = (_is_first(old.tls), _fallback(old.tls)) != (_is_first(new.tls), _fallback(new.tls))
    compression = old.compression != new.compression
    found = LeafChanges([*coming.values()], removed, kept, tls_first, compression, [])
    if not (tls_first or compression or removed or kept or coming):
        return None
    found.lines.extend(_lines(found, new))
    return found


def _lines(found: LeafChanges, new: LeafOptions) -> list[str]:
    lines = []
    if found.tls_first:
        lines.append(f"TLS HandshakeFirst value is: {_shown(_is_first(new.tls))}")
        lines.append(f"TLS HandshakeFirstFallback value is: {_fallback(new.tls)}")
    if found.compression:
        lines.append(f"Compression value is: {_compression(new.compression)}")
    lines += [f"Remote {remote_name(remote, redacted=True)} removed" for remote in found.removed]
    for one in found.kept:
        head = f"Remote {remote_name(one.after, redacted=True)}"
        if one.tls_first:
            lines.append(f"{head} TLS HandshakeFirst value is: {_shown(_is_first(one.after.tls))}")
        if one.compression:
            lines.append(f"{head} Compression value is: {_compression(one.after.compression)}")
        if one.disabled:
            lines.append(f"{head} Disabled value is: {_shown(one.after.disabled)}")
    return [f"Reloaded: LeafNode {line}" for line in lines]


Reader: TypeAlias = Callable[[Any], Any]


def _check_same(rows: tuple[tuple[str, Reader], ...], old: object, new: object) -> None:
    """Raise ConfigError with the first field that differs."""
    for name, read in rows:
        before, after = read(old), read(new)
        if before != after:
            secret = name in _SECRETS
            shown = [REDACTED if secret and value else _shown(value) for value in (before, after)]
            raise ConfigError(f'field "{name}": old={shown[0]}, new={shown[1]}')


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list):
        return f"[{' '.join(value)}]"
    return str(value)


def _compression(options: LeafCompression) -> str:
    return f"{{{options.mode} [{' '.join(map(format_duration, options.rtt_thresholds))}]}}"


def _is_first(tls: TlsOptions | None) -> bool:
    return tls is not None and tls.handshake_first is not None


def _fallback(tls: TlsOptions | None) -> str:
    return format_duration(0.0 if tls is None else tls.handshake_first or 0.0)


def _check_same_users(old: LeafOptions, new: LeafOptions) -> None:
    """Their order does not matter; nobody's password is told."""
    before, after = (
        {user.user: (user.password, user.account) for user in options.authorization.users} for options in (old, new)
    )
    if before != after:
        raise ConfigError(f'field "Users": old=[{" ".join(before)}], new=[{" ".join(after)}]')


def _listener_tls_seconds(options: LeafOptions) -> float:
    if options.tls is not None:
        return options.tls.timeout
    return limits.TLS_TIMEOUT_SECONDS if options.port else 0.0


def _pins(options: LeafOptions) -> str:
    pins = () if options.tls is None else options.tls.pinned_certs
    return f"map[{' '.join(f'{pin}:{{}}' for pin in sorted(pins))}]"


_SECRETS = ("Password",)
_LISTENER: tuple[tuple[str, Reader], ...] = (
    ("Host", lambda options: options.host),
    ("Port", lambda options: options.port),
    ("Username", lambda options: options.authorization.user),
    ("Password", lambda options: options.authorization.password),
    ("ProxyRequired", lambda options: options.authorization.proxy_required),
    ("Nkey", lambda options: options.authorization.nkey),
    ("Account", lambda options: options.authorization.account),
    ("AuthTimeout", lambda options: options.authorization.timeout),
    ("TLSTimeout", _listener_tls_seconds),
    ("TLSMap", lambda options: options.tls is not None and options.tls.verify_and_map),
    ("TLSPinnedCerts", _pins),
    ("Advertise", lambda options: options.advertise),
    ("NoAdvertise", lambda options: options.no_advertise),
    ("ReconnectInterval", lambda options: format_duration(options.reconnect)),
    ("WriteDeadline", lambda options: format_duration(options.write_deadline)),
    ("WriteTimeout", lambda options: options.write_timeout),
    ("MinVersion", lambda options: options.min_version),
    ("IsolateLeafnodeInterest", lambda options: options.isolate_leafnode_interest),
    ("DialTimeout", lambda options: format_duration(options.dial_timeout)),
)
_REMOTE: tuple[tuple[str, Reader], ...] = (
    ("NoRandomize", lambda remote: remote.no_randomize),
    ("TLSTimeout", lambda remote: 0.0 if remote.tls is None else remote.tls.timeout),
    ("Hub", lambda remote: remote.hub),
    ("DenyImports", lambda remote: remote.deny_imports),
    ("DenyExports", lambda remote: remote.deny_exports),
    ("FirstInfoTimeout", lambda remote: format_duration(remote.first_info_timeout)),
    ("DialTimeout", lambda remote: format_duration(remote.dial_timeout)),
    ("Websocket", lambda remote: f"{{{_shown(remote.ws_compression)} {_shown(remote.ws_no_masking)}}}"),
    ("LocalIsolation", lambda remote: remote.isolate_leafnode_interest),
    ("RequestIsolation", lambda remote: remote.request_isolation),
    ("IgnoreDiscoveredServers", lambda remote: remote.ignore_discovered_servers),
)
