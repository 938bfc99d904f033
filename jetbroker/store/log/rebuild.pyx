# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A footer that went bad while the broker runs: the columns come from the records again."""
from libc.stdint cimport uint32_t, uint64_t

from jetbroker.errors import StorageError
from jetbroker.store.format.frames import unpack
from jetbroker.store.log.scan import walk_records

from jetbroker.store.log.filelog cimport FileLog, FileSegment
from jetbroker.store.format.records cimport OFFSET_LOST, SUBJECT_NONE
from jetbroker.store.log.stream_log cimport SubjectState
from jetbroker.store.log.scan cimport count_segment


def rebuild_columns(FileLog log not None, FileSegment segment not None):
    """Columns of a sealed segment from its records, because its footer cannot be read. Raises StorageError."""
    cdef FileSegment walked = FileSegment(segment.first_seq, segment.path)
    cdef Py_ssize_t slot
    cdef bint found_more = False
    walked.header_len = segment.header_len
    try:
        data = log.disk.read(segment.fd, log.disk.size(segment.fd) if segment.packed else segment.end, 0)
    except OSError as error:
        raise StorageError(f"{segment.path}: {error.strerror}") from error
    unpacked = unpack(data, log.seed) if segment.packed else None
    if unpacked is not None:
        data, segment.frames = unpacked
    segment.end = len(data)
    walk_records(walked, data, segment.end, log.seed, True)
    while walked.slots < segment.slots:
        walked.push_empty(<uint32_t>OFFSET_LOST)
    walked.slots = segment.slots
    adopt_columns(segment, walked)
    # subject ids may differ from the footer's: verdicts on those are kept by tag
    log.blocks.forget(segment.tag)
    segment.tag = walked.tag
    segment.footer_at = 0
    if segment.recorded is None:
        segment.recorded = walked.recorded
    for slot in range(segment.slots):
        if segment.ids[slot] == SUBJECT_NONE and not segment.is_dead(slot):
            segment.mark_lost(slot)
            found_more = True
    if found_more:
        recount(log)
    log.tick.loop.call_exception_handler(
        {"message": f"{segment.path}: the footer is damaged; its columns were rebuilt from the records",
         "exception": StorageError(f"{segment.path}: the footer is damaged")})


cdef int adopt_columns(FileSegment segment, FileSegment walked) except -1:
    segment.unload()
    segment.offsets = walked.offsets
    segment.times = walked.times
    segment.sizes = walked.sizes
    segment.ids = walked.ids
    segment.capacity = walked.capacity
    segment.subjects = walked.subjects
    segment.text_offsets = walked.text_offsets
    segment.text = walked.text
    segment.subjects_capacity = walked.subjects_capacity
    segment.text_capacity = walked.text_capacity
    walked.offsets = walked.sizes = walked.ids = walked.text_offsets = NULL
    walked.times = NULL
    walked.text = NULL
    walked.slots = 0
    return 0


def recount(FileLog log not None):
    """Make every count anew: records are damaged, or the cache was wrong, and nobody knows of which subjects."""
    cdef FileSegment segment
    cdef SubjectState state
    cdef uint64_t messages = log.messages
    cdef uint64_t size = log.bytes
    log.messages = log.bytes = 0
    for state in log.subjects.values():
        state.count = 0
    for segment in log.segments:
        if segment.live:
            log.load(segment)
            count_segment(log, segment)
    for state in log.matching_subjects(b""):
        if state.count == 0:
            log.states.retire(state)
    log.account(<long>log.messages - <long>messages, <long>log.bytes - <long>size)
    if log.segments:
        log.advance_first()
