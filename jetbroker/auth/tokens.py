"""Logins of operator mode: a user is what a signed token says, and his account's token has to let him in.

The steps and their order are nats-server's, and so are the texts the log tells at debug level.
"""

import time
from collections.abc import Callable
from dataclasses import field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING
from zlib import crc32

from jetbroker.auth.authenticator import (
    CONNECTION_TYPES,
    FAILED,
    PROXY_REQUIRED,
    Authenticator,
    Claim,
    Login,
    Renewal,
    Verdict,
)
from jetbroker.auth.nkeys import decode_signature
from jetbroker.auth.permissions import Permissions
from jetbroker.config.nkeys import USER, decode, is_signed
from jetbroker.config.options import Options
from jetbroker.config.tokens import checks
from jetbroker.config.tokens.claims import (
    AccountClaims,
    Claims,
    TimeRange,
    UserClaims,
    UserLimits,
    is_revoked,
    read_user,
)
from jetbroker.config.tokens.fields import TokenError
from jetbroker.config.values import CONNECTION_TYPES as KNOWN_TYPES
from jetbroker.forms.gotext import quoted

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from jetbroker.config.block import dataclass  # a start is quicker with it


@dataclass(slots=True)
class KnownAccount:
    """An account whose token was taken, at `taken_ns` (since 1970).

    `signers`: the keys that may sign its users, each with its scope or None.
    """

    token: str
    claims: AccountClaims
    signers: dict[str, UserLimits | None]
    default_permissions: Permissions | None
    taken_ns: int
    expired: bool = False

    @classmethod
    def of(cls, token: str, claims: AccountClaims, strict_keys: frozenset[str]) -> "KnownAccount":
        """From a token that was checked. Operators with `strict_keys` forbid users of the account's own key."""
        signers = dict(claims.signing_keys)
        if claims.issuer not in strict_keys:
            signers[claims.subject] = None
        default = claims.default_permissions
        return cls(
            token,
            claims,
            signers,
            None if default is None else Permissions(default),
            time.time_ns(),
            0 < claims.expires <= int(time.time()),
        )

    @property
    def name(self) -> str:
        """The account's public key."""
        return self.claims.subject

    @property
    def label(self) -> str:
        """As the log names it."""
        return f"{self.name}/{self.claims.name}" if self.claims.name else self.name


@dataclass(slots=True)
class UserToken:
    """What a login by token stands on, user and account. `may` is the scope's where there is one.

    `ends_in`: seconds from the login to its end; None: it has none.
    """

    text: str = field(repr=False)
    claims: UserClaims
    account: KnownAccount = field(repr=False)
    may: UserLimits
    ends_in: float | None
    has_default_permissions: bool

    @property
    def shown(self) -> str:
        """The token for monitoring; one that nobody has to sign for is a secret."""
        return "" if self.may.bearer else self.text

    @property
    def told(self) -> str:
        """What the log is told of a login, at debug level."""
        user, account = self.claims, self.account.claims
        return (
            f"Authenticated JWT: Client {_named(user.subject, user)} signed with {quoted(user.issuer)} "
            f"by Account {_named(account.subject, account)} signed with {quoted(account.issuer)} "
            f"has mappings {'true' if account.mappings else 'false'} accused {crc32(account.subject.encode()):#x}"
        )


class _Refused(Exception):
    """Not let in. The text is for the log; `loud`: as an error, else for debugging."""

    def __init__(self, text: str, *, loud: bool = False, reason: str = FAILED) -> None:
        super().__init__(text)
        self.loud = loud
        self.reason = reason


