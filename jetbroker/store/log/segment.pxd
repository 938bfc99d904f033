"""One segment of a log in memory: a slot per sequence, its columns, its dead slots and its subject dictionary."""
from libc.stdint cimport int64_t, uint32_t, uint64_t

from jetbroker.store.format.records cimport SIZE_HAS_HEADERS, SIZE_MASK
from jetbroker.store.log.subject_index cimport SlotLinks, SubjectTable

# Memory of this size in place of `p`, with its content. Raises MemoryError.
cdef void* grow(void* p, size_t size) except NULL


cdef class SubjectSet:
    """Which subject ids of one segment a filter matches."""
    cdef uint64_t* bits
    cdef Py_ssize_t capacity          # words
    cdef Py_ssize_t known             # ids below this have been judged
    cdef Py_ssize_t matching

    cdef int add(self, bint matches) except -1     # the verdict on id `known`
    cdef bint has(self, uint32_t subject_id) noexcept nogil


cdef class Ranges:
    """A growing list of inclusive sequence ranges; neighbours that touch the last one are joined."""
    cdef uint64_t* data               # pairs
    cdef Py_ssize_t count
    cdef Py_ssize_t capacity

    cdef int add(self, uint64_t first, uint64_t last) except -1   # nothing when first > last
    cdef int extend(self, Ranges other) except -1
    cdef void clear(self) noexcept
    cdef int normalize(self) except -1             # sorted, joined, without overlap


cdef class Segment:
    cdef readonly uint64_t first_seq
    cdef readonly Py_ssize_t slots
    cdef readonly Py_ssize_t live     # neither dead nor lost
    cdef Py_ssize_t empty             # skipped sequences among the slots that were pushed here
    cdef readonly uint64_t live_bytes
    cdef readonly uint64_t msg_ids
    cdef readonly int64_t first_time
    cdef readonly int64_t last_time
    cdef readonly bint sealed
    cdef list lost                    # slots of damaged records, sorted; None when there are none
    cdef list torn                    # batches that lack records, see BatchWalk.torn; None until a walk finds one
    cdef uint64_t tag                 # unique within the process
    cdef uint64_t used_at             # log's clock: for dropping columns of the segment used longest ago
    cdef uint32_t* offsets            # columns: NULL while not loaded
    cdef int64_t* times
    cdef uint32_t* sizes
    cdef uint32_t* ids
    cdef Py_ssize_t capacity          # slots there is room for
    cdef uint64_t* dead               # bitmap (lost slots are dead too); NULL: none
    cdef Py_ssize_t dead_words
    cdef Py_ssize_t subjects          # dictionary
    cdef uint32_t* text_offsets
    cdef char* text
    cdef Py_ssize_t subjects_capacity
    cdef Py_ssize_t text_capacity
    cdef bytes blob                   # owns the columns when they came from a footer
    cdef Py_ssize_t searched          # slots and subjects that searches for one subject have gone through
    cdef SubjectTable table           # None until that was more than the segment has slots
    cdef SlotLinks links              # as `table`

    cdef uint64_t last_seq(self) noexcept nogil
    cdef bint loaded(self) noexcept nogil
    cdef void unload(self) noexcept
    cdef int adopt_footer(self, bytes footer) except -1    # a sound one: columns and dictionary point into it
    cdef int push(self, uint32_t offset, int64_t time_ns, uint32_t size, uint32_t subject_id) except -1
    cdef int push_empty(self, uint32_t offset) except -1   # offset: OFFSET_EMPTY or OFFSET_LOST
    cdef int truncate_slots(self, Py_ssize_t slots) except -1
    # Does it say how much of the segment in front of it is valid? Then it stays as long as that one.
    cdef bint is_limit_of(self, Segment before) except -1
    cdef uint32_t add_subject(self, const char* subject, Py_ssize_t n) except? 0xFFFFFFFF
    cdef uint32_t find_subject(self, const char* subject, Py_ssize_t n) except? 0        # SUBJECT_NONE: not here
    cdef int mark_dead(self, Py_ssize_t slot) except -1    # bitmap only
    cdef void mark_live(self, Py_ssize_t slot) noexcept
    cdef int mark_lost(self, Py_ssize_t slot) except -1
    cdef bint is_lost(self, Py_ssize_t slot) except -1      # of a dead slot: its record is damaged
    # First lost slot in [slot, end) that may be of these subjects (None: any), -1: none.
    cdef Py_ssize_t next_lost(self, SubjectSet ids, Py_ssize_t slot, Py_ssize_t end) except? -1
    cdef bint is_dead(self, Py_ssize_t slot) noexcept nogil
    # First slot in [slot, end) that is not dead, -1: none.
    cdef Py_ssize_t next_live(self, Py_ssize_t slot, Py_ssize_t end) noexcept nogil
    # First slot in [slot, end) that is dead and not lost, -1: none.
    cdef Py_ssize_t next_deleted(self, Py_ssize_t slot, Py_ssize_t end) except? -1
    cdef Py_ssize_t previous_live(self, Py_ssize_t slot) noexcept nogil                  # at or before slot
    cdef Py_ssize_t next_in(self, SubjectSet ids, Py_ssize_t slot, Py_ssize_t end) noexcept nogil
    # First live slot of the subject in [slot, end), the last one at or before slot; -1: none.
    cdef Py_ssize_t next_of(self, uint32_t subject_id, Py_ssize_t slot, Py_ssize_t end) except? -1
    cdef Py_ssize_t previous_of(self, uint32_t subject_id, Py_ssize_t slot) except? -1
    cdef SlotLinks linked(self)                            # None: not yet
    cdef size_t index_bytes(self) noexcept
    # live and live_bytes anew, from columns and dead slots; a message costs that much beside subject and content
    cdef int count(self, uint32_t message_cost, uint32_t headers_cost) except -1
    cdef Py_ssize_t count_live(self, Py_ssize_t start, Py_ssize_t end) noexcept nogil
    cdef inline const char* subject_text(self, uint32_t subject_id) noexcept nogil:
        return self.text + self.text_offsets[subject_id]
    cdef inline uint64_t cost_of(self, Py_ssize_t slot, uint32_t message_cost, uint32_t headers_cost) noexcept nogil:
        cdef uint32_t size = self.sizes[slot]
        return message_cost + <uint64_t>self.subject_len(self.ids[slot]) + (size & SIZE_MASK) \
            + (headers_cost if size & SIZE_HAS_HEADERS else 0)
    cdef inline Py_ssize_t subject_len(self, uint32_t subject_id) noexcept nogil:
        return self.text_offsets[subject_id + 1] - self.text_offsets[subject_id]


# The ranges that a sound footer records.
cdef Ranges footer_ranges(bytes footer)
# A valid record is the message that the columns have for the slot.
cdef bint is_record_of(const char* record, Segment segment, Py_ssize_t slot) noexcept
