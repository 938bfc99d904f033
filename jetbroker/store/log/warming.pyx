# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Reads of many subjects' last messages at once (see warming.pxd)."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from libc.stdint cimport uint32_t

from jetbroker.store.log.segment cimport Segment
from jetbroker.store.log.segmented cimport SegmentedLog
from jetbroker.store.log.stream_log cimport SubjectState

cdef extern from *:
    void fetch_line "__builtin_prefetch"(const void*) noexcept nogil

cdef enum:
    MOST = 1024                        # what these need has room in a processor's cache


cdef struct Place:
    PyObject* state                    # borrowed, as `segment`; NULL: not found
    PyObject* segment                  # NULL: nothing of it is in memory
    Py_ssize_t slot
    uint32_t subject_id


cdef void warm(SegmentedLog log, list subjects) noexcept:
    """Step by step, each for all of them: what a step begins to fetch is there in the next."""
    cdef Place[MOST] places
    cdef Place* place
    cdef Py_ssize_t count = min(len(subjects), MOST)
    cdef Py_ssize_t i
    cdef bytes subject
    for i in range(count):
        subject = <bytes>subjects[i]
        places[i].state = log.subjects.candidate(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))
        places[i].segment = NULL
        if places[i].state != NULL:
            fetch_line(<char*>places[i].state)
            fetch_line(<char*>places[i].state + 64)
    for i in range(count):
        if places[i].state != NULL:
            find_slot(log, <SubjectState>places[i].state, &places[i])
    for i in range(count):
        place = &places[i]
        if place.segment != NULL:
            place.subject_id = (<Segment>place.segment).ids[place.slot]
            if place.subject_id < <size_t>(<Segment>place.segment).subjects:
                fetch_line(&(<Segment>place.segment).text_offsets[place.subject_id])
            else:
                place.segment = NULL
    for i in range(count):
        place = &places[i]
        if place.segment != NULL:
            fetch_line((<Segment>place.segment).subject_text(place.subject_id))


cdef void find_slot(SegmentedLog log, SubjectState state, Place* place) noexcept:
    cdef Segment segment = log.segment_of(state.last)
    cdef Py_ssize_t slot
    fetch_line(PyBytes_AS_STRING(state.subject))
    if segment is None or segment.ids == NULL or segment.text_offsets == NULL:
        return
    slot = state.last - segment.first_seq
    fetch_line(&segment.offsets[slot])
    fetch_line(&segment.times[slot])
    fetch_line(&segment.sizes[slot])
    fetch_line(&segment.ids[slot])
    place.segment = <PyObject*>segment
    place.slot = slot
