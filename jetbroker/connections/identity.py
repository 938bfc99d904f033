"""Who one client is, and what it has shown for that: what its logins leave behind."""

import asyncio
from typing import NamedTuple

from jetbroker.accounts.account import Account
from jetbroker.auth.authenticator import NOBODY, Login
from jetbroker.config.checks import is_bcrypt
from jetbroker.connections.handshake import ConnectOptions

REDACTED = "[REDACTED]"  # stands where a token was


class Given(NamedTuple):
    """Credentials in the cookies of a websocket's request, or in a CONNECT that needed none."""

    user: str = ""
    password: str = ""
    token: str = ""
    nkey: str = ""
    jwt: str = ""


class Refused(NamedTuple):
    """What is known of somebody whose CONNECT was not taken: where it would have belonged, and what it showed.

    `account` without `login`: only that account had no room. `token` is its text (operator mode), if that may be shown.
    """

    account: Account | None = None
    login: Login | None = None
    token: str = ""


class Identity:
    """One for each connection, from its beginning to its end."""

    __slots__ = ("_clock", "_cookies", "_end", "_given", "_signature", "checking", "login", "nonce", "refused", "user")

    def __init__(self) -> None:
        self.user: str | None = None  # name for the log and for monitoring, None without a login
        self.login: Login | None = None  # once it has logged in: what a reload judges again
        self.nonce: bytes | None = None  # that an nkey has to sign, None when nobody needs one
        self.refused: Refused | None = None  # its CONNECT was not taken: monitoring tells of it
        self.checking = False  # a password is being checked, and the client is parked
        self._given: Given | None = None  # by one who did not have to: a reload may ask for it
        self._cookies = Given()
        self._signature = ""  # of the nonce: it holds for later CONNECTs too
        self._clock: asyncio.TimerHandle | None = None  # until it has to have logged in
        self._end: asyncio.TimerHandle | None = None  # of a login that does not last for ever

    # --- what it has shown ---

    def show_cookies(self, cookies: Given) -> None:
        """What stands in a websocket's cookies counts where CONNECT says nothing."""
        self._cookies = cookies

    def add_cookies(self, options: ConnectOptions) -> None:
        """Fill in what CONNECT left out."""
        options.user = options.user or self._cookies.user
        options.password = options.password or self._cookies.password
        options.auth_token = options.auth_token or self._cookies.token
        options.jwt = options.jwt or self._cookies.jwt

    def add_said_before(self, options: ConnectOptions) -> None:
        """What an earlier CONNECT said stays, where the next one leaves it out (but no password that is hashed)."""
        login = self.login or NOBODY
        options.user, options.nkey = login.user, login.nkey
        secret = "" if is_bcrypt(login.secret) else login.secret
        options.password, options.auth_token = ("", secret) if login.by_token else (secret, "")
        self.add_given(options)
        if login.token is not None:
            options.jwt = login.token.text
        options.sig = self._signature

    def add_given(self, options: ConnectOptions) -> None:
        """The credentials that were given without need."""
        if self._given is not None:
            options.user, options.password, options.auth_token, options.nkey, options.jwt = self._given

    def enter(self, login: Login, options: ConnectOptions) -> None:
        """It is somebody now, by this CONNECT."""
        self.stop_clock()
        self.user = name_of(options, login)
        self.login = None if login is NOBODY else login
        if options.sig and self.login is not None:
            self._signature = options.sig
        given = Given(options.user, options.password, options.auth_token, options.nkey, options.jwt)
        self._given = given if self.login is None and any(given) else None

    def renew(self, login: Login) -> None:
        """By the logins that hold from now on it is this one."""
        self.login = None if login is NOBODY else login
        if self.login is not None:
            self._given = None

    # --- how it is called ---

    def label(self) -> str:
        """For the log: by nkey, by token or by name."""
        if self.user == REDACTED:
            return "token"
        if self.login is not None and self.login.token is not None and self.user == self.login.token.claims.subject:
            return f"jwt:{self.user}"
        return f"nkey:{self.user}" if self._by_nkey() else f"user:{self.user}"

    def _by_nkey(self) -> bool:
        """Whether it named an nkey, though maybe nobody asked for one."""
        if self._given is not None:
            return bool(self._given.nkey)
        return self.login is not None and bool(self.login.nkey)

    def accused(self) -> ConnectOptions:
        """As whom a login that is no good any more stands in the log; a token is not shown."""
        options = ConnectOptions()
        login = self.login or NOBODY
        options.user, options.nkey = login.user, login.nkey
        options.auth_token = REDACTED if login.by_token else ""
        if self._given is not None:
            options.user, options.nkey = self._given.user, self._given.nkey
            options.auth_token = REDACTED if self._given.token else ""
        return options

    # --- its time ---

    @property
    def is_awaited(self) -> bool:
        """Does the clock run until which it has to log in?"""
        return self._clock is not None

    def await_until(self, clock: asyncio.TimerHandle) -> None:
        """It has to log in before this is due."""
        self._clock = clock

    def stop_clock(self) -> None:
        """It has logged in, or its time is over."""
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    @property
    def ends_at(self) -> float | None:
        """When the login ends, in the loop's time; None: it does not."""
        return None if self._end is None else self._end.when()

    def end_with(self, end: asyncio.TimerHandle | None) -> None:
        """The login is over when this is due; None: it lasts."""
        if self._end is not None:
            self._end.cancel()
        self._end = end

    def leave(self) -> None:
        """The connection is gone: no timer holds on to it."""
        self.stop_clock()
        self.end_with(None)


def named(options: ConnectOptions) -> str:
    """Whom a CONNECT names, for the log and for monitoring; a token is never shown."""
    return options.nkey or options.user or (REDACTED if options.auth_token else "")


def name_of(options: ConnectOptions, login: Login) -> str | None:
    """What somebody who may come in is called."""
    if login.token is not None:
        return options.nkey or options.user or login.token.claims.subject
    return login.nkey or login.user or named(options) or None
