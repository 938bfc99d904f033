"""The tables of the page: searched, sorted and cut here, so that a page gets few rows however many there are."""

import heapq
from collections.abc import AsyncIterator, Callable, Iterable
from itertools import chain, islice
from typing import Any, NamedTuple

from jetbroker import limits
from jetbroker.addresses import split
from jetbroker.forms.gotext import duration_text
from jetbroker.monitor.connz import shown_rtt_ns
from jetbroker.monitor.dashboard.sampling import AccountRow, ConnectionRow, ConsumerRow, Part, Sample, StreamRow
from jetbroker.monitor.query import BadRequest
from jetbroker.turns import Turn

_SUBJECTS = 5  # of a stream that are shown
_CHUNK = 512  # rows that are looked at, or sorted, between two looks at the clock


class Wanted(NamedTuple):
    """Which rows of a table, in what order."""

    table: str
    search: str = ""
    sort: str = ""
    offset: int = 0
    limit: int = limits.DASHBOARD_TOP


class _Table(NamedTuple):
    """How a table is made. `sorts`: a key of a row by the name of the order, the first one is the default."""

    rows: Callable[[Part], Iterable[Any]]
    words: Callable[[Any], tuple[str, ...]]  # that are searched
    sorts: dict[str, Callable[[Any], Any]]
    shown: Callable[[Any], dict[str, Any]]


def clipped(text: str) -> str:
    """A name as it is shown."""
    return text if len(text) <= limits.DASHBOARD_TEXT else f"{text[: limits.DASHBOARD_TEXT - 1]}…"


async def rows_of(sample: Sample, account: str | None, wanted: Wanted) -> dict[str, Any]:
    """`total`, the number of rows that fit, and the `rows` of the page. Raises BadRequest."""
    table = _TABLES.get(wanted.table)
    if table is None:
        raise BadRequest(f"there is no such table, but {', '.join(_TABLES)}")
    sort = wanted.sort or next(iter(table.sorts))
    key = table.sorts.get(sort)
    if key is None:
        raise BadRequest(f"this table is sorted by {', '.join(table.sorts)}")
    every = chain.from_iterable(table.rows(part) for part in sample.parts_of(account))
    pieces, total = [], 0
    async for piece in _pieces(every):
        fitting = _fitting(table, piece, wanted.search.casefold())
        total += len(fitting)
        pieces.append(sorted(fitting, key=key))
    found = await _cut(heapq.merge(*pieces, key=key), wanted.offset, wanted.limit)
    return {"total": total, "offset": wanted.offset, "sort": sort, "rows": [table.shown(row) for row in found]}


async def _pieces(rows: Iterable[Any]) -> AsyncIterator[list[Any]]:
    turn, rest = Turn(), iter(rows)
    while piece := list(islice(rest, _CHUNK)):
        yield piece
        await turn.rest()


def _fitting(table: _Table, rows: list[Any], search: str) -> list[Any]:
    if not search:
        return rows
    return [row for row in rows if any(search in word.casefold() for word in table.words(row))]


async def _cut(rows: Iterable[Any], offset: int, limit: int) -> list[Any]:
    found: list[Any] = []
    at = 0
    async for piece in _pieces(islice(rows, offset + limit)):
        found += piece[max(offset - at, 0) :]
        at += len(piece)
    return found


# --- one row of each kind ---


def _stream(row: StreamRow) -> dict[str, Any]:
    stream, log = row.stream, row.stream.log
    subjects = stream.config.subjects
    return {
        "account": clipped(row.account),
        "name": row.name,
        "subjects": [clipped(subject) for subject in subjects[:_SUBJECTS]],
        "more_subjects": max(len(subjects) - _SUBJECTS, 0),
        "messages": row.messages,
        "bytes": row.bytes,
        "rate": row.rate,
        "first_seq": log.first_seq,
        "last_seq": row.last_seq,
        "consumers": len(stream.listed_consumers()),
        "storage": str(stream.config.storage),
    }


def _consumer(row: ConsumerRow) -> dict[str, Any]:
    info = row.consumer.info()
    return {
        "account": clipped(row.account),
        "stream": row.stream,
        "name": row.name,
        "lag": row.lag,
        "pending": info["num_pending"],
        "ack_pending": info["num_ack_pending"],
        "redelivered": info["num_redelivered"],
        "waiting": info["num_waiting"],
        "paused": bool(info.get("paused")),
    }


def _connection(row: ConnectionRow) -> dict[str, Any]:
    connection = row.connection
    return {
        "account": clipped(row.account),
        "cid": row.cid,
        "name": clipped(row.name),
        "address": split(connection.peer)[0],
        "kind": connection.kind,
        "rtt": duration_text(shown_rtt_ns(connection.rtt_ns)),
        "subscriptions": connection.subscription_count,
        "pending_bytes": connection.pending_bytes,
        "in_msgs": connection.in_msgs,
        "out_msgs": connection.out_msgs,
        "rate": row.rate,
    }


def _account(row: AccountRow) -> dict[str, Any]:
    return {
        "name": clipped(row.account),
        "connections": row.connections,
        "subscriptions": row.subscriptions,
        "streams": row.streams,
        "consumers": row.consumers,
        "messages": row.messages,
        "stored": row.stored,
        "in_memory": row.in_memory,
        "rate": row.rate,
    }


def _stream_name(row: StreamRow) -> Any:
    return row.name, row.account


def _consumer_name(row: ConsumerRow) -> Any:
    return row.name, row.stream, row.account


_OF_CONNECTIONS: dict[str, Callable[[Any], Any]] = {
    "rate": lambda row: (-(row.rate or 0), row.cid),
    "name": lambda row: (row.name, row.cid),
    "pending_bytes": lambda row: (-row.connection.pending_bytes, row.cid),
    "subscriptions": lambda row: (-row.connection.subscription_count, row.cid),
}
_TABLES = {
    "streams": _Table(
        lambda part: part.streams,
        lambda row: (row.name, row.account, *row.stream.config.subjects[:_SUBJECTS]),
        {
            "rate": lambda row: (-(row.rate or 0), -row.messages, row.name, row.account),
            "name": _stream_name,
            "messages": lambda row: (-row.messages, row.name, row.account),
            "bytes": lambda row: (-row.bytes, row.name, row.account),
        },
        _stream,
    ),
    "consumers": _Table(
        lambda part: part.consumers,
        lambda row: (row.name, row.stream, row.account),
        {
            "lag": lambda row: (-row.lag, *_consumer_name(row)),
            "name": _consumer_name,
            "ack_pending": lambda row: (-row.ack_pending, *_consumer_name(row)),
            "redelivered": lambda row: (-row.redelivered, *_consumer_name(row)),
        },
        _consumer,
    ),
    "connections": _Table(
        lambda part: part.connections, lambda row: (row.name, row.account), _OF_CONNECTIONS, _connection
    ),
    "leafnodes": _Table(lambda part: part.links, lambda row: (row.name, row.account), _OF_CONNECTIONS, _connection),
    "accounts": _Table(
        lambda part: () if part.row is None else (part.row,),
        lambda row: (row.account,),
        {
            "rate": lambda row: (-(row.rate or 0), row.account),
            "name": lambda row: row.account,
            "connections": lambda row: (-row.connections, row.account),
            "stored": lambda row: (-row.stored, row.account),
        },
        _account,
    ),
}
TABLES = tuple(_TABLES)
