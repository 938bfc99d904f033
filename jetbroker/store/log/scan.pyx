# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Reading segment files back: records and footers into columns; what can be kept of one whose fdatasync has failed.

The kernel drops the dirty pages and reports success the next time, so such a file is never trusted again behind what
was synced before: what is not on disk is written again, into a new file, whose header says how much of the old one is
valid.
"""
from bisect import bisect_left

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetbroker.store.format.records cimport (
    KIND_DELETIONS, KIND_MESSAGE, OFFSET_EMPTY, OFFSET_LOST, RECORD_HEADER, SUBJECT_NONE, find_record, load_u64,
    message_fits, record_flags, record_is_sane, record_is_valid, record_kind, record_length, record_payload,
    record_payload_len, record_seq, record_size_entry, record_subject, record_subject_len, record_time, slots_bound,
)
from jetbroker.store.log.atomic cimport BatchWalk
from jetbroker.store.log.segment cimport Ranges, Segment, footer_ranges
from jetbroker.store.log.segment_files cimport FileSegment, SegmentFiles
from jetbroker.store.log.stream_log cimport FLAG_MSG_ID

from jetbroker.errors import StorageError
from jetbroker.store.format import records as store_format
from jetbroker.store.format.documents import stream_meta
from jetbroker.store.format.frames import unpack
from jetbroker.store.format.records import decode_object


# Ranges in one D record: 1 MiB
cdef Py_ssize_t RANGES_PER_RECORD = 65536


cdef Py_ssize_t slots_before(FileSegment segment, uint64_t offset) noexcept:
    cdef Py_ssize_t slots = segment.slots
    cdef uint32_t at
    while slots:
        at = segment.offsets[slots - 1]
        # what is lost was in the file when the log was opened
        if at == <uint32_t>OFFSET_LOST or (at != OFFSET_EMPTY and at < offset):
            break
        slots -= 1
    while 0 < slots < segment.slots and segment.offsets[slots] == OFFSET_EMPTY:
        slots += 1
    return slots


cdef bytes range_records(uint64_t stream_id, Ranges ranges, uint64_t seq, int64_t time_ns):
    pairs = ranges.pairs()
    return b"".join([store_format.encode_deletions(stream_id, seq, time_ns, pairs[i:i + RANGES_PER_RECORD])
                     for i in range(0, len(pairs), RANGES_PER_RECORD)])


cdef int carry_dead(FileSegment new, list old) except -1:
    cdef FileSegment segment
    cdef Py_ssize_t i
    new.lost = None                    # where a walk of the records misses one, it was overwritten
    for segment in old:
        for i in range(segment.slots):
            if segment.first_seq + i >= new.first_seq and segment.is_dead(i):
                new.mark_dead(segment.first_seq + i - new.first_seq)
                if segment.is_lost(i):
                    new.mark_lost(segment.first_seq + i - new.first_seq)
    return 0


cdef int shorten(FileSegment segment, Py_ssize_t slots, uint64_t end) except -1:
    segment.sealed = True
    segment.footer_at = 0
    segment.end = end
    segment.recorded = Ranges()
    return segment.truncate_slots(slots)


cdef class Walk:
    """What walking the records of one segment has found."""
    cdef readonly object config        # of the last C record, or None
    cdef readonly uint64_t end         # behind the last valid record
    cdef readonly uint64_t damaged     # places where bytes had to be skipped
    cdef readonly uint64_t last_seq    # highest sequence any record mentions
    cdef BatchWalk batches


def walk_records(FileSegment segment not None, bytes data not None, uint64_t limit, uint32_t seed, bint sealed):
    """Rebuild the columns of `segment` from the records in data[header_len:limit]; returns a Walk.

    Sequences missing behind a damaged place become lost slots, other gaps are skipped sequences. A batch without its
    last record at the end was not committed: the walk ends in front of it, unless the segment is `sealed`.
    """
    cdef Walk walk = Walk()
    cdef const char* p = PyBytes_AS_STRING(data)
    cdef uint64_t n = min(limit, <uint64_t>PyBytes_GET_SIZE(data))
    cdef uint64_t at = segment.header_len
    cdef Py_ssize_t found
    cdef bint damaged = False
    cdef dict ids = {}
    cdef BatchWalk batches = BatchWalk()
    segment.recorded = Ranges()
    walk.batches = batches
    walk.end = at
    walk.last_seq = segment.first_seq - 1
    while at + RECORD_HEADER <= n:
        if not record_is_valid(p + at, n - at, seed):
            with nogil:
                found = find_record(p, n, at + 1, seed)
            if found < 0:
                break
            damaged = True
            if skip_erased(p, at, found) != <uint64_t>found:
                walk.damaged += 1
            at = found
        if not take_record(segment, walk, p + at, at, damaged, ids):
            walk.damaged += 1
        elif record_kind(p + at) == KIND_MESSAGE:
            damaged = False
        at += record_length(p + at)
        walk.end = at
    if batches.first_seq and sealed:
        batches.break_off(None)
    elif batches.first_seq:
        segment.truncate_slots(batches.first_seq - segment.first_seq)
        walk.last_seq = batches.first_seq - 1
        walk.end = batches.start
    segment.torn = batches.torn or None
    segment.end = walk.end
    segment.sealed = sealed
    return walk


cdef uint64_t skip_erased(const char* p, uint64_t at, uint64_t end) noexcept nogil:
    """Behind the messages from `at` on that were overwritten when they were removed (see FileLog.erase_slot): `end` when there is
    nothing else in front of it."""
    cdef const char* r
    cdef const char* body
    while at < end:
        r = p + at
        if not record_is_sane(r, end - at):
            break
        body = r + RECORD_HEADER
        while body < r + record_length(r):
            if body[0]:
                return at
            body += 1
        at += record_length(r)
    return at


cdef bint take_record(FileSegment segment, Walk walk, const char* r, uint64_t at, bint damaged, dict ids) except -1:
    """Put one valid record into the columns; False when it does not fit where it stands."""
    cdef uint64_t expected = segment.first_seq + segment.slots
    cdef uint64_t seq = record_seq(r)
    cdef uint64_t upto = seq if record_kind(r) == KIND_MESSAGE else seq + 1
    cdef Py_ssize_t i
    cdef bytes subject
    if record_kind(r) == KIND_MESSAGE:
        if not message_fits(r, segment.first_seq, expected, at):
            return False
    elif seq >= expected and seq - segment.first_seq >= slots_bound(at):
        return False
    if record_kind(r) == KIND_DELETIONS:
        # sequences may have been used up without a message: the end of the log has the time of the last one
        segment.last_time = max(segment.last_time, record_time(r))
    if upto > expected:
        while segment.first_seq + segment.slots < upto:
            segment.push_empty(<uint32_t>OFFSET_LOST if damaged else OFFSET_EMPTY)
    walk.last_seq = max(walk.last_seq, seq)
    if record_kind(r) == KIND_MESSAGE:
        walk.batches.message(r, expected, at, damaged)
        subject = record_subject(r)[:record_subject_len(r)]
        subject_id = ids.get(subject)
        if subject_id is None:
            subject_id = segment.add_subject(record_subject(r), record_subject_len(r))
            ids[subject] = subject_id
        # none of ours goes back in time; binary searches need it so
        segment.push(<uint32_t>at, max(record_time(r), segment.last_time), record_size_entry(r), subject_id)
        if record_flags(r) & FLAG_MSG_ID:
            segment.msg_ids += 1
        return True
    walk.batches.other(seq, expected, damaged)
    if record_kind(r) == KIND_DELETIONS:
        for i in range(0, record_payload_len(r) - 15, 16):
            # it tells of what was there when it was written
            segment.recorded.add(load_u64(record_payload(r) + i), min(load_u64(record_payload(r) + i + 8), seq))
    else:
        config = stream_meta(decode_object(record_payload(r)[:record_payload_len(r)]))
        if config is None:
            return False
        walk.config = config
    return True


def first_record(bytes data not None, uint64_t start, uint32_t seed):
    """Offset of the first valid record at or behind `start`; the length of data when there is none."""
    cdef Py_ssize_t found = find_record(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), start, seed)
    return found if found >= 0 else PyBytes_GET_SIZE(data)


def use_footer(FileSegment segment not None, bytes footer not None, trailer):
    """Take columns and recorded ranges from a sound footer."""
    segment.footer_at, segment.footer_len, segment.footer_crc = trailer
    segment.adopt_footer(footer)
    segment.recorded = footer_ranges(footer)
    segment.sealed = True
    segment.end = segment.footer_at


cdef int mark_columns(FileSegment segment) except -1:
    """Empty and lost slots of a footer's columns are dead."""
    cdef Py_ssize_t slot
    for slot in range(segment.slots):
        if segment.ids[slot] == SUBJECT_NONE:
            segment.mark_dead(slot)
            if segment.offsets[slot] == <uint32_t>OFFSET_LOST:
                segment.mark_lost(slot)
    return 0


