# cython: boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Summaries of sealed segments (see summary.pxd).

A summary is true for one state of the segment's deletions.  Start-up works that state out from the ranges that all
segments record, and uses the counts only when it is the same; so an old summary costs time, never a wrong answer.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from jetbroker.bounds import INT64_MAX, UINT64_MAX
from jetbroker.limits import SEGMENT_FOOTER_BYTES, STREAM_LAST_SEQUENCE
from jetbroker.store.format.documents import is_number

from jetbroker.store.log.filelog cimport FileLog
from jetbroker.store.format.records cimport OFFSET_LOST, SUBJECT_NONE, TRAILER_BYTES
from jetbroker.store.log.scan cimport bury
from jetbroker.store.log.segment cimport Ranges
from jetbroker.store.log.segment_files cimport FileSegment
from jetbroker.store.log.subject_states cimport SubjectStates

# Three dictionaries: of the file, of its subjects, of what is deleted.
Summary = tuple
# The numbers of the first one, and how large each can be.
NUMBERS = {
    "stream_id": UINT64_MAX, "size": INT64_MAX, "footer_at": INT64_MAX, "footer_len": INT64_MAX,
    "footer_crc": 2 ** 32 - 1, "header_len": 2 ** 32 - 1, "created": INT64_MAX, "previous": UINT64_MAX,
    "valid_before": UINT64_MAX, "first_seq": STREAM_LAST_SEQUENCE, "last_seq": STREAM_LAST_SEQUENCE,
    "slots": INT64_MAX, "messages": INT64_MAX, "bytes": INT64_MAX, "first_time": INT64_MAX, "last_time": INT64_MAX,
    "msg_ids": INT64_MAX,
}
cdef uint64_t SLOT_BYTES = 20          # of a footer, at least


def summarize(FileLog log not None, FileSegment segment not None):
    """Describe a sealed segment whose columns can be loaded; None when its file alone would not say the same."""
    cdef Py_ssize_t slot
    if not segment.sealed or not segment.footer_at or segment.temporary is not None:
        return None
    log.load(segment)
    if segment.lost is not None:
        for slot in segment.lost:
            if segment.offsets[slot] != <uint32_t>OFFSET_LOST:
                # found while running; a restart would not know of it
                return None
    file = {
        "stream_id": log.stream_id, "size": segment.footer_at + segment.footer_len + TRAILER_BYTES,
        "footer_at": segment.footer_at, "footer_len": segment.footer_len, "footer_crc": segment.footer_crc,
        "header_len": segment.header_len, "created": segment.created_ns, "previous": segment.previous,
        "valid_before": segment.valid_before, "first_seq": segment.first_seq, "last_seq": segment.last_seq(),
        "slots": segment.slots, "messages": segment.live, "bytes": segment.live_bytes,
        "first_time": segment.first_time, "last_time": segment.last_time, "msg_ids": segment.msg_ids,
        "packed": bool(segment.packed),
    }
    return file, live_subjects(segment), deletions(log, segment)


cdef dict live_subjects(FileSegment segment):
    """Per live subject its count, first and last slot, and where its text ends, as columns; and the texts."""
    cdef Py_ssize_t n = segment.subjects
    cdef Py_ssize_t used = 0
    cdef Py_ssize_t slot
    cdef Py_ssize_t i
    cdef uint32_t end = 0
    cdef uint32_t* counts = <uint32_t*>calloc(4 * n + 1, 4)
    cdef uint32_t* firsts = counts + n
    cdef uint32_t* lasts = firsts + n
    cdef uint32_t* ends = lasts + n
    cdef bytes text
    if counts == NULL:
        raise MemoryError
    try:
        slot = segment.next_live(0, segment.slots)
        while slot >= 0:
            i = segment.ids[slot]
            if counts[i] == 0:
                firsts[i] = <uint32_t>slot
            counts[i] += 1
            lasts[i] = <uint32_t>slot
            slot = segment.next_live(slot + 1, segment.slots)
        text = PyBytes_FromStringAndSize(NULL, segment.text_offsets[n] if n else 0)
        for i in range(n):
            if counts[i]:
                memcpy(PyBytes_AS_STRING(text) + end, segment.subject_text(<uint32_t>i),
                       segment.subject_len(<uint32_t>i))
                end += <uint32_t>segment.subject_len(<uint32_t>i)
                counts[used] = counts[i]
                firsts[used] = firsts[i]
                lasts[used] = lasts[i]
                ends[used] = end
                used += 1
        return {"counts": (<char*>counts)[:4 * used], "firsts": (<char*>firsts)[:4 * used],
                "lasts": (<char*>lasts)[:4 * used], "ends": (<char*>ends)[:4 * used], "text": text[:end]}
    finally:
        free(counts)


