"""Who may come in: the logins of a configuration against what a client says of itself.

Nobody comes in without a grant: an identity is given by a configured user, nkey, token or certificate, by
`no_auth_user`, or, where no login is configured at all, it is the global account's.
"""

import functools
import secrets
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from jetbroker.auth import nkeys, passwords
from jetbroker.auth.permissions import Permissions
from jetbroker.config.certificate_users import can_be_mapped, mapped_types, maps_certificates
from jetbroker.config.checks import is_bcrypt
from jetbroker.config.nkeys import USER, decode, is_signed
from jetbroker.config.options import GLOBAL_ACCOUNT, SYSTEM_ACCOUNT, Options, UserOptions

if TYPE_CHECKING:
    from jetbroker.auth.certificates import CertificateNames
    from jetbroker.auth.tokens import UserToken

NATS = "nats"
WEBSOCKET = "websocket"
LEAFNODE = "leafnode"
LEAFNODE_WEBSOCKET = "leafnode_ws"
CONNECTION_TYPES = {
    NATS: "STANDARD",
    WEBSOCKET: "WEBSOCKET",
    LEAFNODE: "LEAFNODE",
    LEAFNODE_WEBSOCKET: "LEAFNODE_WS",
}
"""What `allowed_connection_types` calls a connection's kind."""

FAILED = "Authentication Failure"
PROXY_REQUIRED = "Proxy Required"


@dataclass(slots=True, frozen=True, eq=False)
class Login:
    """Somebody who may come in: one per configured user, shared by all of his connections.

    `user` is empty for an nkey and for a token. `secret` (plain or hashed) is what a reload compares. `token` is what
    a user of operator mode stands on; his login is made for one connection.
    """

    account: str = GLOBAL_ACCOUNT
    user: str = ""
    nkey: str = ""
    secret: str = field(default="", repr=False)
    permissions: Permissions | None = None
    connection_types: frozenset[str] = frozenset()
    proxy_required: bool = False
    by_token: bool = False
    token: "UserToken | None" = None

    @property
    def issuer(self) -> str:
        """Who vouches for its key: the key that signed its token, else its account; "" without a key."""
        if self.token is not None and self.token.claims.issuer_account:
            return self.token.claims.issuer
        return self.account if self.nkey or self.token is not None else ""

    def allows(self, kind: str) -> bool:
        """May this user come over this kind of connection?"""
        return not self.connection_types or CONNECTION_TYPES[kind] in self.connection_types


NOBODY = Login()
"""A client of a broker without logins."""


@dataclass(slots=True)
class Claim:
    """What a client says of itself, and what is known of its connection."""

    kind: str = NATS
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    nkey: str = ""
    signature: str = field(default="", repr=False)
    nonce: bytes = b""
    certificate: bytes | None = None  # DER, of the client
    jwt: str = field(default="", repr=False)
    address: str = ""  # of the client, without the port

    @property
    def says_nothing(self) -> bool:
        """True when there is no name and no secret."""
        return not (self.user or self.password or self.token)


class Verdict(NamedTuple):
    """`login` None: refused. With `check`, which takes its time, `login` counts only if that gives True.

    `who` is the user that was meant, when the claim does not say so itself: for the log. `told` are lines for the log,
    at debug level unless `loud`. `shown` is the token of somebody who was refused, unless it is a secret.
    """

    login: Login | None
    check: passwords.Check | None = None
    reason: str = FAILED
    who: str = ""
    told: tuple[str, ...] = ()
    loud: bool = False
    shown: str = ""


NO_PROXY = Verdict(None, reason=PROXY_REQUIRED, told=("proxy connection required",))


class Secrets:
    """Passwords and tokens that are compared so that time tells nothing of them, of all logins of a configuration."""

    def __init__(self) -> None:
        self.dearest = 0  # the cost of the dearest hash, 0 without any
        self._decoy = secrets.token_hex()  # stands for the password of somebody unknown

    def add(self, secret: str) -> None:
        """Know of a configured one, be it a hash."""
        self.dearest = max(self.dearest, passwords.cost_of(secret))

    def compare(self, login: Login | None, claim: Claim, given: str, refusal: Verdict) -> Verdict:
        """Judge by what was given; `login` None: nobody can be meant, that is a `refusal` whatever it is."""
        if login is not None and is_bcrypt(login.secret):
            return Verdict(login, self.check(login.secret, given))
        if passwords.is_equal(self._decoy if login is None else login.secret, given):
            return refusal if login is None else Verdict(login)
        if claim.says_nothing or not self.dearest:
            return refusal
        return refusal._replace(check=self.check("", given))

    def check(self, secret: str, given: str) -> passwords.Check:
        """A check that takes as long as any other."""
        return passwords.Check(secret, given, self.dearest)


