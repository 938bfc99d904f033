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
    shown = {tuple(name.split(" ")[:3]): name for name in names}
    found: dict[str, int] = {}
    below = log.last_seq + 1
    while below > above + 1 and len(found) < len(names):
        sequences, below = with_headers_before(log, below, _SLOTS_PER_STEP)
        for seq in sequences:
            if seq > above:
                _note(source_of(log, seq), shown, found)
        yield
    return found


def _note(words: list[str] | None, shown: dict[tuple[str, ...], str], found: dict[str, int]) -> None:
    """What the header of one message says; a later message's has been seen before."""
    position = decimal(words[1], limits.STREAM_SKIP_SEQUENCE) if words is not None and len(words) > 1 else None
    if words is None or position is None:
        return
    if len(words) >= 4:
        name = shown.get((words[0], words[2], words[3]))
        if name is not None:
            found.setdefault(name, position)
    elif len(words) == 2:
        for name in shown.values():
            if name.startswith(words[0] + " "):
                found.setdefault(name, position)
