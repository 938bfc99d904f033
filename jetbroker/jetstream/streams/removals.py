"""Many messages of a stream are removed in pieces, in turns with other work.

Between two pieces messages are published, acked, evicted and deleted; other changes by the API wait for the end. A
broker that is killed on the way has removed the oldest ones.
"""

from collections.abc import Callable
from typing import Any

from jetbroker import limits
from jetbroker.jetstream.streams.stream import Stream
from jetbroker.store.log.slices import next_piece, piece_slots, remove_matching, walk_back
from jetbroker.store.log.stream_log import SubjectFilter
from jetbroker.turns import Turn

_SLOTS = 512  # sequences of a piece that is only looked at


async def purge(stream: Stream, pattern: str, seq: int, keep: int) -> int:
    """Remove what Stream.purge() would remove now; returns how many messages. Durable after the stream's `commit`.

    Raises SequenceError, and removes nothing, when `seq` is farther than a stream may be moved.
    """
    log: Any = stream.log
    everything = pattern in ("", ">")
    limit = min(seq - 1, log.last_seq) if seq else log.last_seq
    empties = everything and not keep and limit == log.last_seq
    if empties and (log.messages <= limits.JS_PURGED_AT_ONCE or seq > log.last_seq + 1):
        return stream.purge(pattern, seq, keep)
    wanted = SubjectFilter() if everything else SubjectFilter(pattern.encode())
    turn = Turn()
    if keep:
        limit = min(limit, await _before_newest(stream, wanted, keep, turn))

    def remove(first: int, last: int) -> int:
        if everything:
            removed: int = log.remove_before(last + 1)
            return removed
        return remove_matching(log, wanted, first, last)

    purged = 0
    start = log.first_seq
    while piece := next_piece(log, start, min(limit, log.last_seq), _slots(stream)):
        purged += _in_piece(stream, piece, remove, lambda removed: everything or removed != 1)
        start = piece[1] + 1
        await turn.rest()
    if everything:
        log.remove_before(limit + 1)  # what is lost is forgotten, too
    stream.after_purge(pattern)
    return purged


async def _before_newest(stream: Stream, wanted: SubjectFilter, keep: int, turn: Turn) -> int:
    """The sequence in front of the newest `keep` messages that match; 0 when there are not more."""
    log: Any = stream.log
    below: int = log.last_seq + 1
    while below and keep:
        found, below = walk_back(log, wanted, below, keep, _SLOTS)
        keep -= found
        await turn.rest()
    return max(below - 1, 0)


async def enforce_limits(stream: Stream) -> None:
    """Remove what is beyond the limits of a configuration that was applied gently."""
    log: Any = stream.log
    turn = Turn()
    start = log.first_seq
    by_subject = stream.config.max_msgs_per_subject > 0
    # up to the end: what is published meanwhile takes the place of what is still in front of the walk
    while by_subject and (piece := next_piece(log, start, log.last_seq, _slots(stream))):
        _in_piece(stream, piece, stream.trim_piece)
        start = piece[1] + 1
        if start <= log.last_seq:
            await turn.rest()
    while stream.evict_up_to(0) and (piece := next_piece(log, log.first_seq, log.last_seq, _slots(stream))):
        _in_piece(stream, piece, lambda _, last: stream.evict_up_to(last))
        await turn.rest()


def _slots(stream: Stream) -> int:
    return piece_slots(len(stream.consumers))


def _in_piece(
    stream: Stream,
    piece: tuple[int, int],
    remove: Callable[[int, int], int | None],
    purged: Callable[[int], bool] = lambda removed: False,
) -> int:
    """Remove something of a piece of the log; what the consumers have ahead is right again after it.

    `purged`: does a removal of so many count as a purge? One message alone is told of as deleted.
    """
    counted = [(consumer, consumer.counted_in(*piece)) for consumer in stream.consumers.values()]
    removed = remove(*piece) or 0
    for consumer, before in counted:
        consumer.removed_in(*piece, before, purged(removed))
    return removed
