"""The messages of a stream, newest first, and one of them: what is sent is bounded, whatever was published."""

import base64
from typing import TYPE_CHECKING, Any

from jetbroker import limits
from jetbroker.bounds import INT64_MAX
from jetbroker.forms.gotext import format_time
from jetbroker.monitor.dashboard.logins import Scope
from jetbroker.monitor.dashboard.tables import clipped
from jetbroker.monitor.query import BadRequest, Query
from jetbroker.monitor.sources import Sources
from jetbroker.turns import Turn

if TYPE_CHECKING:
    from jetbroker.jetstream.streams.stream import Stream

_FOUND, _DAMAGED = 0, 2  # READ_OK and READ_DAMAGED of a log


class NotThere(Exception):
    """No such stream, or no such message; the text is for whoever asks."""


async def newest(sources: Sources, scope: Scope, query: Query) -> dict[str, Any]:
    """The messages before sequence `before`, or the last ones. `next`: where to go on, 0: nowhere.

    Where much was deleted a page may be short, or empty, and there is more behind it. Raises NotThere, BadRequest.
    """
    stream = _stream(sources, scope, query)
    log = stream.log
    before = query.unsigned("before") or log.last_seq + 1
    seq = min(before - 1, log.last_seq)
    lowest = max(log.first_seq, 1)
    found: list[dict[str, Any]] = []
    turn, steps = Turn(), limits.DASHBOARD_STEPS
    while seq >= lowest and steps and len(found) < limits.DASHBOARD_MESSAGES:
        row = _message(stream, seq, limits.DASHBOARD_PREVIEW_BYTES)
        if row is not None:
            found.append(row)
        seq, steps = seq - 1, steps - 1
        await turn.rest()
    more = seq + 1 if seq >= lowest and log.messages else 0
    return {
        "stream": stream.name,
        "first_seq": log.first_seq,
        "last_seq": log.last_seq,
        "messages": found,
        "next": more,
    }


async def one(sources: Sources, scope: Scope, query: Query) -> dict[str, Any]:
    """The message `seq`, with more of it. Raises NotThere, BadRequest."""
    stream, seq = _stream(sources, scope, query), query.unsigned("seq")
    row = _message(stream, seq, limits.DASHBOARD_MESSAGE_BYTES) if 0 < seq <= INT64_MAX else None
    if row is None:
        raise NotThere(f"There is no message {seq} in this stream any more, or not yet.")
    return row


def _stream(sources: Sources, scope: Scope, query: Query) -> "Stream":
    account, name = query.text("account"), query.text("stream")
    if not (account and name):
        raise BadRequest("name the account and the stream: ?account=$G&stream=ORDERS")
    server = sources.jetstream
    found = None if server is None or scope.account not in (None, account) else server.by_account.get(account)
    stream = None if found is None else found.streams.get(name)
    if stream is None:
        raise NotThere("There is no such stream.")
    return stream


def _message(stream: "Stream", seq: int, most: int) -> dict[str, Any] | None:
    """What is shown of a message; None where there is none."""
    result, subject, headers, payload, time_ns = stream.log.get(seq)
    if result == _DAMAGED:
        return {"seq": seq, "damaged": True}
    if result != _FOUND:
        return None
    return {
        "seq": seq,
        "time": format_time(time_ns),
        "subject": clipped(subject.decode("utf-8", "replace")),
        "headers": headers[:most].decode("utf-8", "replace"),
        "headers_size": len(headers),
        "payload": base64.b64encode(payload[:most]).decode(),
        "size": len(payload),
    }
