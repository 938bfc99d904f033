"""A message that is traced takes one of these with it: whoever it meets tells what becomes of it.

Nobody but those who meet it imports this. They call its methods by their names: routing, accounts, streams and links
know no more of it than that it is there.
"""

import time
from typing import Any, Protocol

from jetbroker import limits
from jetbroker.accounts.account import Account
from jetbroker.forms.gotext import format_time
from jetbroker.routing.subscription import Subscription
from jetbroker.tracing.headers import DESTINATION, DISABLED, HOP, decoded, disabled_in_place, with_header

_CLIENT, _LINK = 0, 4  # kinds of connections, as nats-server counts them


class Connected(Protocol):
    """A connection that a message came over, or goes to. `server` is empty for clients."""

    @property
    def account(self) -> Account: ...
    @property
    def cid(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def server(self) -> str: ...


class MessageTrace:
    """Of one message. With `only` it is not delivered. `encoding`: of what is published, "" for none.

    `destination` is where servers behind links tell of it: other than `told_to` beyond a service of another account.
    `unheard`: the receiver of the publisher, when it wants no echo. `headers` and `size` are the message's.
    """

    def __init__(
        self, source: Connected, subject: bytes, destination: bytes, headers: dict[str, list[str]], size: int
    ) -> None:
        self.router = source.account.router
        self.destination = self.told_to = destination
        self.only = False
        self.encoding = self.hop = ""
        self.hops = 0
        self.unheard: object = None
        self.headers = headers
        self._account = source.account.name
        self._request = {"header": dict(sorted(headers.items())), "msgsize": size}
        self._events: list[dict[str, Any]] = []
        name = source.server or source.name
        self._ingress = self._add("in", kind=_LINK if source.server else _CLIENT, cid=source.cid)
        self._ingress |= ({"name": name} if name else {}) | {"acc": self._account, "subj": decoded(subject)}

    def _add(self, what: str, **told: Any) -> dict[str, Any]:
        event = {"type": what, "ts": format_time(time.time_ns())} | told
        self._events.append(event)
        return event

    @property
    def _has_room(self) -> bool:
        """There may be very many subscriptions."""
        return len(self._events) < limits.TRACE_STEPS

    # --- from those it meets ---

    def refused(self, error: str) -> None:
        """It was not let in."""
        self._ingress["error"] = error

    def mapped(self, subject: bytes) -> None:
        """Its account has another subject for it."""
        self._add("sm", to=decoded(subject))

    def exported(self, account: str, subject: bytes) -> None:
        """Another account imports it as a part of a stream, with this subject."""
        if self._has_room:
            self._add("se", acc=account, to=decoded(subject))

    def asked(self, account: str | None, subject: bytes, target: bytes) -> None:
        """It goes to a service of another account; None: of the system account."""
        self._add("si", acc=account, **{"from": decoded(subject), "to": decoded(target)})

    def stored(self, stream: bytes) -> dict[str, Any]:
        """A stream takes it. The stream adds to the event: "subject", "nointerest", "error"."""
        return self._add("js", stream=decoded(stream))

    def delivered(self, to: Connected, sub: Subscription, error: str) -> None:
        """It went to a client's subscription; with an error it did not."""
        self._leave(_CLIENT, to, sub=decoded(sub.subject), queue=decoded(sub.queue or b""), error=error)

    def sent(self, to: Connected, hop: str, error: str) -> None:
        """It went over a link; with an error it did not, or nothing will be told of it there."""
        self._leave(_LINK, to, hop=hop, error=error)

    def _leave(self, kind: int, to: Connected, hop: str = "", sub: str = "", queue: str = "", error: str = "") -> None:
        if not self._has_room:
            return
        account = to.account.name if to.account.name != self._account else ""
        told = {"name": to.server or to.name, "hop": hop, "acc": account, "sub": sub, "queue": queue, "error": error}
        self._add("eg", kind=kind, cid=to.cid, **{name: text for name, text in told.items() if text})

    # --- header blocks for those behind them ---

    def next_hop(self) -> str:
        """It goes over one more link: what the server there is to call itself."""
        self.hops += 1
        return f"{self.hop}.{self.hops}" if self.hop else str(self.hops)

    def marked(self, block: bytes, hop: str) -> bytes:
        """For that server."""
        return with_header(block, HOP, hop.encode())

    def redirected(self, block: bytes) -> bytes:
        """Where `destination` is another one."""
        return with_header(block, DESTINATION, self.destination)

    def untraced(self, block: bytes) -> bytes:
        """Where it is delivered without being traced any further."""
        return with_header(block, DESTINATION, DISABLED)

    def kept(self, block: bytes) -> bytes:
        """As a stream stores it."""
        return disabled_in_place(block)

    # --- in the end ---

    def event(self, server: dict[str, Any], system_account: str) -> dict[str, Any]:
        """What is published; `server` presents this one."""
        for event in self._events:
            if event["type"] == "si" and event["acc"] is None:
                event["acc"] = system_account
        told: dict[str, Any] = {"server": server, "request": self._request}
        if self.hops:
            told["hops"] = self.hops
        return told | {"events": self._events}