cdef bytes packed(list numbers):
    cdef bytes out = PyBytes_FromStringAndSize(NULL, 4 * len(numbers))
    cdef uint32_t* p = <uint32_t*>PyBytes_AS_STRING(out)
    cdef Py_ssize_t i
    for i in range(len(numbers)):
        p[i] = numbers[i]
    return out


cdef dict deletions(FileLog log, FileSegment segment):
    """Ranges recorded in the file, empty and lost slots, and what was dead when this was written."""
    cdef Ranges recorded = log.recorded_ranges(segment)
    cdef Ranges empty = Ranges()
    cdef list lost = []
    cdef Py_ssize_t slot
    for slot in range(segment.slots):
        if segment.ids[slot] == SUBJECT_NONE:
            empty.add(slot, slot)
            if segment.offsets[slot] == <uint32_t>OFFSET_LOST:
                lost.append(slot)
    return {"recorded": (<char*>recorded.data)[:16 * recorded.count] if recorded.count else b"",
            "empty": (<char*>empty.data)[:16 * empty.count] if empty.count else b"",
            "lost": packed(lost), "dead": dead_bits(segment)}


cdef bytes dead_bits(FileSegment segment):
    """The bitmap of dead slots, whole words; b"" when all are alive."""
    cdef Py_ssize_t words = (segment.slots + 63) >> 6
    cdef Py_ssize_t i
    cdef bytes out
    cdef uint64_t* p
    if segment.dead == NULL or segment.live == segment.slots:
        return b""
    out = bytes(8 * words)
    p = <uint64_t*>PyBytes_AS_STRING(out)
    memcpy(p, segment.dead, 8 * min(words, segment.dead_words))
    if segment.slots & 63:
        # a segment that took appends back may have had more slots
        p[words - 1] &= (<uint64_t>1 << (segment.slots & 63)) - 1
    for i in range(words):
        if p[i]:
            return out
    return b""


cdef Py_ssize_t length_of(dict values, str name) except? -1:
    value = values.get(name)
    if not isinstance(value, bytes):
        raise ValueError(f"the summary's {name} are no bytes")
    return PyBytes_GET_SIZE(<bytes>value)


def adopt_summary(FileSegment segment not None, tuple summary not None):
    """Take everything but the columns from a summary that `check_summary` has passed."""
    cdef dict file = summary[0]
    cdef dict gone = summary[2]
    cdef Py_ssize_t i
    cdef const uint64_t* pair
    segment.header_len = file["header_len"]
    segment.created_ns = file["created"]
    segment.previous = file["previous"]
    segment.valid_before = file["valid_before"]
    segment.footer_at = segment.end = file["footer_at"]
    segment.footer_len = file["footer_len"]
    segment.footer_crc = file["footer_crc"]
    segment.slots = file["slots"]
    segment.first_time = file["first_time"]
    segment.last_time = file["last_time"]
    segment.msg_ids = file["msg_ids"]
    segment.sealed = True
    segment.summary = summary
    segment.recorded = Ranges()
    pair = <const uint64_t*>PyBytes_AS_STRING(<bytes>gone["recorded"])
    for i in range(length_of(gone, "recorded") >> 4):
        segment.recorded.add(pair[2 * i], pair[2 * i + 1])


def check_summary(dict file not None, dict subjects not None, dict gone not None):
    """Every number of a summary has its range and agrees with the others. Raises ValueError."""
    for name, highest in NUMBERS.items():
        if not is_number(file.get(name), highest):
            raise ValueError(f"the summary's {name} is no such number")
    slots = file["slots"]
    if file["first_seq"] == 0 or file["last_seq"] + 1 != file["first_seq"] + slots or file["messages"] > slots \
            or slots > (SEGMENT_FOOTER_BYTES if file.get("packed", False) else file["footer_len"]) // SLOT_BYTES:
        raise ValueError("the summary's lengths are wrong")
    check_subjects(subjects, slots, file["messages"])
    check_deletions(gone, slots, file["last_seq"])


cdef int check_subjects(dict subjects, uint64_t slots, uint64_t messages) except -1:
    cdef Py_ssize_t n = length_of(subjects, "counts")
    cdef Py_ssize_t i
    cdef uint64_t total = 0
    cdef uint32_t previous = 0
    cdef const uint32_t* counts
    cdef const uint32_t* firsts
    cdef const uint32_t* lasts
    cdef const uint32_t* ends
    if n & 3 or n != length_of(subjects, "firsts") or n != length_of(subjects, "lasts") \
            or n != length_of(subjects, "ends"):
        raise ValueError("the summary's parts do not fit each other")
    counts = <const uint32_t*>PyBytes_AS_STRING(<bytes>subjects["counts"])
    firsts = <const uint32_t*>PyBytes_AS_STRING(<bytes>subjects["firsts"])
    lasts = <const uint32_t*>PyBytes_AS_STRING(<bytes>subjects["lasts"])
    ends = <const uint32_t*>PyBytes_AS_STRING(<bytes>subjects["ends"])
    for i in range(n >> 2):
        if ends[i] < previous or counts[i] == 0 or firsts[i] > lasts[i] or lasts[i] >= slots:
            raise ValueError("the summary's subjects do not fit each other")
        previous = ends[i]
        total += counts[i]
    if previous != <uint64_t>length_of(subjects, "text") or total != messages:
        raise ValueError("the summary's subjects are not those of its messages")
    return 0