class TokenAuthenticator(Authenticator):
    """The logins of operator mode. `find_account` gives an account, read in if need be; it raises TokenError.

    `count_unpinned` is called for each login that is refused because its account is not pinned.
    """

    def __init__(
        self, options: Options, find_account: Callable[[str], KnownAccount], count_unpinned: Callable[[], None]
    ) -> None:
        super().__init__(options)
        self._find_account = find_account
        self._count_unpinned = count_unpinned
        self._trusted = frozenset(options.operator.trusted_keys)
        self._pinned = options.operator.pinned_accounts
        self._sentinel = options.operator.default_sentinel

    @property
    def configured(self) -> bool:
        """Clients have to log in."""
        return True

    @property
    def nonce_required(self) -> bool:
        """Everybody signs INFO's nonce."""
        return True

    def due(self, kind: str = "nats") -> bool:
        """Everybody has to log in."""
        return True

    def announced(self, kind: str = "nats") -> bool:
        """INFO says so."""
        return True

    def find(self, claim: Claim) -> Verdict:
        """Judge what a client says."""
        return self._verdict(claim, signed=False)

    def find_silent(self, claim: Claim) -> Verdict:
        """Nobody comes in without CONNECT."""
        return Verdict(None)

    def renew(self, login: Login | None, claim: Claim) -> tuple[Renewal, Verdict]:
        """Judge a connected client again, by its token; it has signed when it came."""
        if login is None or login.token is None:
            return Renewal.REFUSED, Verdict(None)
        claim.jwt = login.token.text
        verdict = self._verdict(claim, signed=True)
        return (Renewal.REFUSED if verdict.login is None else Renewal.STAYS), verdict

    def _verdict(self, claim: Claim, *, signed: bool) -> Verdict:
        shown = ""
        try:
            text, user = self._user_of(claim)
            shown = "" if user.may.bearer or text != claim.jwt else text
            token = self._token_of(text, user)
            shown = token.shown if shown else ""
            login = self._judge(claim, token, signed)
        except _Refused as refused:
            return Verdict(None, None, refused.reason, told=(str(refused),), loud=refused.loud, shown=shown)
        unknown = _unknown_kinds(token.may)
        return Verdict(login, told=(_no_kinds(unknown),) if unknown else ())

    def _token_of(self, text: str, user: UserClaims) -> UserToken:
        """The token, its account, and what the two let its user do."""
        if user.may.proxy_required:
            raise _Refused("proxy connection required", reason=PROXY_REQUIRED)
        if wrong := checks.check_user(user):
            raise _Refused(f"User JWT no longer valid: &{{Issues:[{' '.join(wrong)}]}}")
        account = self._account_of(user)
        may = _limits_of(user, account)
        return UserToken(text, user, account, may, None, may.permissions is None)

    def _judge(self, claim: Claim, token: UserToken, signed: bool) -> Login:
        user, account, may = token.claims, token.account, token.may
        if account.expired:
            raise _Refused("Account JWT has expired")
        if may.bearer and account.claims.limits.disallow_bearer:
            raise _Refused("Account does not allow bearer tokens")
        kinds = _check_kind(may, claim.kind)
        if not may.bearer and not signed:
            _check_signature(user, claim)
        if is_revoked(account.claims.revocations, user.subject, user.issued_at):
            raise _Refused("User authentication revoked")
        if not _comes_from(may, claim.address):
            raise _Refused(f"Bad src Ip {claim.address}", loud=True)
        window = seconds_left(may.times, may.times_location)
        if window is not None and window <= 0:
            raise _Refused("Outside connect times", loud=True)
        if account.claims.external_users and user.subject not in account.claims.external_users:
            raise _Refused("Account leaves its users to an authorization service, which is not supported yet")
        permissions = account.default_permissions if may.permissions is None else Permissions(may.permissions)
        token.ends_in = _ends_in(user, window)
        return Login(account.name, permissions=permissions, connection_types=kinds, token=token)

    def _user_of(self, claim: Claim) -> tuple[str, UserClaims]:
        """The token of the client, else the one for those that have none."""
        if claim.jwt:
            try:
                return claim.jwt, read_user(claim.jwt)
            except TokenError:
                if not self._sentinel:
                    raise _Refused("Authentication requires a user JWT") from None
        if not self._sentinel:
            raise _Refused("Authentication requires a user JWT")
        try:
            return self._sentinel, read_user(self._sentinel)
        except TokenError as error:
            raise _Refused(f"User JWT not valid: {error}") from None

    def _account_of(self, user: UserClaims) -> KnownAccount:
        name = user.account
        if self._pinned is not None and name not in self._pinned:
            self._count_unpinned()
            raise _Refused(f"Account {name} not listed as operator pinned account")
        try:
            account = self._find_account(name)
        except TokenError as error:
            raise _Refused(f"Account JWT lookup error: {error}") from None
        if account.claims.issuer not in self._trusted:
            raise _Refused("Account JWT not signed by trusted operator")
        return account


