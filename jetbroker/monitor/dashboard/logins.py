"""Who may see what. The broker's own logins decide; the dashboard has none.

| the broker | who asks | sees |
|---|---|---|
| without logins | anybody | everything, messages included |
| with logins | a user of the system account | the figures of all accounts, no messages |
| | a user of another account | his account: figures and messages |
| | a user with permissions of his own | nothing: the figures would tell more than he may subscribe to |
| in operator mode | anybody | nothing: nobody has a password there |

Name and password come by HTTP Basic with each request, so a reload that takes a login away holds at once. A token is
given as the password, under any name. `no_auth_user` lets nobody in here.
"""

import asyncio
import base64
import binascii
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from jetbroker import limits
from jetbroker.auth.authenticator import Claim, Login
from jetbroker.auth.leaf_logins import accused
from jetbroker.auth.password_queue import Remembered, network_of
from jetbroker.auth.passwords import Check
from jetbroker.monitor.dashboard.guard import Refused
from jetbroker.monitor.http import Request

if TYPE_CHECKING:
    from jetbroker.monitor.sources import Sources

_CHALLENGE = ("WWW-Authenticate", 'Basic realm="jetbroker", charset="UTF-8"')
_NO_LOGIN = "Log in with a user of this broker."
_RESTRICTED = "This user has permissions of its own, and the dashboard shows more than they allow. Use another user."
_OPERATOR_MODE = "In operator mode nobody has a password, so the dashboard lets nobody in. Use `jetbroker top`."
_TOO_MANY = "Too many wrong logins from this address. Try again in a few seconds."


class Scope(NamedTuple):
    """What somebody may see: one account or all of them (None), with their messages or without."""

    account: str | None
    messages: bool


EVERYTHING = Scope(None, True)


class Logins:
    """Judges who asks."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._good = Remembered(loop.time)
        self._failures = Failures(loop.time)

    async def admit(self, sources: "Sources", request: Request) -> Scope:
        """What whoever asks may see. Raises Refused."""
        logins = sources.clients.logins
        authenticator = logins.authenticator
        if sources.options.operator.enabled:
            raise Refused(HTTPStatus.FORBIDDEN, _OPERATOR_MODE)
        if not authenticator.configured:
            return EVERYTHING
        user, password = _given(request.header("authorization"))
        if not (user or password):
            raise _asked_to_log_in()
        known = Check(user, password, 0)
        if self._failures.too_many(request.address) and not self._good.knows(known):
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, _TOO_MANY, ("Retry-After", "5"))
        claim = Claim(user=user, password=password, token=password, address=request.address)
        verdict = authenticator.find(claim)
        is_good = verdict.login is not None
        if verdict.check is not None:
            is_good = await self._checked(sources, verdict.check, request.address, user) and is_good
            if logins.authenticator is not authenticator:  # a reload came between
                return await self.admit(sources, request)
        if verdict.login is None or not is_good:
            self._failures.add(request.address)
            sources.clients.log.error(f"{request.address} - dashboard - {accused(claim, verdict)}")
            raise _asked_to_log_in()
        self._good.add(known)
        return _scope(sources, verdict.login)

    async def _checked(self, sources: "Sources", check: Check, address: str, name: str) -> bool:
        """Hashes take their time: in the queue of all logins, behind those that came before from there."""
        done = self._loop.create_future()

        def tell(is_good: bool) -> None:
            if not done.done():
                done.set_result(is_good)

        sources.clients.logins.passwords.ask(check, address, name, lambda: not done.done(), tell)
        return bool(await done)


def _scope(sources: "Sources", login: Login) -> Scope:
    if login.permissions is not None:
        raise Refused(HTTPStatus.FORBIDDEN, _RESTRICTED)
    account = sources.accounts[login.account]
    return Scope(None, False) if account.is_system else Scope(account.name, True)


def _asked_to_log_in() -> Refused:
    return Refused(HTTPStatus.UNAUTHORIZED, _NO_LOGIN, _CHALLENGE)


def _given(header: str) -> tuple[str, str]:
    """Name and password of an Authorization header; both empty for what is none."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        text = base64.b64decode(value.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return "", ""
    name, _, password = text.partition(":")
    return name, password


class Failures:
    """Wrong logins by network: so many at once, and then one each `limits.DASHBOARD_FAILURE_SECONDS`."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._over_at: OrderedDict[bytes, float] = OrderedDict()  # when all of a network's are forgotten

    def add(self, address: str) -> None:
        """One more from there."""
        network = network_of(address)
        begin = max(self._over_at.get(network, 0.0), self._now())
        self._over_at[network] = begin + limits.DASHBOARD_FAILURE_SECONDS
        self._over_at.move_to_end(network)
        if len(self._over_at) > limits.DASHBOARD_NETWORKS:
            self._over_at.popitem(last=False)

    def too_many(self, address: str) -> bool:
        """Does nobody from there get judged for now?"""
        over_at = self._over_at.get(network_of(address), 0.0)
        return over_at - self._now() > (limits.DASHBOARD_FAILURES - 1) * limits.DASHBOARD_FAILURE_SECONDS
