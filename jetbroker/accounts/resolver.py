"""The accounts of operator mode: read from tokens when they are first used, followed when their tokens change.

What a token says becomes an entry of `Options.accounts`, as if it stood in the configuration, and so everything else
finds it. What is wrong with a single import, export or mapping is left out and told at debug level, as in nats-server.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from jetbroker.auth.tokens import KnownAccount
from jetbroker.config.durations import format_duration
from jetbroker.config.nkeys import is_public_key
from jetbroker.config.options import SYSTEM_ACCOUNT, AccountOptions, Options
from jetbroker.config.tokens import checks
from jetbroker.config.tokens.accounts import account_options
from jetbroker.config.tokens.claims import AccountClaims, read_account
from jetbroker.config.tokens.fields import TokenError
from jetbroker.errors import ConfigError

if TYPE_CHECKING:
    from jetbroker.accounts.graph import Flaw, Graph
    from jetbroker.logs.logger import Logger

MISSING, INVALID = "account missing", "account validation failed"
_LONGEST_TIMER_SECONDS = 86_400.0
_SHORTEST_TIMER_SECONDS = 0.001


class Effects(NamedTuple):
    """What the resolver asks of the broker.

    `apply`: the accounts of `Options.accounts` are to be as they say, with this graph between them (where a set comes
    with it, only these have changed); `changed`: an account has another token; `expired`: nobody may stay in it.
    """

    apply: "Callable[[Graph, set[str] | None], None]"
    changed: Callable[[KnownAccount, KnownAccount], None]
    expired: Callable[[KnownAccount], None]


class Resolver:
    """Knows every account that was used, and the tokens of all that may be."""

    def __init__(self, options: Options, loop: asyncio.AbstractEventLoop, log: "Logger", effects: Effects) -> None:
        self._options = options
        self._loop = loop
        self._log = log
        self._effects = effects
        self.unpinned = 0  # logins that were refused because their account is not pinned
        self._known: dict[str, KnownAccount] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._activation_timer: asyncio.TimerHandle | None = None
        self._told: set[Flaw] = set()
        self._graph: Graph = {}
        self._importers: dict[str, set[str]] = {}  # by the account they import from

    def start(self) -> None:
        """Read the system account. Raises ConfigError when there is none."""
        name = self._options.system_account
        if name and name != SYSTEM_ACCOUNT:
            try:
                self._take(*self._found(name))
            except TokenError as error:
                raise ConfigError(f"error resolving system account: {error}") from None
            self._apply(None)

    def find(self, name: str) -> KnownAccount:
        """An account, read in when it is used for the first time. Raises TokenError."""
        known = self._known.get(name)
        if known is None:
            try:
                token, claims = self._found(name)
            except TokenError as error:
                if str(error) == MISSING:
                    self._log.warn(f"Account fetch failed: {MISSING}")
                raise
            self._log.debug(f"Updating account claims: {name}/{claims.name}")
            self._apply(self._take(token, claims))
            return self._known[name]
        if known.expired:
            self._log.debug(f"Requested account [{name}] has expired")
            token = self._fetch(name)
            if token != known.token:
                self.update(name, token)
        return self._known[name]

    def find_stored(self, names: list[str]) -> None:
        """Read the accounts that have something stored; what there is no token for stays where it is."""
        for name in names:
            if name in self._options.operator.preload:
                try:
                    self.find(name)
                except TokenError as error:
                    self._log.warn(f"Account [{name}] has streams, but cannot be used: {error}")
            else:
                self._log.warn(f"Account [{name}] has streams, but there is no token for it")

    def knows(self, name: str) -> KnownAccount | None:
        """An account that is in use."""
        return self._known.get(name)

    def count_unpinned(self) -> None:
        """Somebody came whose account is not pinned."""
        self.unpinned += 1

    def update(self, name: str, token: str) -> bool:
        """Another token for an account; False when it is not in use: nothing happens then. Raises TokenError."""
        known = self._known.get(name)
        if known is None:
            return False
        if known.token == token:
            self._log.debug(f"Requested account update for [{name}], same claims detected")
            return True
        claims = self._verified(name, token)
        self._log.debug(f"Updating account claims: {name}/{claims.name}")
        self._take(token, claims)
        self._apply(None)
        self._effects.changed(known, self._known[name])
        return True

    def reload(self) -> None:
        """The options were read anew: every account that is in use is as its token there says, or gone."""
        other: list[tuple[KnownAccount, str, AccountClaims]] = []
        known, self._known = self._known, {}
        for name, before in known.items():
            try:
                token = self._fetch(name)
                claims = before.claims if token == before.token else self._verified(name, token)
            except TokenError:
                self._forget(name)
                self._log.info(f'Reloaded: deleting account [removed]: "{name}"')
                continue
            if token == before.token:
                self._log.debug(f"Requested account update for [{name}], same claims detected")
                self._known[name] = before
                self._options.accounts[name] = self._options_of(claims)
            else:
                other.append((before, token, claims))
        for _, token, claims in other:  # what they import from stays as it is known, with its timer
            self._log.debug(f"Updating account claims: {claims.subject}/{claims.name}")
            self._take(token, claims)
        self._apply(None)
        for before, _, claims in other:
            self._effects.changed(before, self._known[claims.subject])

    def check_preload(self) -> None:
        """Warn of accounts that nobody will be able to use."""
        for name, token in self._options.operator.preload.items():
            wrong = checks.check_account(read_account(token))
            if wrong:
                self._log.warn(f"Account [{name}] has validation issues:")
                for what in wrong:
                    self._log.warn(f"  - {what}")

    # --- reading ---

    def _fetch(self, name: str) -> str:
        began = time.perf_counter_ns()
        try:
            return self._stored(name)
        finally:
            took = format_duration((time.perf_counter_ns() - began) / 1e9)
            self._log.debug(f"Account [{name}] fetch took {took}")

    def _stored(self, name: str) -> str:
        """The token of an account. Raises TokenError."""
        if not is_public_key("account", name):
            raise TokenError("will only fetch valid account keys")
        token = self._options.operator.preload.get(name)
        if token is None:
            raise TokenError(MISSING)
        return token

    def _verified(self, name: str, token: str) -> AccountClaims:
        """The claims of an account's token that a trusted operator signed and that holds now. Raises TokenError."""
        claims = read_account(token)
        trusted = claims.issuer in self._options.operator.trusted_keys
        if not trusted or checks.check_account(claims) or claims.subject != name:
            raise TokenError(INVALID)
        return claims

    def _found(self, name: str) -> tuple[str, AccountClaims]:
        """The token of an account and what it says. Raises TokenError."""
        token = self._fetch(name)
        return token, self._verified(name, token)

    def _take(self, token: str, claims: AccountClaims) -> set[str]:
        """Take over what a token says. Accounts that it imports from are read too, one after the other.

        Returns these accounts and those that waited for them.
        """
        waiting = [(token, claims)]
        touched: set[str] = set()
        while waiting:
            text, found = waiting.pop()
            known = KnownAccount.of(text, found, self._options.operator.strict_keys)
            self._known[known.name] = known
            self._options.accounts[known.name] = self._options_of(found)
            touched |= {known.name, *(self._importers.get(known.name, set()) & self._known.keys())}
            self._expect_end(known)
            self._tell_unsupported(known)
            for entry in found.imports:
                self._importers.setdefault(entry.account, set()).add(known.name)
                if entry.account in self._known or any(entry.account == other.subject for _, other in waiting):
                    continue
                try:
                    waiting.append(self._found(entry.account))
                except TokenError as error:
                    what = f"for import of [{entry.subject}] {entry.kind} (err={error})"
                    self._log.error(f"Can't locate account [{entry.account}] {what}")
        return touched

    def _options_of(self, claims: AccountClaims) -> AccountOptions:
        options = account_options(claims)
        if claims.subject == self._options.system_account and options.jetstream is not None:
            self._log.error(f"Error configuring jetstream for account [{claims.subject}/{claims.name}]: "
                            "jetstream can not be enabled on the system account")  # fmt: skip
            options.jetstream = None
        return options

    def _tell_unsupported(self, known: KnownAccount) -> None:
        claims = known.claims
        if claims.external_users:
            self._log.warn(f"Account [{known.label}] has an authorization service: only its auth_users may come")
        ignored = [f"service_latency of {entry.subject}" for entry in claims.exports if entry.latency is not None]
        for what in ignored:
            self._log.warn(f"Account [{known.label}]: {what} has no effect yet")

    def _forget(self, name: str) -> None:
        self._options.accounts.pop(name, None)
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    # --- what follows ---

    def _apply(self, only: set[str] | None) -> None:
        """Make the accounts, or only these, what the tokens say."""
        if not self._graph:
            only = None
        judged_at = time.time()
        self._effects.apply(self._work_out(only), only)
        self._expect_activation_end(judged_at)

    def _work_out(self, only: set[str] | None) -> "Graph":
        """What the accounts that are in use give each other."""
        if not self._options.uses_sharing:
            self._graph, self._told = {}, set()
            return {}
        from jetbroker.accounts.graph import work_out

        found, flaws = work_out(self._options, self._graph, only)
        self._graph = found
        told = set(flaws)
        for flaw in flaws:
            if flaw not in self._told:
                known = self._known.get(flaw.account)
                label = flaw.account if known is None else known.label
                if flaw.doubt:
                    self._log.error(flaw.doubt)
                self._log.debug(f"Error adding {flaw.what} to account [{label}]: {flaw.why}")
        self._told = told if only is None else self._told | told
        return found

    def _expect_end(self, known: KnownAccount) -> None:
        timer = self._timers.pop(known.name, None)
        if timer is not None:
            timer.cancel()
        if known.claims.expires and not known.expired:
            self._wait_for_end(known, float(known.claims.expires - int(time.time())))

    def _wait_for_end(self, known: KnownAccount, seconds: float) -> None:
        due = self._loop.time() + seconds
        step = min(seconds, _LONGEST_TIMER_SECONDS)
        self._timers[known.name] = self._loop.call_later(step, self._end, known, due)

    def _end(self, known: KnownAccount, due: float) -> None:
        left = due - self._loop.time()
        if left > 0.001:
            self._wait_for_end(known, left)
            return
        self._timers.pop(known.name, None)
        known.expired = True
        self._effects.expired(known)

    def _expect_activation_end(self, judged_at: float) -> None:
        """When the next permission to import ends, the graph is another one.

        The timer may have been early: one that has ended only since the graph was judged is still in it.
        """
        if self._activation_timer is not None:
            self._activation_timer.cancel()
            self._activation_timer = None
        ends = [
            entry.activation.expires
            for account in self._options.accounts.values()
            for entry in account.imports
            if entry.activation is not None and entry.activation.expires > judged_at
        ]
        if ends:
            seconds = min(max(min(ends) - time.time(), _SHORTEST_TIMER_SECONDS), _LONGEST_TIMER_SECONDS)
            self._activation_timer = self._loop.call_later(seconds, self._apply, None)
