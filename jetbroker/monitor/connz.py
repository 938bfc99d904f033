"""`/connz`: the connections, those that are there and those that were."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from jetbroker import limits
from jetbroker.addresses import split
from jetbroker.config.options import GLOBAL_ACCOUNT
from jetbroker.connections.client import ClientProtocol
from jetbroker.connections.closed import (
    ClosedConnection,
    SubscriptionRecord,
    issuer_of,
    subscription_record,
    token_of,
    wall_ns,
)
from jetbroker.forms.gotext import MICROSECOND, MILLISECOND, duration_text, format_time
from jetbroker.monitor.options import ALL, CLOSED, OPEN, ConnzOptions
from jetbroker.monitor.query import BadRequest, Query
from jetbroker.monitor.sources import Room, Sources, now_text, paced, page, uptime_text
from jetbroker.turns import Turn
from jetbroker.wire.subjects import collide, valid_subject

if TYPE_CHECKING:
    from jetbroker.connections.connected import Connected

    Row = Connected | ClosedConnection

DEFAULT_LIMIT = 1024
_STATES = {"": OPEN, "open": OPEN, "closed": CLOSED, "any": ALL, "all": ALL}
_CLOSED_ONLY = ("stop", "reason")
_EVERYTHING = ">"


def asked(query: Query) -> ConnzOptions:
    """What a query string asks for. Raises BadRequest."""
    auth = query.boolean("auth")
    listed, detail = query.boolean_or("subs", "detail")
    offset, limit, cid = query.integer("offset"), query.integer("limit"), query.unsigned("cid")
    state = _STATES.get(query.text("state").lower())
    if state is None:
        raise BadRequest(f"Error decoding state for {query.text('state')}")
    return ConnzOptions(
        sort=query.text("sort"),
        auth=auth,
        subscriptions=listed,
        subscriptions_detail=detail,
        offset=offset,
        limit=limit,
        cid=cid,
        mqtt_client=query.text("mqtt_client"),
        state=state,
        user=query.text("user"),
        account=query.text("acc"),
        filter_subject=query.text("filter_subject"),
    )


def _checked(options: ConnzOptions) -> ConnzOptions:
    """With what is left out filled in. Raises BadRequest."""
    sort = options.sort
    if sort and sort not in _ORDERS:
        raise BadRequest(f"invalid sorting option: {sort}")
    if sort in _CLOSED_ONLY and options.state != CLOSED:
        raise BadRequest(f"sort by {sort} only valid on closed connections")
    subject = options.filter_subject
    if subject not in ("", _EVERYTHING) and not options.account:
        raise BadRequest("filter by subject only valid with account filtering")
    return replace(
        options,
        sort=sort or "cid",
        offset=max(options.offset, 0),
        limit=1 if options.cid else options.limit if options.limit > 0 else DEFAULT_LIMIT,
        filter_subject="" if subject == _EVERYTHING else subject,
    )


async def connz(sources: Sources, options: ConnzOptions) -> dict[str, Any]:
    """Connections, filtered, sorted, one page of them. Raises BadRequest."""
    asked = _checked(options)
    if asked.account and asked.account not in sources.accounts:
        return _answer("", asked, 0, None)
    found = _candidates(sources, asked)
    total = len(found)
    found = await _filtered(found, asked)
    key, reverse = _ORDERS[asked.sort]
    found.sort(key=_cid)
    if asked.sort != "cid":
        now_ns = time.time_ns()
        found.sort(key=lambda row: key(row, now_ns), reverse=reverse)
    rows: list[dict[str, Any]] = []
    room, left = Room(), limits.MONITOR_SUBSCRIPTIONS
    async for row in paced(page(found, asked.offset, min(asked.limit, limits.MONITOR_ROWS))):
        shown, listed = await _row(row, asked, left, room)
        rows.append(shown)
        left -= listed
    return _answer(sources.server_id, asked, total, rows)


def _answer(server_id: str, asked: ConnzOptions, total: int, rows: list[dict[str, Any]] | None) -> dict[str, Any]:
    return {
        "server_id": server_id,
        "now": now_text(),
        "num_connections": len(rows or ()),
        "total": total,
        "offset": asked.offset,
        "limit": asked.limit,
        "connections": rows,
    }


def _candidates(sources: Sources, asked: ConnzOptions) -> "list[Row]":
    found: list[Row] = []
    if asked.state in (OPEN, ALL):
        found.extend(sources.connected)
    if asked.state in (CLOSED, ALL):
        found.extend(sources.clients.closed.records())
    if asked.account:
        found = [row for row in found if _account(row) == asked.account]
    return found


async def _filtered(found: "list[Row]", asked: ConnzOptions) -> "list[Row]":
    if asked.cid:
        found = [row for row in found if row.cid == asked.cid]
    if asked.user:
        found = [row for row in found if row.user == asked.user]
    if asked.mqtt_client:
        found = []
    if asked.filter_subject:
        subject = asked.filter_subject.encode()
        rows = found if valid_subject(subject) else []
        found = [row async for row in paced(rows) if await _listens_on(row, subject)]
    return found


async def _listens_on(row: "Row", subject: bytes) -> bool:
    if isinstance(row, ClosedConnection):
        return any(collide(sub.subject.encode(), subject) for sub in row.subscriptions)
    turn = Turn()
    for sub in row.subscription_list():
        if collide(sub.subject, subject):
            return True
        await turn.rest()
    return False


# --- order ---


def _cid(row: "Row") -> int:
    return row.cid


def _account(row: "Row") -> str:
    return row.account if isinstance(row, ClosedConnection) else str(row.account.name)


def _started_ns(row: "Row") -> int:
    return row.started_ns if isinstance(row, ClosedConnection) else wall_ns(int(row.opened_at * 1e9))


def _active_ns(row: "Row") -> int:
    return row.active_ns if isinstance(row, ClosedConnection) else wall_ns(row.active_ns)


def _end_ns(row: "Row", now_ns: int) -> int:
    return row.stopped_ns if isinstance(row, ClosedConnection) else now_ns


_ORDERS: "dict[str, tuple[Callable[[Row, int], Any], bool]]" = {
    # name: (key of a row at one time for all of them, largest first)
    "cid": (lambda row, _: _cid(row), False),
    "start": (lambda row, _: _started_ns(row), False),
    "subs": (lambda row, _: row.subscription_count, True),
    "pending": (lambda row, _: row.pending_bytes, True),
    "msgs_to": (lambda row, _: row.out_msgs, True),
    "msgs_from": (lambda row, _: row.in_msgs, True),
    "bytes_to": (lambda row, _: row.out_bytes, True),
    "bytes_from": (lambda row, _: row.in_bytes, True),
    "last": (lambda row, _: _active_ns(row), True),
    "idle": (lambda row, now: now - _active_ns(row), True),
    # who came later has the larger cid, also within one turn of the event loop
    "uptime": (lambda row, now: (_end_ns(row, now) - _started_ns(row), -_cid(row)), False),
    "stop": (_end_ns, True),
    "reason": (lambda row, _: row.reason if isinstance(row, ClosedConnection) else "", False),
    "rtt": (lambda row, _: row.rtt_ns, True),
}


# --- one connection ---


async def _row(row: "Row", asked: ConnzOptions, most: int, room: Room) -> tuple[dict[str, Any], int]:
    """A connection as it is shown, and how many subscriptions stand in it, at `most`. Raises BadRequest."""
    host, port = split(row.peer)
    end = _end_ns(row, time.time_ns())
    started, active = _started_ns(row), _active_ns(row)
    shown: dict[str, Any] = {
        "cid": row.cid,
        **({"kind": "Leafnode"} if is_link(row) else {"kind": "Client", "type": row.kind}),
        "ip": host,
        "port": port,
        "start": format_time(started),
        "last_activity": format_time(max(active, started)),
    }
    if isinstance(row, ClosedConnection):
        shown["stop"] = format_time(row.stopped_ns)
        shown["reason"] = row.reason
    shown |= {
        "rtt": duration_text(shown_rtt_ns(row.rtt_ns)),
        "uptime": uptime_text(end - started),
        "idle": uptime_text(end - active),
        "pending_bytes": row.pending_bytes,
        "in_msgs": row.in_msgs,
        "out_msgs": row.out_msgs,
        "in_bytes": row.in_bytes,
        "out_bytes": row.out_bytes,
    }
    if row.stalls:
        shown["stalls"] = row.stalls
    shown["subscriptions"] = row.subscription_count
    shown |= {name: getattr(row, name) for name in ("name", "lang", "version") if getattr(row, name)}
    if row.tls is not None:
        from jetbroker.connections import tls  # loaded by now: there is TLS

        shown |= tls.shown(row.tls, auth=asked.auth and not isinstance(row, ClosedConnection))
    shown |= _login(row) if asked.auth else {}
    keys = {name: value for name, value in _keys(row, auth=asked.auth).items() if value}
    room.take(shown | keys)
    listed = await _listed(row, asked, most, room)
    if listed:
        shown["subscriptions_list_detail" if asked.subscriptions_detail else "subscriptions_list"] = listed
    return shown | keys, len(listed)


def _keys(row: "Row", *, auth: bool) -> dict[str, Any]:
    """What a login by key or token stands on; of connections that are gone without being asked."""
    if isinstance(row, ClosedConnection):
        tag = _name_tag(row) if auth else row.tag
        return {"jwt": row.token, "issuer_key": row.issuer, "name_tag": tag, "tags": list(row.tags)}
    if not auth:
        return {}
    token = token_of(row.identity.login)
    keys: dict[str, Any] = {"jwt": "" if token is None else token.shown, "issuer_key": issuer_of(row.identity.login)}
    return keys | {"name_tag": _name_tag(row), "tags": [] if token is None else list(token.claims.tags)}


async def _listed(row: "Row", asked: ConnzOptions, most: int, room: Room) -> list[Any]:
    """Its subscriptions, or their subjects, if they are asked for. Raises BadRequest."""
    subs = paced(_subscriptions(row, max(most, 0)))
    if asked.subscriptions_detail:
        account, tag = (row.account, row.account_tag) if isinstance(row, ClosedConnection) else ("", "")
        return [room.take(subscription_row(sub, row.cid, account, tag)) async for sub in subs]
    return [room.take(sub.subject) async for sub in subs] if asked.subscriptions else []


def shown_rtt_ns(rtt_ns: int) -> int:
    """Below a millisecond in whole microseconds."""
    return rtt_ns if rtt_ns >= MILLISECOND else rtt_ns // MICROSECOND * MICROSECOND


def _subscriptions(row: "Row", most: int) -> Iterator[SubscriptionRecord]:
    if isinstance(row, ClosedConnection):
        return islice(row.subscriptions, most)
    return map(subscription_record, islice(row.subscription_list(), most))


def subscription_row(sub: SubscriptionRecord, cid: int, account: str = "", tag: str = "") -> dict[str, Any]:
    """A subscription as `/connz` and `/subsz` show it, with its account and that one's name."""
    shown: dict[str, Any] = {"account": account, "account_tag": tag or account} if account else {}
    shown["subject"] = sub.subject
    if sub.queue:
        shown["qgroup"] = sub.queue
    shown |= {"sid": sub.sid, "msgs": sub.delivered}
    if sub.max_deliveries:
        shown["max"] = sub.max_deliveries
    shown["cid"] = cid
    return shown


def _login(row: "Row") -> dict[str, str]:
    """Who it is; the account of everybody is not worth a word."""
    shown = {"authorized_user": row.user} if row.user else {}
    account = _account(row) if _is_logged_in(row) else GLOBAL_ACCOUNT
    return shown if account == GLOBAL_ACCOUNT else shown | {"account": account}


def _name_tag(row: "Row") -> str:
    """The account once more, as nats-server has it: for connections of $G only while they are open."""
    if isinstance(row, ClosedConnection):
        shown = row.account_tag or row.account
        return shown if row.logged_in and row.account != GLOBAL_ACCOUNT else row.tag
    return row.account.tag or _account(row)


def is_link(row: "Row") -> bool:
    """Does it lead to another server?"""
    return row.is_link if isinstance(row, ClosedConnection) else not isinstance(row, ClientProtocol)


def _is_logged_in(row: "Row") -> bool:
    return row.logged_in if isinstance(row, ClosedConnection) else row.connected
