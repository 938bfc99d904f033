"""Where the sources of a stream stand, by the messages that are stored of them."""

from typing import Any

from jetbroker import limits
from jetbroker.bounds import decimal
from jetbroker.jetstream.sourcing.origin_ingest import source_of
from jetbroker.store.log.slices import with_headers_before
from jetbroker.turns import Steps

_SLOTS_PER_STEP = 256  # of which each may have to be read


def last_positions(log: Any, names: set[str], above: int) -> Steps[dict[str, int]]:
    """For each source of these index names the origin's sequence of its last message that is stored above `above`.

    Looks backwards, in steps (see turns.py), and stops when all are found. Raises StorageError.
    """
    found: dict[str, int] = {}
    below = log.last_seq + 1
    while below > above + 1 and len(found) < len(names):
        sequences, below = with_headers_before(log, below, _SLOTS_PER_STEP)
        for seq in sequences:
            if seq > above:
                _note(source_of(log, seq), names, found)
        yield
    return found


def _note(words: list[str] | None, names: set[str], found: dict[str, int]) -> None:
    """What the header of one message says; a later message's has been seen before."""
    if words is None or len(words) < 2 or len(words) == 3:
        return
    position = decimal(words[1], limits.STREAM_SKIP_SEQUENCE)
    if position is None:
        return
    if len(words) == 2:
        meant = {name for name in names if name.startswith(words[0] + " ")}
    else:
        meant = {" ".join((words[0], words[2], words[3]))} & names
    for name in meant:
        found.setdefault(name, position)
