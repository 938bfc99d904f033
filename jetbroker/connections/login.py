"""CONNECT: who a client is and what it asks for; the time it has to say so. All of it per event.

A reload judges everybody again (:meth:`Logins.replace`).
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from jetbroker import limits
from jetbroker.accounts.account import Account
from jetbroker.addresses import split
from jetbroker.auth.authenticator import FAILED, NOBODY, Authenticator, Claim, Login, Renewal, Verdict
from jetbroker.auth.nkeys import new_nonce
from jetbroker.auth.password_queue import PasswordQueue
from jetbroker.auth.passwords import Check
from jetbroker.bounds import least
from jetbroker.config.options import GLOBAL_ACCOUNT, UNLIMITED, Options
from jetbroker.connections.client import ClientProtocol
from jetbroker.connections.events import Witness
from jetbroker.connections.expulsion import expel
from jetbroker.connections.handshake import ConnectOptions, decode_connect
from jetbroker.connections.identity import REDACTED, Refused, name_of, named
from jetbroker.connections.resets import has_ended
from jetbroker.errors import LoginRefused, ProtocolError
from jetbroker.forms.gotext import quoted
from jetbroker.logs.logger import Logger

if TYPE_CHECKING:
    from jetbroker.auth.tokens import UserToken

Judge = Callable[[ClientProtocol, Verdict], None]


class Logins:
    """Judges the CONNECTs of all clients."""

    def __init__(
        self,
        authenticator: Authenticator,
        accounts: dict[str, Account],
        options: Options,
        loop: asyncio.AbstractEventLoop,
        log: Logger,
        who: Callable[[ClientProtocol], str],
        witness: Witness,
    ) -> None:
        self.authenticator = authenticator
        self.accounts = accounts
        self.options = options
        self._loop = loop
        self._log = log
        self._who = who
        self._witness = witness
        self._next_told = 0.0  # loop time
        self.passwords = PasswordQueue(loop)

    @property
    def first_account(self) -> Account:
        """Whose a connection is that has said nothing yet."""
        return self.accounts[GLOBAL_ACCOUNT]

    def greet(self, client: ClientProtocol) -> None:
        """Before the first INFO: something to sign, when anybody logs in so."""
        if self.authenticator.nonce_required:
            client.identity.nonce = new_nonce()

    def expect(self, client: ClientProtocol) -> None:
        """Start the clock of a client that has to log in."""
        if client.login_pending and not client.identity.is_awaited:
            timeout = self.authenticator.timeout(client.kind)
            client.identity.await_until(self._loop.call_later(timeout, self._timed_out, client))

    def stop(self) -> None:
        """End the threads; what they are at is thrown away."""
        self.passwords.stop()

    # --- CONNECT ---

    def connect(self, client: ClientProtocol, raw: bytes) -> None:
        """CONNECT: check the credentials, then apply what it asks for. Raises ProtocolError."""
        options = decode_connect(raw, self._said_before(client))
        client.identity.add_cookies(options)
        if not client.connected:  # what a later CONNECT says counts only once it is good
            client.name, client.lang, client.version = options.name, options.lang, options.version
            client.identity.user = named(options) or None
        verdict = self.authenticator.find(self._claim(client, options))
        self._tell(client, verdict)
        if verdict.check is None:
            self._judge(client, options, verdict)
            return
        name = verdict.who or named(options)
        self._run(client, verdict.check, name, verdict, lambda _, checked: self._judge_parked(client, options, checked))

    def begin_silently(self, client: ClientProtocol) -> None:
        """The client begins with something else than CONNECT. Raises ProtocolError, unless `no_auth_user` may."""
        options = ConnectOptions()
        verdict = self.authenticator.find_silent(self._claim(client, options))
        login = verdict.login
        if login is None or verdict.check is not None:
            raise _refused(options, verdict, asked=False)
        account = self._room_for(client, login)
        self._enter(client, options, login)
        client.apply_anonymous(account.router, account, login.permissions)
        self._witness.came(client)

    def _said_before(self, client: ClientProtocol) -> ConnectOptions:
        options = ConnectOptions()
        if not client.connected:
            return options
        client.remember_options(options)
        client.identity.add_said_before(options)
        return options

    def _claim(self, client: ClientProtocol, options: ConnectOptions) -> Claim:
        return Claim(
            client.kind,
            options.user,
            options.password,
            options.auth_token,
            options.nkey,
            options.sig,
            client.identity.nonce or b"",
            None if client.tls is None else client.tls.peer_certificate,
            options.jwt,
            split(client.peer)[0],
        )

    def _tell(self, client: ClientProtocol, verdict: Verdict) -> None:
        """What the log is told of a verdict."""
        tell = self._log.error if verdict.loud else self._log.debug
        for line in verdict.told:
            tell(f"{self._who(client)} - {line}")

    def _judge(self, client: ClientProtocol, options: ConnectOptions, verdict: Verdict) -> None:
        login = verdict.login
        if login is None:
            known = client.identity.login
            if not client.connected:
                client.identity.refused = Refused(token=verdict.shown)
            raise _refused(options, verdict, None if known is None else known.token)
        if verdict.who and options.user:
            self._log.warn(f'User "{options.user}" found in connect proto, but user required from cert')
        account = self._room_for(client, login)
        options.nkey = options.nkey or login.nkey
        if options.account or options.new_account:
            self._tell_token(client, login)
            if not client.connected:
                self._note(client, account, login)
                client.identity.user = name_of(options, login)
            raise _refused(options, Verdict(None, who=login.user), login.token)
        options.headers = options.headers and not self.options.no_header_support
        wrong = _wrong(options)
        if wrong is not None:  # too late: it is somebody already, for the log and for monitoring
            options.protocol, options.verbose = 0, False
        self._enter(client, options, login)
        self._tell_token(client, login)
        client.apply_connect(options, account.router, account, login.permissions)
        self._witness.came(client)
        if wrong is not None:
            raise wrong

    def _tell_token(self, client: ClientProtocol, login: Login) -> None:
        if login.token is not None:
            self._log.debug(f"{self._who(client)} - {login.token.told}")

    def _note(self, client: ClientProtocol, account: Account, login: Login, *, full: bool = False) -> None:
        token = "" if login.token is None else login.token.shown
        client.identity.refused = Refused(account, None if full else login, token)

    def _judge_parked(self, client: ClientProtocol, options: ConnectOptions, verdict: Verdict) -> None:
        """The check of a parked client is done."""
        try:
            self._judge(client, options, verdict)
        except ProtocolError as error:
            client.fail(error)
            return
        client.unpark()

    def _room_for(self, client: ClientProtocol, login: Login) -> Account:
        """The account a client comes into. Raises ProtocolError when that has as many as it may."""
        account = self.accounts[login.account]
        others = account.links + account.connections - (client.connected and client.account is account)
        if 0 <= self.options.limits_of(account.name).max_connections <= others:
            if not client.connected:
                self._note(client, account, login, full=True)
            raise account_full()
        return account

    def _enter(self, client: ClientProtocol, options: ConnectOptions, login: Login) -> None:
        """The client is one of its account's now; what else it asked for is applied next."""
        account = self.accounts[login.account]
        if client.connected:
            client.account.connections -= 1
        account.connections += 1
        client.identity.enter(login, options)
        self._bound(client, account)
        self._follow_end(client, login.token)

    # --- limits of accounts ---

    def _bound(self, client: ClientProtocol, account: Account) -> int:
        """The smallest one of server, account and user holds. Returns how many subscriptions there may be."""
        options, bounds = self.options, self.options.limits_of(account.name)
        login = client.identity.login
        if login is not None and login.token is not None:
            own = login.token.may.limits
            bounds = replace(
                bounds,
                max_payload=least(own.payload, bounds.max_payload),
                max_subscriptions=least(own.subscriptions, bounds.max_subscriptions),
            )
        for most, of_account, what in (
            (options.max_payload, bounds.max_payload, "Max Payload"),
            (options.max_subscriptions, bounds.max_subscriptions, "Max Subscriptions"),
        ):
            if 0 < most < of_account:
                set_to = f"{what} set to {most} from server overrides account or user config"
                self._log.debug(f"{self._who(client)} - {set_to}")
        client.set_max_payload(least(bounds.max_payload, self.options.max_payload))
        most = least(bounds.max_subscriptions, options.max_subscriptions or UNLIMITED)
        client.subscriptions.most = most
        return most

    # --- passwords take their time ---

    def _run(
        self,
        client: ClientProtocol,
        check: Check,
        name: str,
        verdict: Verdict,
        judge: Judge,
        *,
        must_be_checked: bool = False,
    ) -> None:
        """Have a password checked, then judge, unless the client is gone by then.

        The client is parked meanwhile: nothing it says counts before it is judged.
        """
        client.park()
        client.identity.checking = True
        authenticator = self.authenticator

        def checked(is_good: bool) -> None:
            client.identity.checking = False
            if not client.closed:
                judge(client, self._verdict_of(client, verdict, authenticator, is_good=is_good))

        def wanted() -> bool:
            # who has left or timed out meanwhile is not worth anybody's time any more
            if not client.closed and client.says_no_more and has_ended(client.transport.get_extra_info("socket")):
                client.abort("Client Closed")
            return not client.closed

        address = split(client.peer)[0]
        self.passwords.ask(check, address, name, wanted, checked, must_be_checked=must_be_checked)

    def _verdict_of(
        self, client: ClientProtocol, verdict: Verdict, authenticator: Authenticator, *, is_good: bool
    ) -> Verdict:
        """What became of a verdict with a check; `authenticator` gave it."""
        found = verdict._replace(check=None, login=verdict.login if is_good else None)
        if authenticator is self.authenticator or found.login is None:
            return found
        # a reload came between: the user as it is now, if that is the same one
        renewal, renewed = self.authenticator.renew(found.login, self._connection_of(client))
        return renewed if renewal is Renewal.STAYS and renewed.check is None else Verdict(None)

    def _timed_out(self, client: ClientProtocol) -> None:
        client.identity.stop_clock()
        if client.login_pending and not client.closed:
            now = self._loop.time()
            if now >= self._next_told:  # who waits for a login and says nothing does so often
                self._next_told = now + limits.SAME_ERROR_SECONDS
                self._log.debug(f"{self._who(client)} - Authentication Timeout")
            client.close("Authentication Timeout", "Authentication Timeout")

    # --- logins that end ---

    def _follow_end(self, client: ClientProtocol, token: "UserToken | None") -> None:
        ends_in = None if token is None else token.ends_in
        client.identity.end_with(None if ends_in is None else self._loop.call_later(ends_in, self._ended, client))

    def _ended(self, client: ClientProtocol) -> None:
        client.identity.end_with(None)
        self.expel(client, "Authentication Expired", "User Authentication Expired")

    def seconds_left(self, client: ClientProtocol) -> float | None:
        """Until the login ends; None: it does not."""
        ends_at = client.identity.ends_at
        return None if ends_at is None else ends_at - self._loop.time()

    def expel(self, client: ClientProtocol, reason: str, text: str) -> None:
        """End a login that was good until now."""
        expel(client, self._who, self._log, reason, text)

    def rebound(self, client: ClientProtocol) -> bool:
        """The limits of a client's account are other ones; False when it has too many subscriptions to stay."""
        if 0 <= self._bound(client, client.account) < client.subscription_count:
            client.close("Maximum Subscriptions Exceeded", "maximum subscriptions exceeded")
            return False
        return True

    # --- reload ---

    def replace(self, authenticator: Authenticator, clients: Iterable[ClientProtocol]) -> None:
        """Other logins hold from now on. Everybody connected is judged by them, in the order they came.

        `accounts` and `options` have been brought up to date. Whose user is gone or in another account now is closed
        without a word, who would not be let in any more with `Authorization Violation`; the others go on with the
        permissions and limits they would get now.
        """
        self.authenticator = authenticator
        counts: Counter[str] = Counter()
        for client in list(clients):
            if client.closed or client.identity.checking:  # who is being checked is judged at the end of that
                continue
            if client.connected:
                self._renew(client, counts)
            elif authenticator.due(client.kind) and authenticator.find(self._connection_of(client)).login is None:
                client.fail(_refused(ConnectOptions(), Verdict(None)))

    def _connection_of(self, client: ClientProtocol) -> Claim:
        """A claim of what is known beside the credentials, and of those that were given without need."""
        options = ConnectOptions()
        client.identity.add_given(options)
        return self._claim(client, options)

    def _renew(self, client: ClientProtocol, counts: Counter[str]) -> None:
        renewal, verdict = self.authenticator.renew(client.identity.login, self._connection_of(client))
        self._tell(client, verdict)
        account: Account = client.account
        name = account.name
        known = client.identity.login
        by_token = known is not None and known.token is not None
        removed = self.accounts.get(name) is not account
        if renewal is Renewal.GONE or (removed and not by_token):
            client.close("Client Closed")
        elif renewal is Renewal.REFUSED:
            self._end(client, verdict)
        elif 0 <= self.options.limits_of(account.name).max_connections <= account.links + counts[name]:
            client.fail(account_full())
        else:
            counts[name] += 1
            if verdict.check is None:
                self._go_on(client, verdict)
            else:
                self._run(client, verdict.check, client.identity.user or "", verdict, self._go_on, must_be_checked=True)

    def _go_on(self, client: ClientProtocol, verdict: Verdict) -> None:
        """A connected client stays as what it is by the new logins."""
        if verdict.login is None:
            self._end(client, verdict)
            return
        client.identity.renew(verdict.login)
        self._tell_token(client, verdict.login)
        self._follow_end(client, verdict.login.token)
        if not self.rebound(client):
            return
        client.apply_permissions(verdict.login.permissions)
        client.unpark()

    def _end(self, client: ClientProtocol, verdict: Verdict) -> None:
        login = client.identity.login or NOBODY
        client.fail(_refused(client.identity.accused(), verdict, login.token))


