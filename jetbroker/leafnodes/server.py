"""Leafnodes of the whole server: its port for links, the remotes it dials, and the links there are."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from jetbroker.accounts.account import Account
from jetbroker.auth.authenticator import Authenticator
from jetbroker.auth.credentials import CredentialsError, is_restricted
from jetbroker.auth.leaf_logins import LeafLogins
from jetbroker.config.leaf_reload import ChangedRemote, LeafChanges
from jetbroker.config.options import SYSTEM_ACCOUNT, LeafRemote, Options
from jetbroker.connections.clients import Clients
from jetbroker.connections.halves import Shared
from jetbroker.connections.info import ServerInfo
from jetbroker.errors import LoginRefused
from jetbroker.forms.gotext import quoted
from jetbroker.leafnodes.greeting import Greeting
from jetbroker.leafnodes.hub import Hub
from jetbroker.leafnodes.leafs import Leafs
from jetbroker.leafnodes.link import Link
from jetbroker.leafnodes.remote import Remote
from jetbroker.logs.logger import Logger
from jetbroker.tick import Tick

if TYPE_CHECKING:
    from jetbroker.auth.tokens import KnownAccount


class Leafnodes:
    """Made when a configuration has leafnodes.

    `changed` is called when links came or went.
    """

    def __init__(
        self,
        options: Options,
        tick: Tick,
        accounts: dict[str, Account],
        clients: Clients,
        info: ServerInfo,
        log: Logger,
        changed: Callable[[], None],
    ) -> None:
        self.options = options
        self.log = log
        self.greeting = Greeting(options, info)
        self.leafs = Leafs(options, tick, accounts, self.greeting, clients.next_cid, log, changed)
        self.shared = Shared(tick, self.leafs, clients.shared.turn)
        self.leafs.shared = self.shared
        self.leafs.closed, self.leafs.witness = clients.closed, clients.witness
        self.leafs.unauthenticated, self.leafs.tls_queue = clients.unauthenticated, clients.tls_queue
        self.shared.max_pending = options.max_pending
        self.shared.max_payload = options.max_payload
        self.shared.max_subscriptions = options.max_subscriptions
        self.shared.stall = not options.no_fast_producer_stall
        self.logins = LeafLogins(options, clients.logins.authenticator, clients.logins.passwords)
        self.hub = Hub(options, self.leafs, self.greeting, self.logins, log)
        self.remotes: list[Remote] = []

    async def start(self) -> None:
        """Listen and dial, as the options say. Raises OSError, ConfigError and TlsError."""
        self.leafs.start()
        if self.options.leafnodes.port:
            await self.hub.start()
        for remote in self.options.leafnodes.remotes:
            self._add(remote)

    def _add(self, options: LeafRemote) -> None:
        remote = Remote(options, self.options, self.leafs, self.log)
        self.remotes.append(remote)
        is_system = options.account == (self.options.system_account or SYSTEM_ACCOUNT)
        if is_system:
            for what, denied in (("export", options.deny_exports), ("import", options.deny_imports)):
                if denied:
                    self.log.info(f"Remote for System Account uses restricted {what} permissions")
        if options.credentials:
            account = "System Account" if is_system else f"Account {options.account}"
            self._check_credentials(options.credentials, account)
        remote.start()

    def _check_credentials(self, path: str, account: str) -> None:
        try:
            if is_restricted(path):
                file = f"credentials file {quoted(path)} with restricted permissions"
                self.log.info(f"LeafNode Remote for {account} uses {file}")
        except CredentialsError as error:
            self.log.error(str(error))

    def close(self) -> None:
        """Accept no more; links that are there stay until the end."""
        self.hub.close()

    async def stop(self) -> None:
        """Dial no more, and close every link."""
        self.close()
        for remote in self.remotes:
            remote.stop()
        await self.leafs.stop()

    # --- a reload ---

    def follow(self, changes: LeafChanges) -> None:
        """Remotes come and go; links whose compression differs, or that are disabled, are closed."""
        gone = {id(removed) for removed in changes.removed}
        for remote in list(self.remotes):
            if id(remote.options) in gone:
                self.remotes.remove(remote)
                remote.stop("Client Closed")
        for kept in changes.kept:
            self._follow_kept(kept)
        for added in changes.added:
            self._add(added)
        if changes.compression:
            for link in list(self.leafs.live.values()):
                if link.remote.dialled is None:
                    link.close("Client Closed")

    def _follow_kept(self, kept: ChangedRemote) -> None:
        for remote in self.remotes:
            if remote.options is kept.before:
                remote.options = kept.after
                if kept.disabled and kept.after.disabled:
                    remote.stop("Client Closed")
                elif kept.disabled:
                    remote.start()
                elif kept.compression and remote.link is not None:
                    remote.link.close("Client Closed")

    def replace_logins(self, authenticator: Authenticator) -> None:
        """Other logins hold from now on; links that came in by one that is gone are closed."""
        self.logins.replace(self.options, authenticator)
        for link in list(self.leafs.live.values()):
            peer = link.remote
            if link.closed or peer.login is None or peer.account is None:
                continue
            gone = peer.account.name not in self.leafs.accounts
            login = None if gone else self.logins.renew(peer.login, self.hub.known_of(link))
            if login is not None:
                self.leafs.renew(link, login)
            else:
                link.fail(
                    LoginRefused("Authentication Failure", f"authentication error - User {quoted(peer.user or '')}")
                )

    # --- operator mode ---

    def account_expired(self, account: "KnownAccount") -> None:
        """No link that came in may stay."""
        from jetbroker.connections.token_clients import EXPIRED  # most brokers do without

        for link in self._accepted(account.name):
            self.leafs.expel(link, "Authentication Expired", EXPIRED)

    def account_changed(self, before: "KnownAccount", now: "KnownAccount") -> None:
        """The account has another token: links are bound by it, and end where clients would have to go."""
        from jetbroker.connections.token_clients import end_login, has_other_permissions

        for link in self._accepted(now.name):
            login = link.remote.login
            if login is None or login.token is None or not self.leafs.rebound(link):
                continue
            end_login(link, self.leafs.who, self.log, login.token, before, now)
            if not link.closed and has_other_permissions(login.token, before, now):
                self.leafs.follow_permissions(link, replace(login, permissions=now.default_permissions))

    def _accepted(self, account: str) -> list[Link]:
        found = self.leafs.live.values()
        return [one for one in found if not one.closed and one.remote.dialled is None and one.account.name == account]
