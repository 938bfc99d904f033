# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""After a failed write: what is not in the file is taken back, removals are written on the space kept for them."""
from libc.stdint cimport uint16_t, uint64_t

from jetbroker.errors import StorageError

from jetbroker.store.log.filelog cimport FileLog, FileSegment
from jetbroker.store.format.records cimport OFFSET_EMPTY, OFFSET_LOST, RECORD_HEADER, record_flags, record_length
from jetbroker.store.log.stream_log cimport FLAG_BATCH_FIRST, FLAG_BATCH, FLAG_BATCH_LAST, SubjectState
from jetbroker.store.log.segment cimport Segment


def write_failed(FileLog log not None, error):
    """Keep what was wholly written, take the other appends back and answer for them."""
    cdef FileSegment segment = <FileSegment>log.active
    cdef Py_ssize_t slot = whole_batches(log, written_slots(log))
    cdef uint64_t boundary
    cdef uint64_t first_lost = 0
    log.refuse(f"{error.strerror or error}")
    first_lost = segment.first_seq + slot
    boundary = written_boundary(log, slot)
    if first_lost <= log.last_seq:
        log.take_back(first_lost)
        log.waiters.fail(log.health.failed)
    else:
        first_lost = 0
    log.removals.take_back(log.last_seq)
    log.tail.cut(boundary)
    segment.end = boundary
    log.cut_file(segment, boundary)
    log.written = log.last_seq
    if first_lost and log.observer is not None:
        log.observer.on_write_failed(first_lost, log.health.failed)
    write_reserved(log)


cdef Py_ssize_t written_slots(FileLog log) except? -1:
    """How many slots are in front of the first record that is not wholly written."""
    cdef FileSegment segment = <FileSegment>log.active
    cdef Py_ssize_t written = segment.slots
    cdef Py_ssize_t slot
    for slot in range(segment.slots - 1, -1, -1):
        if segment.offsets[slot] in (OFFSET_EMPTY, OFFSET_LOST):
            continue                   # skipped sequences go with the record in front of them
        if segment.offsets[slot] + <uint64_t>log.record_size(segment, slot) <= log.tail.written:
            break
        written = slot
    return written


cdef Py_ssize_t whole_batches(FileLog log, Py_ssize_t slots) except? -1:
    """How many of the first `slots` slots stay, when a batch goes as a whole."""
    cdef FileSegment segment = <FileSegment>log.active
    cdef Py_ssize_t slot = slots
    cdef uint16_t flags
    while slot:
        slot -= 1
        if segment.offsets[slot] in (OFFSET_EMPTY, OFFSET_LOST):
            continue
        if segment.offsets[slot] < log.tail.base:
            break                      # written with an earlier group
        flags = record_flags(log.tail.at(segment.offsets[slot]))
        if not flags & FLAG_BATCH or flags & FLAG_BATCH_LAST:
            break
        if flags & FLAG_BATCH_FIRST:
            return slot
    return slots


def written_boundary(FileLog log not None, Py_ssize_t slots):
    """Where the last wholly written record ends, when `slots` message records are."""
    cdef FileSegment segment = <FileSegment>log.active
    cdef uint64_t at = segment.header_len
    cdef uint64_t end = log.tail.written
    cdef Py_ssize_t slot
    for slot in range(slots, segment.slots):
        if segment.offsets[slot] != OFFSET_EMPTY:
            # the record behind may be whole, when its batch is not
            end = min(end, <uint64_t>segment.offsets[slot])
            break
    if slots and segment.offsets[slots - 1]:
        at = segment.offsets[slots - 1] + <uint64_t>log.record_size(segment, slots - 1)
    if at < log.tail.base:
        at = log.tail.base
    if end < segment.header_len:
        # not even the header: the whole file is written again
        return segment.header_len
    while at + RECORD_HEADER <= end and at + record_length(log.tail.at(at)) <= end:
        at += record_length(log.tail.at(at))
    return at


def write_reserved(FileLog log not None):
    """Removals must still become durable on a full disk: give the reserve back to the disk and write them.

    Appends that were written wholly, in front of the one that was not, are committed with them.
    """
    cdef uint64_t boundary = log.tail.end()
    if log.removals.pending.count or log.waiters.waiting:
        log.health.use_reserve()
    log.put_deletions()
    try:
        log.write_tail()
    except OSError as error:
        if log.tail.written > boundary:
            log.cut_file(<FileSegment>log.active, boundary)
        log.tail.cut(boundary)
        (<FileSegment>log.active).end = boundary
        log.removals.take_back(log.last_seq)
        log.waiters.fail(StorageError(f"{log.directory}: {error.strerror or error}"))
        return
    log.removals.written()
    log.changes_written = log.changes
    if log.always:
        log.group.request(log)
    else:
        log.advance_committed()
        log.group.request_later(log)


def restore(FileLog log not None, list sequences not None):
    """Undo removals that are not written yet: those that limits made for appends which were taken back.

    Returns how many messages are back; one whose segment has been dropped stays removed.
    """
    cdef list back = sorted(sequences)
    cdef Segment segment
    cdef SubjectState state
    cdef uint64_t seq
    cdef uint64_t cost
    cdef Py_ssize_t slot
    cdef int restored = 0
    log.removals.undo(back)
    for seq in back:
        segment = log.segment_of(seq)
        if segment is None:
            continue
        slot = seq - segment.first_seq
        log.load(segment)
        if not segment.is_dead(slot) or segment.offsets[slot] in (OFFSET_EMPTY, OFFSET_LOST):
            continue
        segment.mark_live(slot)
        cost = log.cost_of(segment, slot)
        segment.live += 1
        segment.live_bytes += cost
        state = log.subject_state(segment.subject_text(segment.ids[slot]), segment.subject_len(segment.ids[slot]))
        if state.count == 0:
            log.states.revive(state)
            state.first_hint = state.last = seq
        state.first_hint = min(state.first_hint, seq)
        state.last = max(state.last, seq)
        state.count += 1
        if log.messages == 0 or seq < log.first_seq:
            log.first_seq = seq
        log.messages += 1
        log.bytes += cost
        log.account(1, cost)
        restored += 1
    return restored
