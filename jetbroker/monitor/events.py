"""Events: connections that come into an account and leave it, and how many there are; what became of messages.

Made only for who listens. What nobody listens to costs a look at a number.
"""

import asyncio
import time
from typing import TYPE_CHECKING, Any

from jetbroker import limits
from jetbroker.accounts.account import Account
from jetbroker.config.options import GLOBAL_ACCOUNT
from jetbroker.connections.client import ClientProtocol
from jetbroker.connections.events import Witness
from jetbroker.errors import LoginRefused
from jetbroker.monitor.envelope import Envelope
from jetbroker.monitor.loading import loaded
from jetbroker.routing.router import Router
from jetbroker.tick import Tick

_AUTH_ERROR = "$SYS.ACCOUNT.CLIENT.AUTH.ERR"  # in the account itself

if TYPE_CHECKING:
    from jetbroker.connections.connected import Connected
    from jetbroker.tracing.trace import MessageTrace


class Events(Witness):
    """Of one broker."""

    def __init__(self, tick: Tick, envelope: Envelope) -> None:
        self._loop = tick.loop
        self._envelope = envelope
        self._router: Router | None = None  # of the system account
        self._accounts: list[Account] = []
        self._unheard: dict[str, int] = {}  # generation of the router at which nobody listened, by account
        self._changed: dict[str, None] = {}  # accounts whose numbers are to be told
        self._telling: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def attach(self, system: Account, accounts: list[Account]) -> None:
        """This is the system account now, and these are all of them."""
        if self._timer is None:
            self._timer = self._loop.call_later(limits.ACCOUNT_BEAT_SECONDS, self._beat)
        self._router, self._accounts, self._unheard = system.router, accounts, {}

    def close(self) -> None:
        """The server has ended: nothing is told any more."""
        if self._timer is not None:
            self._timer.cancel()

    # --- of connections ---

    def came(self, connection: "Connected") -> None:
        """It has logged in: CONNECT."""
        account = connection.account
        if not self._is_heard(account.name):
            return
        self._count(account.name)
        subject = f"$SYS.ACCOUNT.{account.name}.CONNECT"
        if self._router is not None and self._router.interested(subject.encode()):
            self._send(subject, self._typed("client_connect") | {"client": self._described(connection)})

    def left(self, connection: "Connected", reason: str) -> None:
        """It is gone: DISCONNECT."""
        account = connection.account
        if not self._is_heard(account.name):
            return
        self._count(account.name)
        subject = f"$SYS.ACCOUNT.{account.name}.DISCONNECT"
        if self._router is not None and self._router.interested(subject.encode()):
            self._send(subject, self._ended(connection, reason))

    def refused(self, connection: "Connected", error: LoginRefused) -> None:
        """Its login is no good: AUTH.ERR, to the account that it was in, and to the operators."""
        system = self._router
        if system is None:
            return
        heard = [(connection.account.router, _AUTH_ERROR)] if error.asked and connection.account is not None else []
        heard.append((system, f"$SYS.SERVER.{self._envelope.server_id}.CLIENT.AUTH.ERR"))
        for router, subject in heard:
            if router.interested(subject.encode()):
                self._send(subject, self._ended(connection, error.reason), router)

    def _ended(self, connection: "Connected", reason: str) -> dict[str, Any]:
        return self._typed("client_disconnect") | {
            "client": self._described(connection, stopped_ns=time.time_ns()),
            "sent": {"msgs": connection.in_msgs, "bytes": connection.in_bytes},
            "received": {"msgs": connection.out_msgs, "bytes": connection.out_bytes},
            "reason": reason,
        }

    def _is_heard(self, account: str) -> bool:
        """May anybody listen to this account's events?"""
        router = self._router
        if router is None or self._unheard.get(account) == router.generation:
            return False
        if any(router.interested(subject.encode()) for subject in _subjects(account)):
            return True
        self._unheard[account] = router.generation
        return False

    def _described(self, connection: "Connected", stopped_ns: int = 0) -> dict[str, Any]:
        from jetbroker.addresses import split
        from jetbroker.connections.closed import issuer_of, token_of, wall_ns
        from jetbroker.forms.gotext import format_time

        account, login = connection.account, connection.identity.login
        token = token_of(login)
        refused = connection.identity.refused if isinstance(connection, ClientProtocol) else None
        is_client = isinstance(connection, ClientProtocol)
        facts = {
            "start": format_time(wall_ns(int(connection.opened_at * 1e9))),
            "host": split(connection.peer)[0],
            "id": connection.cid,
            "acc": "N/A" if account is None else account.name,
            "user": connection.user,
            "name": connection.name,
            "lang": connection.lang,
            "ver": connection.version,
            "rtt": connection.rtt_ns if stopped_ns else 0,
            "stop": format_time(stopped_ns) if stopped_ns else "",
            "jwt": token.shown if token is not None else "" if refused is None else refused.token,
            "issuer_key": issuer_of(login),
            "name_tag": "" if account is None else account.tag or account.name,
            "tags": [] if token is None else list(token.claims.tags),
            "kind": "Client" if is_client else "Leafnode",
            "client_type": connection.kind if is_client else "",
        }
        return {name: value for name, value in facts.items() if value}

    # --- of messages ---

    def traced(self, trace: "MessageTrace") -> None:
        """One asked for a trace: it is published where the message said, by the account it came into."""
        if self._router is None:
            return
        from jetbroker.forms.gojson import dumps
        from jetbroker.monitor.encoding import encoded

        event = trace.event(self._envelope.server(), self._router.account_name)
        trace.router.publish_bytes(trace.told_to, None, *encoded(dumps(event), trace.encoding))

    # --- of accounts ---

    def _beat(self) -> None:
        self._timer = self._loop.call_later(limits.ACCOUNT_BEAT_SECONDS, self._beat)
        for account in self._accounts:
            if self._is_heard(account.name) and (account.connections or self._envelope.sources().links):
                self._count(account.name)

    def _count(self, account: str) -> None:
        """The account's numbers have changed: many changes in a row are told once."""
        if account == GLOBAL_ACCOUNT:
            return
        self._changed[account] = None
        if self._telling is None:
            self._telling = self._loop.create_task(self._tell_numbers())

    async def _tell_numbers(self) -> None:
        try:
            await loaded()
            from jetbroker.monitor import statistics

            while self._changed:
                sources = self._envelope.sources()
                changed, self._changed = self._changed, {}
                accounts = [sources.accounts[name] for name in changed if name in sources.accounts]
                for row in await statistics.of_accounts(sources, accounts):
                    event = self.connections(row)
                    for subject in _numbers(row["acc"]):
                        self._send(subject, event | {"server": self._envelope.server()})
                await asyncio.sleep(limits.ACCOUNT_EVENTS_SECONDS)
        finally:
            self._telling = None

    def connections(self, row: dict[str, Any]) -> dict[str, Any]:
        """How many connections an account has, from its row of STATZ."""
        return self._typed("account_connections") | row

    # --- out ---

    def _typed(self, kind: str) -> dict[str, Any]:
        from jetbroker.forms.gotext import format_time
        from jetbroker.jetstream.models.names import random_name

        return {
            "type": f"io.nats.server.advisory.v1.{kind}",
            "id": random_name(limits.EVENT_ID_CHARACTERS),
            "timestamp": format_time(time.time_ns()),
            "server": self._envelope.server(),
        }

    def _send(self, subject: str, event: dict[str, Any], router: Router | None = None) -> None:
        from jetbroker.monitor.sources import compact

        router = router or self._router
        if router is not None:
            router.publish_bytes(subject.encode(), None, b"", compact(event))


def _numbers(account: str) -> tuple[str, str]:
    return f"$SYS.SERVER.ACCOUNT.{account}.CONNS", f"$SYS.ACCOUNT.{account}.SERVER.CONNS"


def _subjects(account: str) -> tuple[str, ...]:
    return *_numbers(account), f"$SYS.ACCOUNT.{account}.CONNECT", f"$SYS.ACCOUNT.{account}.DISCONNECT"