def account_full() -> ProtocolError:
    """There are more connections of an account than it may have."""
    text = "maximum account active connections exceeded"
    return ProtocolError(text, "Maximum Account Connections Exceeded", often=True)


def _wrong(options: ConnectOptions) -> ProtocolError | None:
    """What a CONNECT asks for that nobody can have."""
    if options.protocol not in (0, 1):
        return ProtocolError("invalid client protocol", "Bad Client Protocol Version")
    if options.no_responders and not options.headers:
        return ProtocolError("no responders requires headers support", "No Responders Requires Headers")
    return None


def _refused(
    options: ConnectOptions, verdict: Verdict, token: "UserToken | None" = None, *, asked: bool = True
) -> LoginRefused:
    """For the log: who it was that gave no valid login, or a valid `token`, but nothing came of it."""
    user = options.user or verdict.who
    if options.nkey:
        who = f" - Nkey {quoted(options.nkey.encode())}"
    elif user:
        who = f" - User {quoted(user.encode())}"
    elif token is not None:
        who = f' - JWT User "{token.claims.subject}"'
    elif options.auth_token:
        who = f' - Token "{REDACTED}"'
    else:
        who = ""
    reason = FAILED if verdict.login is not None else verdict.reason
    return LoginRefused(reason, f"authentication error{who}", asked=asked)