def signature_fault(claim: Claim) -> str:
    """What is wrong with the signature by the claim's nkey of its nonce, for the log; "": nothing."""
    if not claim.signature:
        return "Signature missing"
    signature = nkeys.decode_signature(claim.signature)
    if signature is None:
        return "Signature not valid base64"
    public = decode(USER, claim.nkey)
    if public is not None and claim.nonce and is_signed(public, claim.nonce, signature):
        return ""
    return "Signature not verified"


class Renewal(Enum):
    """What becomes of a connected client when the logins are other ones."""

    STAYS = "stays"
    GONE = "gone"  # its user is no more, or belongs elsewhere: closed without a word
    REFUSED = "refused"


@dataclass(slots=True)
class _Listener:
    """What is asked of the clients of one listener."""

    due: bool  # a login is needed
    single: Login | None  # the one user or token
    no_auth_user: str
    maps_certificates: bool
    timeout: float


class Authenticator:
    """The logins of a configuration. `no_auth_user` must name somebody: checked before the start."""

    def __init__(self, options: Options) -> None:
        self._proxy_required = options.authorization.proxy_required
        self.secrets = Secrets()
        self._users: dict[str, Login] = {}
        self._nkeys: dict[str, Login] = {}
        for account, user in _configured(options):
            self._add(account, user)
        self._hidden_user = ""
        if _system_users_only(options):
            self._hidden_user = _anonymous().user
            self._users[self._hidden_user] = _anonymous()
        self._listeners = {
            NATS: self._nats(options),
            WEBSOCKET: self._websocket(options),
            LEAFNODE: self._leafnode(options, ""),
            LEAFNODE_WEBSOCKET: self._leafnode(options, options.websocket.no_auth_user),
        }
        self._mapped_types = mapped_types(options)

    def _add(self, account: str, user: UserOptions) -> None:
        self.secrets.add(user.password)
        login = Login(
            account,
            user.user,
            user.nkey,
            user.password,
            None if user.permissions is None else Permissions(user.permissions),
            user.connection_types,
            user.proxy_required,
        )
        if user.nkey:
            self._nkeys[user.nkey] = login
        else:
            self._users[user.user] = login

    def _single(self, user: str, password: str, token: str, proxy_required: bool) -> Login | None:
        self.secrets.add(token or password)
        if token:
            return Login(secret=token, by_token=True, proxy_required=proxy_required)
        return Login(user=user, secret=password, proxy_required=proxy_required) if user else None

    def _nats(self, options: Options) -> _Listener:
        block = options.authorization
        single = self._single(block.user, block.password, block.token, block.proxy_required)
        return _Listener(
            bool(self._users or self._nkeys or single),
            single,
            options.no_auth_user or self._hidden_user,
            maps_certificates(options.tls),
            block.timeout,
        )

    def _websocket(self, options: Options) -> _Listener:
        block, shared = options.websocket, self._nats(options)
        timeout = block.auth_timeout or shared.timeout
        maps = bool(block.port) and maps_certificates(block.tls)
        if not (block.user or block.token or block.no_auth_user):
            return _Listener(shared.due, shared.single, shared.no_auth_user, maps, timeout)
        single = self._single(block.user, block.password, block.token, options.authorization.proxy_required)
        return _Listener(True, single, block.no_auth_user, maps, timeout)

    def _leafnode(self, options: Options, no_auth_user: str) -> _Listener:
        """Of links that log in as clients do; auth.leaf_logins sees to those of `leafnodes { authorization {} }`."""
        block, shared = options.leafnodes, self._nats(options)
        maps = bool(block.port) and not block.authorization.defined and maps_certificates(block.tls)
        no_auth_user = no_auth_user or shared.no_auth_user
        return _Listener(shared.due, shared.single, no_auth_user, maps, block.authorization.timeout)

    @property
    def configured(self) -> bool:
        """True when clients have to log in."""
        return self._listeners[NATS].due

    @property
    def nonce_required(self) -> bool:
        """True when somebody may log in with an nkey: INFO has a nonce to sign then."""
        return bool(self._nkeys)

    def due(self, kind: str = NATS) -> bool:
        """Must such a client log in, be it as `no_auth_user`?"""
        return self._listeners[kind].due

    def announced(self, kind: str = NATS) -> bool:
        """Does the first INFO ask for credentials? Not with a `no_auth_user`, who needs none."""
        listener = self._listeners[kind]
        open_to_all = kind == NATS and listener.no_auth_user and listener.no_auth_user != self._hidden_user
        return listener.due and not open_to_all

    def timeout(self, kind: str = NATS) -> float:
        """Seconds a client has to log in."""
        return self._listeners[kind].timeout

    def find(self, claim: Claim) -> Verdict:
        """Judge what a client says."""
        listener = self._listeners[claim.kind]
        if not listener.due:
            return Verdict(NOBODY)
        if self._nkeys and claim.says_nothing and not claim.nkey and listener.no_auth_user in self._nkeys:
            claim = replace(claim, nkey=listener.no_auth_user)
        if self._nkeys and claim.nkey:
            return self._judge_nkey(claim, listener)
        if self._users:
            if listener.maps_certificates:
                return self._judge_certificate(claim)
            login = self._users.get(listener.no_auth_user)
            if login is not None and claim.says_nothing:
                # a hash is nobody's password: who has one does not come in without giving it
                open_to_all = login.allows(claim.kind) and not is_bcrypt(login.secret)
                return self._with_proxy(login) if open_to_all else Verdict(None, who=login.user)
            if not claim.user and self._proxy_required:
                return NO_PROXY
            return self._judge_user(self._users.get(claim.user), claim, claim.password)
        if listener.single is None:
            return Verdict(None)
        if listener.single.proxy_required:
            return NO_PROXY
        given = claim.token if listener.single.by_token else claim.password
        known = listener.single.by_token or listener.single.user == claim.user
        return self._judge_user(listener.single if known else None, claim, given)

    def find_silent(self, claim: Claim) -> Verdict:
        """Judge a client that begins without CONNECT: only a user who needs no credentials may."""
        listener = self._listeners[claim.kind]
        login = self._users.get(listener.no_auth_user or self._listeners[NATS].no_auth_user)
        if login is None or login.proxy_required or not login.allows(claim.kind):
            return Verdict(None)
        return self.find(claim)

    def _with_proxy(self, login: Login) -> Verdict:
        return NO_PROXY._replace(who=login.user) if login.proxy_required else Verdict(login)

    def _judge_nkey(self, claim: Claim, listener: _Listener) -> Verdict:
        login = self._nkeys.get(claim.nkey)
        if login is None or not login.allows(claim.kind):
            return Verdict(None)
        if login.proxy_required:
            return NO_PROXY
        if login.nkey == listener.no_auth_user:
            return Verdict(login)
        fault = signature_fault(claim)
        return Verdict(None, told=(fault,)) if fault else Verdict(login)

    def _judge_certificate(self, claim: Claim) -> Verdict:
        login = self._mapped(claim)
        if login is None:
            return Verdict(None)
        verdict = self._judge_user(login, claim, claim.password)
        return verdict._replace(who=login.user)

    def _judge_user(self, login: Login | None, claim: Claim, given: str) -> Verdict:
        """Somebody with a password or token; `login` is None when nobody has that name."""
        refusal = Verdict(None)
        if login is not None and not login.allows(claim.kind):
            login = None
        if login is not None and login.proxy_required:
            login, refusal = None, NO_PROXY
        if login is not None and self._needs_certificate(login, self._listeners[claim.kind]):
            refusal = Verdict(None, told=(f'User "{login.user}" requires a client certificate',))
            login = None
        return self.secrets.compare(login, claim, given, refusal)

    # --- certificates ---

    def _needs_certificate(self, login: Login, listener: _Listener) -> bool:
        """A user without a password is known by a certificate, where certificates are mapped to users at all.

        An empty password on a listener that does not map them is no way around that. Its `no_auth_user` needs nothing.
        """
        if listener.maps_certificates or login.secret or not login.user:
            return False
        if login is listener.single or login.user == listener.no_auth_user:
            return False
        return can_be_mapped(self._mapped_types, login.connection_types)

    def _mapped(self, claim: Claim) -> Login | None:
        if claim.certificate is None:
            return None
        from jetbroker.auth.certificates import names_of

        names = names_of(claim.certificate)
        return None if names is None else self._named_by(names, claim.kind)

    def _named_by(self, names: "CertificateNames", kind: str) -> Login | None:
        from jetbroker.auth.certificates import parse_name

        allowed = {user: login for user, login in self._users.items() if login.allows(kind)}
        for name in names.alternatives:
            if name in allowed:
                return allowed[name]
        if names.subject is not None:
            subjects = [(parse_name(user), login) for user, login in allowed.items()]
            for subject, login in subjects:
                if subject == names.subject:
                    return login
            for subject, login in subjects:
                if subject is not None and subject.is_reordered(names.subject):
                    return login
        return next((allowed[name] for name in names.written if name in allowed), None)

    # --- reload ---

    def renew(self, login: Login | None, claim: Claim) -> tuple[Renewal, Verdict]:
        """Judge a client that is connected already, by other logins than those it came in with.

        `login` is what it came in as, None for one that did not have to log in; `claim` is what it said, or, for one
        that logged in, no more than its connection: passwords that were good are not kept, the configured ones are
        compared instead. A STAYS may have a check to be run first.
        """
        if login is None or login is NOBODY:
            return self._renew_unknown(claim)
        if not self._listeners[claim.kind].due:
            return (Renewal.STAYS, Verdict(NOBODY)) if login.by_token else (Renewal.GONE, Verdict(None))
        now = self._successor(login, claim.kind)
        if now is None or now.account != login.account:
            return (Renewal.REFUSED if login.by_token else Renewal.GONE), Verdict(None)
        if not now.allows(claim.kind) or now.proxy_required:
            return Renewal.REFUSED, Verdict(None, reason=PROXY_REQUIRED if now.proxy_required else FAILED)
        is_mapped = self._listeners[claim.kind].maps_certificates and self._users.get(now.user) is now
        if is_mapped and self._mapped(claim) is not now:
            return Renewal.REFUSED, Verdict(None)
        return self._compare(login, now)

    def _successor(self, login: Login, kind: str) -> Login | None:
        """The same user, nkey or token in these logins."""
        if login.nkey:
            return self._nkeys.get(login.nkey)
        single = self._listeners[kind].single
        if login.by_token:
            return single if single is not None and single.by_token else None
        if login.user in self._users:
            return self._users[login.user]
        return single if single is not None and single.user == login.user else None

    def _compare(self, was: Login, now: Login) -> tuple[Renewal, Verdict]:
        if was.nkey or was.secret == now.secret:
            return Renewal.STAYS, Verdict(now)
        known, kept = is_bcrypt(was.secret), is_bcrypt(now.secret)
        if known != kept:  # the same password may have been hashed, or the other way round
            secret, given = (now.secret, was.secret) if kept else (was.secret, now.secret)
            return Renewal.STAYS, Verdict(now, self.secrets.check(secret, given))
        if now in (listener.single for listener in self._listeners.values()) and now.user:
            return Renewal.GONE, Verdict(None)
        return Renewal.REFUSED, Verdict(None)

    def _renew_unknown(self, claim: Claim) -> tuple[Renewal, Verdict]:
        """One that did not have to log in; what it said nevertheless may be good now."""
        verdict = self.find(claim)
        if verdict.login is None and verdict.check is None:
            name = claim.nkey or claim.user
            single = self._listeners[claim.kind].single
            known = name in self._nkeys or name in self._users or (single is not None and single.user == name)
            return (Renewal.GONE if name and not known else Renewal.REFUSED), verdict
        if verdict.login is not None and verdict.login.account != GLOBAL_ACCOUNT:
            return Renewal.GONE, Verdict(None)  # it was in the global account until now
        return Renewal.STAYS, verdict


def _configured(options: Options) -> list[tuple[str, UserOptions]]:
    """Every user with the account it belongs to."""
    found = [(GLOBAL_ACCOUNT, user) for user in options.authorization.users]
    for account in options.accounts.values():
        found += [(account.name, user) for user in account.users]
    return found


def _system_users_only(options: Options) -> bool:
    """Nothing but the system account has users: everybody else still comes in, to the global account.

    An `authorization` block, or any other account, says that clients have to log in.
    """
    system = options.system_account or (SYSTEM_ACCOUNT if SYSTEM_ACCOUNT in options.accounts else "")
    others = [name for name in options.accounts if name not in (system, GLOBAL_ACCOUNT)]
    asked = options.authorization.defined or options.authorization.required or options.no_auth_user
    return bool(system) and not others and not asked


@functools.cache
def _anonymous() -> Login:
    """What clients without credentials are then: nobody can guess it, and a reload keeps it."""
    return Login(user=f"nats-{secrets.token_hex(4)}", secret=secrets.token_hex())
