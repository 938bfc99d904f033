"""Nats-Request-Info: who asks, as the accounts that serve a request through an import get to see it."""

import json
import time
from typing import Any, Protocol

from jetbroker.accounts.account import Account
from jetbroker.accounts.services import ServiceReceiver
from jetbroker.addresses import split
from jetbroker.auth.authenticator import Login
from jetbroker.forms.gojson import escape_html
from jetbroker.forms.gotext import format_time


class Identity(Protocol):
    """By what login a connection is there."""

    login: Login | None


class Requestor(Protocol):
    """What a connection tells of itself."""

    account: Account
    cid: int
    kind: str
    peer: str
    user: str | None
    name: str
    lang: str
    version: str
    rtt_ns: int
    opened_at: float  # loop time
    identity: Identity
    server: str  # "" for a client, else the name of the server at the other end of a link


class ThisServer(Protocol):
    """How this server is named; `cluster` is "" when it has none."""

    server_name: str
    cluster: str


class ClientInfo:
    """Describes requestors. One for all imports of a broker."""

    def __init__(self, server: ThisServer, system_account: str) -> None:
        self._server = server
        self._system_account = system_account
        self._last: tuple[object, int, object] | None = None
        self._last_text = b""
        self._loop_began_ns: int | None = None  # zero of the loop's clock, nanoseconds since 1970

    def __call__(self, origin: Requestor | None, crossed: list[Any], reply: bytes | None = None) -> bytes:
        """The header's value for a request that has crossed these imports, the last one just now.

        `reply`: the request's own reply subject, where whoever serves it needs to know it.
        """
        rtt_ns = origin.rtt_ns if origin is not None else 0
        # alone it is a ServiceReceiver; with others in front of it there may be answers among them
        key = (origin, rtt_ns, crossed[0]) if len(crossed) == 1 and not crossed[0].rule.share else None
        if key is None or key != self._last:
            hops = [hop for hop in crossed if isinstance(hop, ServiceReceiver)]
            self._last_text = self._describe(origin, rtt_ns, hops)
            self._last = key
        return self._last_text if reply is None else b'%b,"reply":%b}' % (self._last_text[:-1], _go_json(_text(reply)))

    def _describe(self, origin: Requestor | None, rtt_ns: int, hops: list[ServiceReceiver]) -> bytes:
        shared = hops[0].rule.share and origin is not None
        info: dict[str, Any] = {}
        if origin is not None and shared:
            info |= {"start": self._start(origin, hops[0]), "host": split(origin.peer)[0], "id": origin.cid}
        info["acc"] = origin.account.name if origin is not None else hops[0].importer.router.account_name
        if len(hops) > 1:
            info["svc"] = hops[-1].importer.router.account_name
        if origin is not None and shared:
            info |= {"user": origin.user, "name": origin.name, "lang": origin.lang, "ver": origin.version}
        info["rtt"] = rtt_ns
        if any(hop.rule.share or hop.rule.exporter == self._system_account for hop in hops):
            info["server"] = (origin.server if origin is not None and shared else "") or self._server.server_name
            info["cluster"] = self._server.cluster
        if origin is not None and shared:
            info |= _token_facts(origin.identity.login)
            info |= {"kind": "Leafnode"} if origin.server else {"kind": "Client", "client_type": origin.kind}
        return _go_json({key: value for key, value in info.items() if value})

    def _start(self, origin: Requestor, hop: ServiceReceiver) -> str:
        """When the connection was made, as Go writes a time. The same for every request of a connection."""
        if self._loop_began_ns is None:
            self._loop_began_ns = time.time_ns() - int(hop.importer.router.tick.loop.time() * 1e9)
        return format_time(self._loop_began_ns + int(origin.opened_at * 1e9))


def _token_facts(login: Login | None) -> dict[str, Any]:
    """Who vouches for a user; of operator mode also his token, unless having it is all it takes to be him."""
    if login is None or login.token is None:
        return {"issuer_key": "" if login is None else login.issuer}
    claims = login.token.claims
    return {"jwt": login.token.shown, "issuer_key": login.issuer, "name_tag": claims.name, "tags": list(claims.tags)}


def _text(subject: bytes) -> str:
    return subject.decode("utf-8", "replace")


def _go_json(value: object) -> bytes:
    # unlike orjson it takes surrogates, which stand for bytes that are no UTF-8
    return escape_html(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))