cdef int bury(Segment segment, const uint64_t* ranges, Py_ssize_t count) except -1:
    """Mark the slots dead that the (sorted, joined) ranges delete."""
    cdef Py_ssize_t low = 0
    cdef Py_ssize_t high = count
    cdef Py_ssize_t middle
    cdef Py_ssize_t slot
    cdef uint64_t last = segment.last_seq()
    cdef Py_ssize_t until
    cdef Py_ssize_t first
    while low < high:
        middle = (low + high) >> 1
        if ranges[2 * middle + 1] < segment.first_seq:
            low = middle + 1
        else:
            high = middle
    first = low
    while segment.slots and low < count and ranges[2 * low] <= last:
        slot = ranges[2 * low] - segment.first_seq if ranges[2 * low] > segment.first_seq else 0
        until = min(ranges[2 * low + 1], last) - segment.first_seq + 1
        while slot < until:
            segment.mark_dead(slot)
            slot += 1
        low += 1
    if segment.lost is not None:
        forget_lost(segment, ranges + 2 * first, low - first)
    if segment.torn is not None:
        hide_torn_batches(segment)
    return 0


cdef int forget_lost(Segment segment, const uint64_t* ranges, Py_ssize_t count) except -1:
    """What was deleted is not lost."""
    cdef list lost = []
    cdef uint64_t seq
    cdef Py_ssize_t i = 0
    for slot in segment.lost:
        seq = segment.first_seq + <uint64_t>slot
        while i < count and ranges[2 * i + 1] < seq:
            i += 1
        if i == count or seq < ranges[2 * i]:
            lost.append(slot)
    segment.lost = lost or None
    return 0


