# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Long walks over a log in short pieces, so that others have their turn in between.

A walk goes on by sequence: between two pieces messages come and go, and segments are sealed, dropped or packed.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint32_t, uint64_t

from jetbroker.store.format.records cimport SIZE_HAS_HEADERS
from jetbroker.store.log.stream_log cimport StreamLog, SubjectFilter, SubjectState
from jetbroker.store.log.segment cimport Segment, SubjectSet
from jetbroker.store.log.segmented cimport SegmentedLog

cdef uint64_t SLOTS = 512                # sequences of a piece: a millisecond when all of them are removed
cdef uint64_t SLOTS_SHARED = 4096        # of a piece, for all who count it before and after
cdef uint64_t LEAST_SLOTS = 16


def piece_slots(uint64_t counting):
    """How many sequences a piece has of which messages are removed, when so many others count what is in it."""
    return max(min(SLOTS, SLOTS_SHARED // (counting + 1)), LEAST_SLOTS)


def next_piece(SegmentedLog log not None, uint64_t start, uint64_t limit, uint64_t slots):
    """The next sequences (first, last) of one segment to look at from `start` to `limit`, at most `slots` (> 0).

    None: there are no more messages.
    """
    cdef Py_ssize_t i = max(log.index_of(start), <Py_ssize_t>0)
    cdef Py_ssize_t slot
    cdef uint64_t first
    cdef Segment segment
    limit = min(limit, log.last_seq)
    for i in range(i, len(log.segments)):
        segment = <Segment>log.segments[i]
        if segment.first_seq > limit:
            break
        if segment.live == 0 or segment.first_seq + segment.slots <= start:
            continue
        slot = segment.next_live(start - segment.first_seq if start > segment.first_seq else 0, segment.slots)
        if slot < 0:
            continue
        first = segment.first_seq + slot
        if first > limit:
            break
        return first, min(limit, first + min(slots, <uint64_t>(segment.slots - slot)) - 1)
    return None


def remove_matching(SegmentedLog log not None, SubjectFilter filter not None, uint64_t first, uint64_t last):
    """Remove what matches of a piece; returns the number."""
    cdef uint64_t removed = 0
    cdef Segment segment = log.segment_of(first)
    cdef SubjectSet ids
    cdef Py_ssize_t slot
    cdef Py_ssize_t end
    if segment is None:
        return 0
    ids = log.loaded_set(filter, segment, log.subject_set(filter, segment))
    end = min(segment.slots, <Py_ssize_t>(last - segment.first_seq + 1))
    slot = segment.next_in(ids, first - segment.first_seq, end)
    while slot >= 0:
        log.note_removed(segment.first_seq + slot, segment.first_seq + slot)
        log.forget_message(segment, slot)
        removed += 1
        slot = segment.next_in(ids, slot + 1, end)
    if removed:
        log.advance_first()
        if segment.live == 0 and segment is not log.active:
            log.drop_dead_segments()
        else:
            log.after_removal(segment)
        log.changed()
    return removed


cdef bint matches_at(SubjectFilter filter, Segment segment, SubjectSet ids, Py_ssize_t slot) except -1:
    """Does this live message match? `ids` need not know of its subject yet."""
    cdef uint32_t subject_id = segment.ids[slot]
    if subject_id < <uint64_t>ids.known:
        return ids.has(subject_id)
    return filter.matches(segment.subject_text(subject_id), segment.subject_len(subject_id))


cdef Segment live_segment_before(SegmentedLog log, uint64_t below):
    """The last segment with messages that begins in front of `below`, None: there is none."""
    cdef Py_ssize_t i = log.index_of(below - 1) if below else -1
    while i >= 0 and (<Segment>log.segments[i]).live == 0:
        i -= 1
    return <Segment>log.segments[i] if i >= 0 else None


def walk_back(SegmentedLog log not None, SubjectFilter filter not None, uint64_t below, uint64_t wanted,
              Py_ssize_t slots):
    """Look for `wanted` matching messages among the next sequences below `below`, at most `slots`.

    Returns how many there are and the lowest sequence looked at; (0, 0): there are no more messages.
    """
    cdef uint64_t found = 0
    cdef Py_ssize_t slot
    cdef Segment segment = live_segment_before(log, below)
    cdef SubjectSet ids
    if segment is None:
        return 0, 0
    ids = log.loaded_set(filter, segment, log.subject_set(filter, segment, slots))
    slot = <Py_ssize_t>min(below - 1 - segment.first_seq, <uint64_t>(segment.slots - 1))
    while slot >= 0 and slots > 0 and found < wanted:
        if not segment.is_dead(slot) and matches_at(filter, segment, ids, slot):
            found += 1
        slot -= 1
        slots -= 1
    return found, segment.first_seq + slot + 1


def with_headers_before(SegmentedLog log not None, uint64_t below, Py_ssize_t slots):
    """The messages with headers among the next sequences below `below`, newest first; looks at most at `slots`.

    Returns them and the lowest sequence looked at; ([], 0): there are no more messages.
    """
    cdef list found = []
    cdef Py_ssize_t slot
    cdef Segment segment = live_segment_before(log, below)
    if segment is None:
        return found, 0
    log.load(segment)
    slot = <Py_ssize_t>min(below - 1 - segment.first_seq, <uint64_t>(segment.slots - 1))
    while slot >= 0 and slots > 0:
        if not segment.is_dead(slot) and segment.sizes[slot] & SIZE_HAS_HEADERS:
            found.append(segment.first_seq + slot)
        slot -= 1
        slots -= 1
    return found, segment.first_seq + slot + 1


def beyond_newest(SegmentedLog log not None, uint64_t keep, uint64_t first, uint64_t last):
    """The messages of a piece that are older than their subject's `keep` newest, ascending.

    Those in front of the piece must have been removed already.
    """
    cdef Segment segment = log.segment_of(first)
    cdef dict chosen = {}
    cdef list out = []
    cdef uint32_t subject_id
    cdef SubjectState state
    cdef Py_ssize_t slot
    cdef Py_ssize_t end
    if segment is None:
        return out
    log.load(segment)
    end = min(segment.slots, <Py_ssize_t>(last - segment.first_seq + 1))
    slot = segment.next_live(first - segment.first_seq, end)
    while slot >= 0:
        subject_id = segment.ids[slot]
        subject = PyBytes_FromStringAndSize(segment.subject_text(subject_id), segment.subject_len(subject_id))
        state = log.subjects.get(subject)
        if state is not None and state.count > keep + <uint64_t>chosen.get(subject, 0):
            chosen[subject] = chosen.get(subject, 0) + 1
            out.append(segment.first_seq + slot)
        slot = segment.next_live(slot + 1, end)
    return out


def newest_in(SegmentedLog log not None, SubjectFilter filter not None, uint64_t first, uint64_t last,
              Py_ssize_t subjects):
    """The messages of a piece that match and are the newest of their subject, ascending.

    None: more than `subjects` of its segment have to be judged first, ask again.
    """
    cdef Segment segment = log.segment_of(first)
    cdef list out = []
    cdef set seen = set()
    cdef SubjectSet ids = None
    cdef SubjectState state
    cdef uint32_t subject_id
    cdef Py_ssize_t slot
    if segment is None:
        return out
    if filter.patterns:
        ids = log.subject_set(filter, segment, subjects)
        if ids.known < segment.subjects:
            return None
        ids = log.loaded_set(filter, segment, ids)
    else:
        log.load(segment)
    slot = min(segment.slots - 1, <Py_ssize_t>(last - segment.first_seq))
    while slot >= <Py_ssize_t>(first - segment.first_seq):
        subject_id = segment.ids[slot]
        if not segment.is_dead(slot) and (ids is None or ids.has(subject_id)) and subject_id not in seen:
            seen.add(subject_id)
            subject = PyBytes_FromStringAndSize(segment.subject_text(subject_id), segment.subject_len(subject_id))
            state = log.subjects.get(subject)
            if state is not None and state.last == segment.first_seq + slot:
                out.append(segment.first_seq + slot)
        slot -= 1
    out.reverse()
    return out


cdef bint count_piece(SegmentedLog log, SubjectFilter filter, uint64_t first, uint64_t last, Py_ssize_t subjects,
                      uint64_t* total) except -1:
    cdef Py_ssize_t i
    cdef Segment segment
    cdef SubjectSet ids
    for i in range(max(log.index_of(first), <Py_ssize_t>0), len(log.segments)):
        segment = <Segment>log.segments[i]
        if segment.first_seq > last:
            break
        if segment.live and segment.first_seq + segment.slots > first:
            ids = log.subject_set(filter, segment, subjects)
            if ids.known < segment.subjects:
                return False
    total[0] = log.count_between(filter, first, last)
    return True


cdef uint64_t count_few(SegmentedLog log, SubjectFilter filter, uint64_t first, uint64_t last) except? 0:
    cdef uint64_t total = 0
    cdef Py_ssize_t slot, end
    cdef Segment segment
    cdef SubjectSet ids
    if not filter.patterns:
        return log.count_between(filter, first, last)
    for i in range(max(log.index_of(first), <Py_ssize_t>0), len(log.segments)):
        segment = <Segment>log.segments[i]
        if segment.first_seq > last:
            break
        if segment.live == 0 or segment.first_seq + segment.slots <= first:
            continue
        ids = log.loaded_set(filter, segment, log.subject_set(filter, segment, 0))
        end = min(segment.slots, <Py_ssize_t>min(last - segment.first_seq, <uint64_t>segment.slots) + 1)
        slot = segment.next_live(first - segment.first_seq if first > segment.first_seq else 0, end)
        while slot >= 0:
            total += matches_at(filter, segment, ids, slot)
            slot = segment.next_live(slot + 1, end)
    return total


cdef uint64_t next_slot(SegmentedLog log, uint64_t start) except? 0:
    cdef Py_ssize_t i
    cdef Segment segment
    for i in range(max(log.index_of(start), <Py_ssize_t>0), len(log.segments)):
        segment = <Segment>log.segments[i]
        if (segment.live or segment.lost is not None) and segment.first_seq + segment.slots > start:
            return max(start, segment.first_seq)
    return 0


cdef bytes subject_of(StreamLog log, uint64_t seq):
    cdef SegmentedLog segmented = <SegmentedLog?>log
    cdef Segment segment = segmented.segment_of(seq)
    cdef Py_ssize_t slot
    if segment is None:
        return b""
    slot = seq - segment.first_seq
    if segment.is_dead(slot):
        return b""
    segmented.load(segment)
    return PyBytes_FromStringAndSize(segment.subject_text(segment.ids[slot]), segment.subject_len(segment.ids[slot]))


cdef bint holds(SegmentedLog log, uint64_t seq) except -1:
    cdef Segment segment = log.segment_of(seq)
    return segment is not None and not segment.is_dead(seq - segment.first_seq)
