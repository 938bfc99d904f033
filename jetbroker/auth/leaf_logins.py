"""Logins of links on the side that accepts them: by `leafnodes { authorization {} }`, else as clients log in.

A link of a broker without any logins comes in as well: to the block's account, or the global one.
"""

from collections.abc import Callable

from jetbroker.auth.authenticator import (
    NO_PROXY,
    NOBODY,
    Authenticator,
    Claim,
    Login,
    Renewal,
    Secrets,
    Verdict,
    signature_fault,
)
from jetbroker.auth.password_queue import PasswordQueue
from jetbroker.config.options import GLOBAL_ACCOUNT, LeafAuthorization, Options
from jetbroker.forms.gotext import quoted


class LeafLogins:
    """Judges what links say of themselves. Checks of hashes wait in the same queue as those of clients."""

    def __init__(self, options: Options, authenticator: Authenticator, passwords: PasswordQueue) -> None:
        self._passwords = passwords
        self.replace(options, authenticator)

    def replace(self, options: Options, authenticator: Authenticator) -> None:
        """Other logins hold from now on, also for those whose check is under way."""
        self._authenticator = authenticator
        block = options.leafnodes
        self._own = _Own(block.authorization, authenticator.secrets, maps=block.tls is not None and _maps(options))
        self._anybody = Login(account=block.authorization.account or GLOBAL_ACCOUNT)
        self._timeout = block.authorization.timeout

    @property
    def timeout(self) -> float:
        """Seconds a link has for its CONNECT."""
        return self._timeout

    def due(self) -> bool:
        """What INFO's `auth_required` says: of a link a CONNECT is always asked, even where anybody may come."""
        return True

    def judge(self, claim: Claim, wanted: Callable[[], bool], done: Callable[[Verdict], None]) -> Verdict | None:
        """The verdict, without a check; None when a password has to be checked first: `done` is told it later then.

        `claim.kind` is LEAFNODE or LEAFNODE_WEBSOCKET. Nothing is checked for a link that is not `wanted` any more;
        `done` may be told of it nevertheless.
        """
        verdict = self._find(claim)
        if verdict.check is None:
            return verdict
        found, name = verdict, verdict.who or claim.nkey or claim.user

        def checked(is_good: bool) -> None:
            done(self._checked(claim, found) if is_good else found._replace(login=None, check=None))

        self._passwords.ask(verdict.check, claim.address, name, wanted, checked)
        return None

    def renew(self, login: Login, claim: Claim) -> Login | None:
        """As whom a link stays that came in as `login`, after a reload; None: it has to go.

        `claim` is what is known of its connection alone.

        A user who has another password now has to log in anew: links come back by themselves.
        """
        if self._own.defined:
            return self._own.successor(login)
        if login.user or login.nkey or login.by_token or login.token is not None:
            renewal, verdict = self._authenticator.renew(login, claim)
            if renewal is not Renewal.STAYS or verdict.check is not None:
                return None
            return login if verdict.login is NOBODY else verdict.login
        now = self._find(claim).login
        return now if now is not None and now.account == login.account else None

    def _find(self, claim: Claim) -> Verdict:
        if self._own.defined:
            return self._own.find(claim)
        verdict = self._authenticator.find(claim)
        return verdict._replace(login=self._anybody) if verdict.login is NOBODY else verdict

    def _checked(self, claim: Claim, verdict: Verdict) -> Verdict:
        """The password was good when it was asked for; a reload may have come between."""
        now = self._find(claim)
        if now.login is None or verdict.login is None or now.check not in (None, verdict.check):
            return Verdict(None, who=verdict.who)
        return now._replace(check=None)


def accused(claim: Claim, verdict: Verdict) -> str:
    """Who was refused, for the log: `authentication error - User "a"`."""
    user = claim.user or verdict.who
    if claim.nkey:
        who = f" - Nkey {quoted(claim.nkey)}"
    elif user:
        who = f" - User {quoted(user)}"
    elif claim.token:
        who = ' - Token "[REDACTED]"'
    else:
        who = ""
    return f"authentication error{who}"


class _Own:
    """The logins of `leafnodes { authorization {} }`: one user, or one nkey, or a list of users."""

    def __init__(self, options: LeafAuthorization, secrets: Secrets, *, maps: bool) -> None:
        self.defined = options.defined
        self._secrets = secrets
        self._maps = maps and bool(options.users) and not options.user
        account = options.account or GLOBAL_ACCOUNT
        self._nkey: Login | None = None
        self._users: dict[str, Login] = {}
        if options.user:
            single = Login(account, options.user, secret=options.password, proxy_required=options.proxy_required)
            self._users[options.user] = single
        elif options.nkey:
            self._nkey = Login(account, nkey=options.nkey, proxy_required=options.proxy_required)
        else:
            for user in options.users:
                self._users[user.user] = Login(
                    user.account or GLOBAL_ACCOUNT,
                    user.user,
                    secret=user.password,
                    proxy_required=user.proxy_required or options.proxy_required,
                )
        for login in self._users.values():
            secrets.add(login.secret)

    def find(self, claim: Claim) -> Verdict:
        """Judge what a link says."""
        if self._nkey is not None:
            return self._judge_nkey(self._nkey, claim)
        login = self._named(claim) if self._maps else self._users.get(claim.user)
        if login is not None and login.proxy_required:
            return NO_PROXY
        verdict = self._secrets.compare(login, claim, claim.password, Verdict(None))
        return verdict._replace(who=login.user) if self._maps and login is not None else verdict

    def successor(self, login: Login) -> Login | None:
        """The same user or nkey in these logins."""
        now = self._nkey if login.nkey else self._users.get(login.user)
        if now is None or now.proxy_required:
            return None
        return now if (now.account, now.nkey, now.secret) == (login.account, login.nkey, login.secret) else None

    def _judge_nkey(self, login: Login, claim: Claim) -> Verdict:
        if login.proxy_required:
            return NO_PROXY
        if claim.nkey != login.nkey:
            return Verdict(None)
        fault = signature_fault(claim)
        return Verdict(None, told=(fault,)) if fault else Verdict(login)

    def _named(self, claim: Claim) -> Login | None:
        """The user that the certificate names; its subject counts as written only."""
        if claim.certificate is None:
            return None
        from jetbroker.auth.certificates import names_of

        names = names_of(claim.certificate)
        if names is None:
            return None
        return next((self._users[name] for name in (*names.alternatives, *names.written) if name in self._users), None)


def _maps(options: Options) -> bool:
    tls = options.leafnodes.tls
    return tls is not None and tls.verify_and_map