def has_lost(Segment segment not None, uint64_t first, uint64_t last):
    """Is a damaged slot among the sequences first..last, of which none is before the segment?"""
    if segment.lost is None:
        return False
    i = bisect_left(segment.lost, first - segment.first_seq)
    return i < len(segment.lost) and segment.lost[i] <= last - segment.first_seq


cdef int hide_torn_batches(Segment segment) except -1:
    """Once it is known what was deleted: a batch of which something else is missing is damaged as a whole."""
    cdef Py_ssize_t slot
    for first, last, missing in segment.torn:
        if missing is not None and not any([has_lost(segment, *gap) for gap in missing]):
            continue
        for slot in range(first - segment.first_seq, last - segment.first_seq + 1):
            if not segment.is_dead(slot):
                segment.mark_lost(slot)
    segment.torn = None
    return 0


def rebuild_columns(SegmentFiles files not None, FileSegment segment not None):
    """Columns of a sealed segment from its records, because its footer cannot be read. Raises StorageError.

    True: messages are lost that were counted.
    """
    cdef FileSegment walked = FileSegment(segment.first_seq, segment.path)
    cdef Py_ssize_t slot
    cdef bint found_more = False
    walked.header_len = segment.header_len
    try:
        data = files.disk.read(segment.fd, files.disk.size(segment.fd) if segment.packed else segment.end, 0)
    except OSError as error:
        raise StorageError(f"{segment.path}: {error.strerror}") from error
    unpacked = unpack(data, files.seed) if segment.packed else None
    if unpacked is not None:
        data, segment.frames = unpacked
    segment.end = len(data)
    walk_records(walked, data, segment.end, files.seed, True)
    while walked.slots < segment.slots:
        walked.push_empty(<uint32_t>OFFSET_LOST)
    walked.slots = segment.slots
    adopt_columns(segment, walked)
    # subject ids may differ from the footer's: verdicts on those are kept by tag
    files.forget(segment)
    segment.tag = walked.tag
    segment.footer_at = 0
    if segment.recorded is None:
        segment.recorded = walked.recorded
    for slot in range(segment.slots):
        if segment.ids[slot] == SUBJECT_NONE and not segment.is_dead(slot):
            segment.mark_lost(slot)
            found_more = True
    files.loop.call_exception_handler(
        {"message": f"{segment.path}: the footer is damaged; its columns were rebuilt from the records",
         "exception": StorageError(f"{segment.path}: the footer is damaged")})
    return found_more


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
