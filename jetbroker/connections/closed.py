"""What is remembered of connections that are gone: the last of them for monitoring, and the traffic of all."""

import time
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from jetbroker import limits
from jetbroker.auth.authenticator import Login
from jetbroker.routing.subscription import Subscription

if TYPE_CHECKING:
    from jetbroker.auth.tokens import UserToken
    from jetbroker.connections.client import ClientProtocol
    from jetbroker.connections.connected import Connected
    from jetbroker.connections.identity import Refused

_EPOCH_NS = time.time_ns() - time.monotonic_ns()


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    """A subscription a connection had when it ended. `queue` is "" for a plain one."""

    subject: str
    queue: str
    sid: str
    delivered: int
    max_deliveries: int


@dataclass(frozen=True, slots=True)
class ClosedConnection:
    """A connection that is gone. Times are nanoseconds since 1970; `user` is None without a login.

    `is_link`: to another server.

    `issuer` is who vouches for its key, "" without one; `token`, `tag` and `tags` are of operator mode. `tls` is what
    the handshake said (None in clear). `subscriptions` are the first of `subscription_count`: a bounded number.
    """

    cid: int
    is_link: bool
    kind: str
    peer: str
    reason: str
    started_ns: int
    active_ns: int
    stopped_ns: int
    rtt_ns: int
    account: str
    user: str | None
    issuer: str
    token: str
    tag: str
    account_tag: str
    tags: tuple[str, ...]
    logged_in: bool
    name: str
    lang: str
    version: str
    tls: Any
    pending_bytes: int
    in_msgs: int
    in_bytes: int
    out_msgs: int
    out_bytes: int
    stalls: int
    subscription_count: int
    subscriptions: tuple[SubscriptionRecord, ...]


class Traffic:
    """Messages and payload bytes of connections that are gone."""

    __slots__ = ("in_bytes", "in_msgs", "out_bytes", "out_msgs")

    def __init__(self) -> None:
        self.in_msgs = self.in_bytes = self.out_msgs = self.out_bytes = 0

    def add(self, client: "Connected") -> None:
        """Keep what a connection that ends has moved."""
        self.in_msgs += client.in_msgs
        self.in_bytes += client.in_bytes
        self.out_msgs += client.out_msgs
        self.out_bytes += client.out_bytes

    def merge(self, other: "Traffic") -> None:
        """Count another sum in."""
        self.in_msgs += other.in_msgs
        self.in_bytes += other.in_bytes
        self.out_msgs += other.out_msgs
        self.out_bytes += other.out_bytes


class ClosedConnections:
    """The last connections that ended, oldest first."""

    def __init__(self, capacity: int) -> None:
        """Room for `capacity` connections."""
        self._records: deque[ClosedConnection] = deque(maxlen=max(capacity, 0))

    def __len__(self) -> int:
        return len(self._records)

    def records(self) -> list[ClosedConnection]:
        """Those that are remembered, oldest first."""
        return list(self._records)

    def add(self, client: "ClientProtocol", reason: str, refused: "Refused | None" = None) -> None:
        """Remember a connection that ends now, with what is known of one that was not let in."""
        self._records.append(_record(client, reason, refused))

    def add_link(self, link: "Connected", reason: str) -> None:
        """Remember a link that ends now."""
        self._records.append(_record(link, reason, None, is_link=True))


def wall_ns(monotonic_ns: int) -> int:
    """A time of the monotonic clock as nanoseconds since 1970: always the same for the same time."""
    return _EPOCH_NS + monotonic_ns


def subscription_record(sub: Subscription) -> SubscriptionRecord:
    """A subscription as it is now."""
    return SubscriptionRecord(
        subject=_text(sub.subject),
        queue=_text(sub.queue) if sub.queue else "",
        sid=_text(sub.sid),
        delivered=sub.delivered,
        max_deliveries=sub.max_deliveries,
    )


def issuer_of(login: Login | None) -> str:
    """Who vouches for the key of a login; "" without a key."""
    return "" if login is None else login.issuer


def token_of(login: Login | None) -> "UserToken | None":
    """What somebody of operator mode is logged in with."""
    return None if login is None else login.token


def _first_subscriptions(client: "Connected") -> tuple[SubscriptionRecord, ...]:
    """The first subscriptions of a connection, bounded in number and in size: ten thousand connections are kept."""
    found: list[SubscriptionRecord] = []
    room = limits.CLOSED_CONNECTION_SUBJECT_BYTES
    for sub in islice(client.subscription_list(), limits.CLOSED_CONNECTION_SUBSCRIPTIONS):
        room -= len(sub.subject) + len(sub.queue or b"") + len(sub.sid)
        if room < 0:
            break
        found.append(subscription_record(sub))
    return tuple(found)


def _record(client: "Connected", reason: str, refused: "Refused | None", *, is_link: bool = False) -> ClosedConnection:
    login: Login | None = client.identity.login if refused is None else refused.login
    account = client.account if refused is None or refused.account is None else refused.account
    token = token_of(login)
    return ClosedConnection(
        cid=client.cid,
        is_link=is_link,
        kind=client.kind,
        peer=client.peer,
        reason=reason,
        started_ns=wall_ns(int(client.opened_at * 1e9)),
        active_ns=wall_ns(client.active_ns),
        stopped_ns=time.time_ns(),
        rtt_ns=client.rtt_ns,
        account=account.name,
        user=client.user,
        issuer=issuer_of(login),
        token=refused.token if refused is not None else "" if token is None else token.shown,
        tag="" if token is None else token.claims.name,
        account_tag=account.tag,
        tags=() if token is None else token.claims.tags,
        logged_in=client.connected or account is not client.account,
        name=client.name,
        lang=client.lang,
        version=client.version,
        tls=client.tls,
        pending_bytes=client.pending_bytes,
        in_msgs=client.in_msgs,
        in_bytes=client.in_bytes,
        out_msgs=client.out_msgs,
        out_bytes=client.out_bytes,
        stalls=client.stalls,
        subscription_count=client.subscription_count,
        subscriptions=_first_subscriptions(client),
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