def _named(key: str, claims: Claims) -> str:
    return f"{quoted(key)} (claim-name: {quoted(claims.name)}, claim-tags: [{' '.join(map(quoted, claims.tags))}])"


def _limits_of(user: UserClaims, account: KnownAccount) -> UserLimits:
    """What the user may: as the token says, or the scope of the key that signed it."""
    if user.issuer not in account.signers:
        raise _Refused("User JWT issuer is not known")
    scope = account.signers[user.issuer]
    if scope is None:
        return user.may
    if not user.may.unset:
        raise _Refused("User JWT is not valid: scoped users require no permissions or limits set")
    from jetbroker.auth.scopes import TemplateError, filled_in

    try:
        return filled_in(scope, user, account.claims)
    except TemplateError:
        raise _Refused("User JWT generated invalid permissions") from None


def _check_kind(may: UserLimits, kind: str) -> frozenset[str]:
    """The kinds of connections that the user may make. Kinds that nobody knows allow nothing by themselves."""
    kinds = frozenset(found.upper() for found in may.connection_types) & KNOWN_TYPES
    if may.connection_types and not kinds:
        raise _Refused(_no_kinds(_unknown_kinds(may)))
    if kinds and CONNECTION_TYPES[kind] not in kinds:
        raise _Refused("Connection type not allowed")
    return kinds


def _unknown_kinds(may: UserLimits) -> list[str]:
    return [found.upper() for found in may.connection_types if found.upper() not in KNOWN_TYPES]


def _no_kinds(unknown: list[str]) -> str:
    return f"invalid connection types [{' '.join(map(quoted, unknown))}]"


def _check_signature(user: UserClaims, claim: Claim) -> None:
    if not claim.signature:
        raise _Refused("Signature missing")
    signature = decode_signature(claim.signature)
    if signature is None:
        raise _Refused("Signature not valid base64")
    public = decode(USER, user.subject)
    if public is None:
        raise _Refused("User nkey not valid: invalid public key")
    if not claim.nonce or not is_signed(public, claim.nonce, signature):
        raise _Refused("Signature not verified")


def _comes_from(may: UserLimits, address: str) -> bool:
    if not may.sources:
        return True
    import ipaddress

    try:
        host = ipaddress.ip_address(address)
        if host.version == 6 and host.ipv4_mapped is not None:
            host = host.ipv4_mapped
        return any(host in checks.network(source) for source in may.sources)
    except ValueError:
        return False


def _ends_in(user: UserClaims, window: float | None) -> float | None:
    """Seconds; whole ones for the token's own end, as in nats-server."""
    ends = [] if window is None else [window]
    if user.expires:
        ends.append(max(user.expires - int(time.time()), 0))
    return min(ends, default=None)


def seconds_left(times: tuple[TimeRange, ...], location: str, now: datetime | None = None) -> float | None:
    """How long the time of day still allows a connection, 0 when it does not; None: always."""
    if not times:
        return None
    if checks.check_time_ranges(times, location):  # a scope's: nobody has looked at them before
        return 0.0
    zone: tzinfo | None = None
    if location:
        import zoneinfo

        zone = zoneinfo.ZoneInfo(location)
    now = datetime.now(zone) if now is None else now
    return max(_left(entry, now) for entry in times)


def _left(entry: TimeRange, now: datetime) -> float:
    start, end = (_at(now, checks.clock_seconds(text) or 0) for text in (entry.start, entry.end))
    if start < now < end:
        return _seconds(now, end)
    if start > end:  # over midnight
        if now < end:
            return _seconds(now, end)
        if start < now:
            return _seconds(now, end + timedelta(days=1))
    return 0.0


def _seconds(start: datetime, end: datetime) -> float:
    """Between two times of the wall, also when the clocks are put forward or back in between."""
    return (end.astimezone(UTC) - start.astimezone(UTC)).total_seconds()


def _at(day: datetime, seconds: int) -> datetime:
    minutes, second = divmod(seconds, 60)
    return day.replace(hour=minutes // 60, minute=minutes % 60, second=second, microsecond=0)
