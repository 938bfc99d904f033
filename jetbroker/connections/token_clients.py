"""Operator mode: connected clients follow what the tokens of their accounts say from now on."""

from collections.abc import Callable

from jetbroker.auth.authenticator import Verdict
from jetbroker.auth.tokens import KnownAccount, UserToken
from jetbroker.config.tokens.claims import is_revoked
from jetbroker.connections.client import ClientProtocol
from jetbroker.connections.clients import Clients
from jetbroker.connections.expulsion import Peer, expel
from jetbroker.connections.login import account_full
from jetbroker.errors import LoginRefused
from jetbroker.logs.logger import Logger

REVOKED = "User Authentication Revoked"
EXPIRED = "Account Authentication Expired"


class TokenClients:
    """The clients of a broker, by what their tokens and their accounts' tokens say."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def account_expired(self, account: KnownAccount) -> None:
        """Nobody may stay."""
        for client in self._of(account.name):
            self._clients.logins.expel(client, "Authentication Expired", EXPIRED)

    def account_changed(self, before: KnownAccount, now: KnownAccount) -> None:
        """The account has another token: who is too many, revoked, or signed by a key that lost its say has to go."""
        logins = self._clients.logins
        count = 0
        for client in self._of(now.name):
            most = logins.options.limits_of(client.account.name).max_connections
            if 0 <= most <= client.account.links + count:
                client.fail(account_full())
                continue
            count += 1
            login = client.identity.login
            if login is None or login.token is None or not logins.rebound(client):
                continue
            token = login.token
            if has_other_permissions(token, before, now):
                client.apply_permissions(now.default_permissions)
            end_login(client, self._clients.who, self._clients.log, token, before, now)

    def _of(self, account: str) -> list[ClientProtocol]:
        """Those logged in, oldest first."""
        found = self._clients.connected.values()
        return [one for one in found if one.connected and not one.closed and one.account.name == account]


def has_other_permissions(token: UserToken, before: KnownAccount, now: KnownAccount) -> bool:
    """Are those of the account his, and other ones now?"""
    return token.has_default_permissions and before.claims.default_permissions != now.claims.default_permissions


def end_login(
    peer: Peer, who: Callable[[Peer], str], log: Logger, token: UserToken, before: KnownAccount, now: KnownAccount
) -> None:
    """Close a client or a link whose token is good no more, now that its account has another one."""
    if token.claims.may.bearer and now.claims.limits.disallow_bearer:
        log.debug(f"{who(peer)} - Bearer User JWT not allowed")
        detail = f'authentication error - JWT User "{peer.user}"'
        peer.fail(LoginRefused(Verdict(None).reason, detail, asked=False))
    elif is_revoked(now.claims.revocations, token.claims.subject, token.claims.issued_at):
        expel(peer, who, log, "Credentials Revoked", REVOKED)
    elif not _still_signs(token, before, now):
        peer.close("Authentication Failure")


def _still_signs(token: UserToken, before: KnownAccount, now: KnownAccount) -> bool:
    """Does the key that signed the user still sign for the account, with the same scope?"""
    issuer = token.claims.issuer
    if not token.claims.issuer_account:
        return True
    return issuer in now.signers and before.signers.get(issuer) == now.signers[issuer]
