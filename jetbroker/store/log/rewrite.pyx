# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""After a failed fdatasync: what is not on disk is written again, into a new file.

The kernel drops dirty pages of a failed fdatasync and reports success the next time, so the file is never trusted
again behind what was synced before.  The new segment's header says how much of the old one is valid.
"""
from libc.stdint cimport uint64_t

from jetbroker.errors import StorageError
from jetbroker.store.format import records as store_format
from jetbroker.store.log.scan import walk_records

from jetbroker.store.log.filelog cimport FileLog, FileSegment
from jetbroker.store.log.health cimport GIVEN_UP, MOVED
from jetbroker.store.format.records cimport PREVIOUS_SEALED
from jetbroker.store.log.stream_log cimport SubjectState
from jetbroker.store.log.segment cimport Ranges


def rewrite_unsynced(FileLog log not None):
    """Move everything not synced into a new active segment, written but for its fdatasync. Raises OSError."""
    cdef FileSegment suspect = <FileSegment>(log.unsynced[0] if log.unsynced else log.active)
    cdef FileSegment new
    cdef uint64_t valid = suspect.retained_at if log.unsynced else log.tail.unsynced_from()
    cdef Py_ssize_t kept = 0
    cdef Py_ssize_t slot
    cdef list old = log.segments[log.segments.index(suspect):]
    cdef bytes data
    cdef bytes records
    log.put_deletions()
    records = unsynced_records(log)
    log.load(suspect)
    if suspect.recorded is None:
        suspect.recorded = log.recorded_ranges(suspect)
    for slot in range(suspect.slots):
        if suspect.offsets[slot] and suspect.offsets[slot] < valid:
            kept = slot + 1
    new = replacement(log, suspect, valid, kept)
    if kept == 0:
        records = b"".join([range_records(log, suspect.recorded, suspect.first_seq - 1), records])
    data = store_format.encode_header(log.stream_id, new.first_seq, new.created_ns, new.previous, new.valid_before,
                                      log.meta)
    new.header_len = len(data)
    data += records
    walk_records(new, data, len(data), log.seed, False)
    adopt(log, new, old, suspect.first_seq + kept)
    retire_old(log, suspect, old, kept, valid, new)
    log.tail.begin(data)
    log.active = new
    log.segments.append(new)
    log.recent = None
    log.health.take(MOVED)
    log.changes_written = log.changes
    log.written = log.last_seq
    log.removals.written()
    log.removals.new_file()
    log.write_tail()


cdef bytes unsynced_records(FileLog log):
    """The records that are not on disk, without headers and footers."""
    cdef FileSegment segment
    cdef list parts = []
    cdef uint64_t start
    for segment in log.unsynced:
        start = max(segment.header_len, segment.retained_at)
        parts.append(segment.retained[start - segment.retained_at:])
    parts.append(log.tail.bytes_from(max((<FileSegment>log.active).header_len, log.tail.unsynced_from())))
    return b"".join(parts)


def range_records(FileLog log not None, Ranges ranges not None, uint64_t seq):
    """D records of `ranges`, as of sequence `seq`."""
    pairs = ranges.pairs()
    return b"".join([store_format.encode_deletions(log.stream_id, seq, log.last_time_ns, pairs[i:i + 65536])
                     for i in range(0, len(pairs), 65536)])


cdef FileSegment replacement(FileLog log, FileSegment suspect, uint64_t valid, Py_ssize_t kept):
    """A new segment behind `suspect`, or in its place when none of its messages is on disk."""
    cdef uint64_t first_seq = suspect.first_seq + kept
    cdef FileSegment new
    path = f"{log.directory}/{first_seq:020d}.seg"
    log.rewrites += 1
    temporary = f"{path}.new{log.rewrites}"
    new = log.new_segment(first_seq, valid, path)
    new.temporary = temporary
    new.previous = suspect.first_seq
    if kept == 0:
        new.previous = suspect.previous
        new.valid_before = suspect.valid_before
    return new


cdef int adopt(FileLog log, FileSegment new, list old, uint64_t first_seq) except -1:
    """Carry over what is dead, and count what is alive in the new segment."""
    cdef FileSegment segment
    cdef Py_ssize_t slot
    cdef Py_ssize_t i
    cdef SubjectState state
    for segment in old:
        for i in range(segment.slots):
            if segment.first_seq + i >= first_seq and segment.is_dead(i):
                new.mark_dead(segment.first_seq + i - first_seq)
    slot = new.next_live(0, new.slots)
    while slot >= 0:
        new.live += 1
        new.live_bytes += log.cost_of(new, slot)
        slot = new.next_live(slot + 1, new.slots)
    for i in range(new.subjects):
        state = <SubjectState>log.subjects.get(new.subject_text(i)[:new.subject_len(i)])
        if state is not None:
            state.segment_tag = new.tag
            state.subject_id = i
    return 0


cdef int retire_old(FileLog log, FileSegment suspect, list old, Py_ssize_t kept, uint64_t valid,
                    FileSegment new) except -1:
    """The suspect file keeps what is valid; the files behind it go once the new one is on disk."""
    cdef FileSegment segment
    cdef Py_ssize_t slot
    for segment in old:
        log.blocks.forget(segment.tag)
        segment.retained = None
        if segment is suspect and kept:
            continue
        log.segments.remove(segment)
        if segment.path != new.path:
            log.unlinks.append((log.changes, segment))
        elif segment.temporary is not None:
            log.discard_file(segment)
        else:
            log.close_file(segment)
    if kept:
        suspect.live = 0
        suspect.live_bytes = 0
        suspect.sealed = True
        suspect.footer_at = 0
        suspect.end = valid
        suspect.truncate_slots(kept)
        slot = suspect.next_live(0, kept)
        while slot >= 0:
            suspect.live += 1
            suspect.live_bytes += log.cost_of(suspect, slot)
            slot = suspect.next_live(slot + 1, kept)
    log.unsynced = []
    return 0


def abandon_suspects(FileLog log not None, error):
    """sync_interval mode: nothing is in memory any more, so the files stay as they are and are never synced again.

    Later appends go to a new file; what reads find damaged in the old ones is reported there and then.
    """
    cdef FileSegment old = <FileSegment>log.active
    cdef FileSegment segment
    cdef FileSegment new
    if log.suspect is None:
        log.health.doubt(log.fault(
            f"fdatasync failed: {error.strerror}; messages since the last one may be lost if the power fails"))
        for segment in log.unsynced:
            log.removals.extend(log.recorded_ranges(segment))
        if log.round_segment is not old:
            log.unsynced = log.unsynced[log.unsynced.index(log.round_segment) + 1:]
            log.changed()
            return
        log.unsynced = []
        log.suspect = error
    log.flush()
    new = log.new_segment(log.last_seq + 1, PREVIOUS_SEALED, None)
    if new.first_seq == old.first_seq:
        # it takes the old one's place when its own sync succeeds
        log.rewrites += 1
        new.temporary = f"{new.path}.new{log.rewrites}"
        new.previous = old.previous
        new.valid_before = old.valid_before
    try:
        log.make_file(new)
    except OSError:
        # a later round tries again
        log.health.try_later()
        log.changed()
        return
    log.suspect = None
    log.removals.extend(old.recorded)
    if new.temporary is None:
        old.sealed = True
    else:
        log.segments.remove(old)
        if old.temporary is not None:
            log.discard_file(old)
        else:
            log.close_file(old)
    log.removals.new_file()
    log.recent = None
    log.start_segment(new)
    log.changed()


def give_up(FileLog log not None, error):
    """The new file could not be synced either: take back everything that is not on disk and say so."""
    cdef FileSegment segment = <FileSegment>log.active
    cdef uint64_t first_lost = segment.first_seq
    cdef bint lost = segment.slots > 0
    log.removals.extend(segment.recorded)
    segment.recorded.clear()
    if lost:
        log.take_back(first_lost)
    log.tail.cut(segment.header_len)
    log.tail.written = 0
    segment.end = segment.header_len
    segment.subjects = 0
    # what could not be synced is never synced again: the next try makes a file anew
    log.discard_file(segment)
    log.health.take(GIVEN_UP)
    log.written = log.last_seq
    for state in log.subjects.values():
        (<SubjectState>state).segment_tag = 0
    log.waiters.fail(StorageError(f"{log.directory}: {error.strerror}"))
    if lost and log.observer is not None:
        log.observer.on_write_failed(first_lost, log.health.failed)
