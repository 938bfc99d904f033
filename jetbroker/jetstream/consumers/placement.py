"""Where a consumer begins: behind what its records say, or where its deliver policy says."""

import time

from jetbroker.jetstream.consumers.core import ConsumerCore
from jetbroker.jetstream.consumers.state import ConsumerState
from jetbroker.jetstream.models.config import ConsumerConfig
from jetbroker.jetstream.models.errors import api_error
from jetbroker.store.log.slices import walk_back
from jetbroker.turns import Steps, at_once

SEARCHED_AT_ONCE = 4096  # sequences, for deliver policy last


def restore(core: ConsumerCore, config: ConsumerConfig, state: ConsumerState) -> None:
    """Go on from recorded state."""
    tracker, log = core.tracker, core.log
    tracker.restore(state, core.turn.now_ns, time.time_ns())
    starts_ahead = tracker.delivered_cseq == 0 and config.deliver_policy in ("all", "by_start_sequence")
    if tracker.delivered_seq > log.last_seq and not starts_ahead:
        # power was lost before the end of the stream was on disk: those sequences are given out again
        tracker.rewind(log.last_seq)
    core.drop_removed()
    core.cursor.move_to(tracker.delivered_seq + 1)
    if config.deliver_policy != "last_per_subject":
        core.begun_at = state.resume
    elif state.resume:
        at_once(core.cursor.choose_last_per_subject(state.resume, tracker.delivered_seq))


def begin(
    core: ConsumerCore, config: ConsumerConfig, created_ns: int, *, kept: bool, one_each: bool
) -> Steps[None] | None:
    """Set a new consumer to its first message; what is left of the search for it, in steps (see turns.py).

    `kept`: it has a state log. `one_each`: its stream keeps one message per subject.
    """
    if config.deliver_policy == "last_per_subject" and one_each:
        core.move_to(max(core.log.first_seq, 1))
        return None
    core.move_to(_first_sequence(core, config, created_ns, kept))
    if config.deliver_policy == "last_per_subject":
        return _choose_first(core, core.cursor.choose_last_per_subject(0, 0))
    if config.deliver_policy == "last" and core.cursor.filter.patterns:
        return _search_last(core, core.log.last_seq + 1)
    return None


def _first_sequence(core: ConsumerCore, config: ConsumerConfig, created_ns: int, kept: bool) -> int:
    log = core.log
    policy = config.deliver_policy
    behind = log.last_seq + 1
    first = max(log.first_seq, 1)
    if policy == "all":
        return first
    if policy == "last":
        # with a filter it is searched for when it is placed
        return behind if core.cursor.filter.patterns else max(log.last_seq, first)
    if policy == "by_start_sequence":
        start = max(config.opt_start_seq, first)
        # for a mirror or source: one that is ahead of its origin takes what the origin stores next
        return min(start, behind) if config.direct else start
    if policy == "by_start_time" and config.opt_start_time is not None:
        return core.first_wanted(max(log.seq_at_time(config.opt_start_time.unix_nano), first))
    # when a crash took the first record, what came after the consumer was made is still new to it
    return min(log.seq_at_time(created_ns), behind) if kept else behind


def _choose_first(core: ConsumerCore, choosing: Steps[None]) -> Steps[None]:
    yield from choosing
    core.tracker.start_at(core.cursor.first_chosen() or max(core.cursor.resume, core.log.first_seq))


def _search_last(core: ConsumerCore, below: int) -> Steps[None]:
    """Begin with the last message in front of `below` that matches; when there is none, with the first of all."""
    found = 0
    while below and not found:
        found, below = walk_back(core.log, core.cursor.filter, below, 1, SEARCHED_AT_ONCE)
        yield
    core.move_to(below if found else max(core.log.first_seq, 1))


def check_reset(core: ConsumerCore, config: ConsumerConfig, seq: int) -> None:
    """May a consumer begin again at this message (0: behind its ack floor)? Raises ApiError 10204."""
    policy = config.deliver_policy
    if seq == 0 or policy == "all":
        return
    if policy == "by_start_sequence":
        fault = "below start seq" if seq < config.opt_start_seq else ""
    elif policy == "by_start_time" and config.opt_start_time is not None:
        fault = "below start time" if seq < core.log.seq_at_time(config.opt_start_time.unix_nano) else ""
    else:
        fault = "not allowed"
    if fault:
        raise api_error("consumer_invalid_reset", err=fault)