cdef int check_deletions(dict gone, uint64_t slots, uint64_t last_seq) except -1:
    cdef const uint64_t* recorded
    cdef const uint64_t* empty
    cdef const uint32_t* lost
    cdef Py_ssize_t i
    if length_of(gone, "recorded") & 15 or length_of(gone, "empty") & 15 or length_of(gone, "lost") & 3 \
            or <uint64_t>length_of(gone, "dead") not in (0, (slots + 63) // 64 * 8):
        raise ValueError("the summary's parts do not fit each other")
    recorded = <const uint64_t*>PyBytes_AS_STRING(<bytes>gone["recorded"])
    empty = <const uint64_t*>PyBytes_AS_STRING(<bytes>gone["empty"])
    lost = <const uint32_t*>PyBytes_AS_STRING(<bytes>gone["lost"])
    for i in range(length_of(gone, "recorded") >> 4):
        if recorded[2 * i + 1] < recorded[2 * i] or recorded[2 * i + 1] > last_seq:
            raise ValueError("the summary's deletions are not of this segment")
    for i in range(length_of(gone, "empty") >> 4):
        # in order, so that each slot is looked at once
        if empty[2 * i + 1] < empty[2 * i] or empty[2 * i + 1] >= slots or (i and empty[2 * i] <= empty[2 * i - 1]):
            raise ValueError("the summary's empty slots are not of this segment")
    for i in range(length_of(gone, "lost") >> 2):
        if lost[i] >= slots or (i and lost[i] <= lost[i - 1]):
            raise ValueError("the summary's lost slots are not of this segment")
    return 0


cdef bint count_by_summary(FileLog log, FileSegment segment, const uint64_t* ranges, Py_ssize_t count) except -1:
    cdef dict file
    cdef dict subjects
    cdef dict gone
    cdef const uint64_t* empty
    cdef const uint32_t* lost
    cdef bytes dead
    cdef Py_ssize_t i
    cdef Py_ssize_t slot
    file, subjects, gone = segment.summary
    segment.summary = None
    empty = <const uint64_t*>PyBytes_AS_STRING(<bytes>gone["empty"])
    lost = <const uint32_t*>PyBytes_AS_STRING(<bytes>gone["lost"])
    for i in range(PyBytes_GET_SIZE(<bytes>gone["empty"]) >> 4):
        for slot in range(empty[2 * i], empty[2 * i + 1] + 1):
            segment.mark_dead(slot)
    for i in range(PyBytes_GET_SIZE(<bytes>gone["lost"]) >> 2):
        segment.mark_lost(lost[i])
    bury(segment, ranges, count)
    segment.live = segment.count_live(0, segment.slots)
    if segment.live != file["messages"]:
        return False
    dead = dead_bits(segment)
    if dead != gone["dead"]:
        return False
    segment.live_bytes = file["bytes"]
    count_subjects(log.states, segment, subjects)
    log.counted(segment)
    segment.summarized_live = segment.live
    return True


cdef int count_subjects(SubjectStates states, FileSegment segment, dict subjects) except -1:
    cdef const uint32_t* counts = <const uint32_t*>PyBytes_AS_STRING(<bytes>subjects["counts"])
    cdef const uint32_t* firsts = <const uint32_t*>PyBytes_AS_STRING(<bytes>subjects["firsts"])
    cdef const uint32_t* lasts = <const uint32_t*>PyBytes_AS_STRING(<bytes>subjects["lasts"])
    cdef const uint32_t* ends = <const uint32_t*>PyBytes_AS_STRING(<bytes>subjects["ends"])
    cdef const char* text = PyBytes_AS_STRING(<bytes>subjects["text"])
    cdef uint32_t start = 0
    cdef Py_ssize_t i
    for i in range(PyBytes_GET_SIZE(<bytes>subjects["counts"]) >> 2):
        states.found(PyBytes_FromStringAndSize(text + start, ends[i] - start), counts[i],
                     segment.first_seq + firsts[i], segment.first_seq + lasts[i])
        start = ends[i]
    return 0
