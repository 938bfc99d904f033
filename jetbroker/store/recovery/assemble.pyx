# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Segments found at start-up into a log: what is dead, what is alive, what is missing, where to go on."""
from libc.stdint cimport uint64_t

from jetbroker.store.log.filelog cimport FileLog
from jetbroker.store.log.gaps cimport Gaps
from jetbroker.store.log.scan cimport bury, mark_columns
from jetbroker.store.log.segment cimport Ranges
from jetbroker.store.log.segment_files cimport FileSegment
from jetbroker.store.cache.summary cimport count_by_summary


def assemble(FileLog log not None, list segments not None, uint64_t expected_last=0):
    """Give `log` its recovered segments (in order) and count what is alive.

    Returns True when they end before `expected_last`: what is missing is listed as lost, sequences do not move back.
    """
    cdef Ranges dead = Ranges()
    cdef FileSegment segment
    cdef uint64_t next_seq = 1
    for segment in segments:
        dead.extend(log.recorded_ranges(segment))
    dead.normalize()
    log.segments = segments
    for segment in segments:
        if segment.first_seq > next_seq:
            find_lost_gaps(log.gaps, dead, next_seq, segment.first_seq - 1)
        next_seq = segment.first_seq + segment.slots
        log.last_time_ns = max(log.last_time_ns, segment.last_time)
        if segment.slots:
            if segment.summary is None or not count_by_summary(log, segment, dead.data, dead.count):
                log.load(segment)
                mark_columns(segment)
                bury(segment, dead.data, dead.count)
                log.count_segment(segment)
                if log.on_sealed is not None and segment.footer_at:
                    log.on_sealed(segment)
        if segment.footer_at:
            # its file says it, when it is asked for again
            segment.recorded = None
    log.last_seq = next_seq - 1
    short = log.last_seq < expected_last
    if short:
        log.gaps.add(next_seq, expected_last)
        log.last_seq = expected_last
    log.first_seq = 1 if log.last_seq else 0
    log.advance_first()
    log.account(log.messages, log.bytes)
    return short


cdef Py_ssize_t first_touching(Ranges ranges, uint64_t seq) noexcept:
    """The first of the (sorted, joined) ranges that ends at `seq` or behind it."""
    cdef Py_ssize_t low = 0
    cdef Py_ssize_t high = ranges.count
    cdef Py_ssize_t middle
    while low < high:
        middle = (low + high) >> 1
        if ranges.data[2 * middle + 1] < seq:
            low = middle + 1
        else:
            high = middle
    return low


cdef int find_lost_gaps(Gaps gaps, Ranges dead, uint64_t first, uint64_t last) except -1:
    """What of first..last no range accounts for was in a segment that is missing."""
    cdef Py_ssize_t i
    for i in range(first_touching(dead, first), dead.count):
        if dead.data[2 * i] > last:
            break
        if dead.data[2 * i] > first:
            gaps.add(first, dead.data[2 * i] - 1)
        if dead.data[2 * i + 1] >= last:
            return 0
        first = dead.data[2 * i + 1] + 1
    if first <= last:
        gaps.add(first, last)
    return 0


def resume(FileLog log not None, FileSegment segment):
    """Go on appending to the recovered last segment, or start a new one when it is None."""
    if segment is None and log.segments:
        log.start(log.last_seq + 1, log.close_open_end(log.segments[len(log.segments) - 1]))
    elif segment is None:
        log.start(log.last_seq + 1)
    else:
        log.active = segment
        log.file.go_on(segment)
        log.sealing.batches_end = segment.end  # there may be some
    log.written = log.synced = log.committed = log.last_seq
    log.drop_dead_segments()
