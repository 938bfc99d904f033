# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Reads one segment into Arrow buffers, without the GIL.

`SegmentColumns` maps sequence to record: for a sealed segment the footer says where each record is; an active one is
walked once, up to its last whole record.  `select` chooses slots by sequence, time, subject and what is deleted;
`batch` then decodes a stretch of them.  A record passes its CRC in the very pass that copies it, so that what comes
out is never wrong bytes, whatever happened to the file since it was planned.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, qsort, realloc
from libc.string cimport memcpy, memset

from jetbroker.store.log.atomic cimport BatchWalk
from jetbroker.store.format.records cimport (
    KIND_DELETIONS, KIND_MESSAGE, OFFSET_EMPTY, OFFSET_LOST, RECORD_HEADER, SIZE_MASK, TRAILER_BYTES, FooterLayout,
    crc32c_update, find_record, load_u64, message_fits, parse_footer, record_headers, record_headers_len, record_kind,
    record_is_valid, record_length, record_payload, record_payload_len, record_seed, record_seq, record_size_entry,
    record_subject, record_subject_len, record_time, slots_bound, sound_footer,
)
from jetbroker.store.format.footers cimport sound_segment_footer
from jetbroker.store.format.frames cimport RawImage
from jetbroker.store.offline.text_columns cimport HeaderColumn, TextColumn, is_ascii
from jetbroker.wire.subjects cimport pattern_matches

from jetbroker.limits import READER_BATCH_BYTES
from jetbroker.store.format.records import decode_trailer
from jetbroker.store.format.frames import index_of

cdef Py_ssize_t BATCH_BYTES = READER_BATCH_BYTES
cdef enum:
    SUBJECT = 1
    HEADERS = 2
    DATA = 4
WANT_SUBJECT = SUBJECT
WANT_HEADERS = HEADERS
WANT_DATA = DATA


cdef struct SubjectTotal:
    uint64_t messages
    uint64_t size
    Py_ssize_t first_slot
    Py_ssize_t last_slot


cdef void* _resized(void* block, size_t size) except NULL:
    cdef void* resized = realloc(block, size if size else 1)
    if resized == NULL:
        raise MemoryError(f"no memory for {size} bytes of slots")
    return resized


cdef void* _cleared(size_t count, size_t size) except NULL:
    cdef void* block = calloc(count if count else 1, size)
    if block == NULL:
        raise MemoryError(f"no memory for {count} slots")
    return block


cdef class SlotArrays:
    def __dealloc__(self):
        free(self.offsets)
        free(self.times)
        free(self.sizes)

    cdef int begin(self, Py_ssize_t slots) except -1:
        """So many empty slots come first; nothing is written for them."""
        self.offsets = <uint32_t*>_cleared(slots, sizeof(uint32_t))
        self.times = <int64_t*>_cleared(slots, sizeof(int64_t))
        self.sizes = <uint32_t*>_cleared(slots, sizeof(uint32_t))
        self.count = self.capacity = slots
        return 0

    cdef int put(self, Py_ssize_t slot, uint32_t offset, int64_t time_ns, uint32_t size) except -1:
        """Fills `slot` (>= count); slots jumped over stay empty."""
        cdef Py_ssize_t wanted
        if slot >= self.capacity:
            wanted = max(slot + 1, self.capacity * 2, 1024)
            self.offsets = <uint32_t*>_resized(self.offsets, wanted * sizeof(uint32_t))
            self.times = <int64_t*>_resized(self.times, wanted * sizeof(int64_t))
            self.sizes = <uint32_t*>_resized(self.sizes, wanted * sizeof(uint32_t))
            self.capacity = wanted
        if slot > self.count:
            memset(self.offsets + self.count, 0, (slot - self.count) * sizeof(uint32_t))
            memset(self.times + self.count, 0, (slot - self.count) * sizeof(int64_t))
            memset(self.sizes + self.count, 0, (slot - self.count) * sizeof(uint32_t))
        self.offsets[slot] = offset
        self.times[slot] = time_ns
        self.sizes[slot] = size
        self.count = slot + 1
        return 0


cdef class SegmentColumns:
    """The messages of one segment.

    `data` is the file's content (a memory map will do) from its first byte; its records begin at `start`.  `limit` is
    the byte where they end; None: the footer says so, and without a good footer they are walked to the end of `data`.
    `mark` is what `mark_of` gave for a sequence: what is before it is not looked at when its record is still there.
    """

    def __init__(self, data, uint64_t stream_id, uint64_t first_seq, Py_ssize_t start, limit=None, mark=None):
        self.view = data
        self.size = self.view.shape[0]
        self.data = <const char*>&self.view[0] if self.size else NULL
        self.seed = record_seed(stream_id)
        self.first_seq = first_seq
        self.damaged = []
        self.deletions = b""
        self.subject_column = TextColumn()
        self.header_column = HeaderColumn()
        index = index_of(self.view, self.seed)
        if index is not None:
            self.image = RawImage(self.view, index, self.seed)
            self.data = self.image.data
            self.size = self.image.size
        if limit is None and self._use_footer():
            return
        if self.image is not None:
            self.image.unpack_all()
        end = self.size if limit is None else <Py_ssize_t>min(<object>self.size, limit)
        self.walked = SlotArrays()
        self.batches = BatchWalk()
        self.valid_end = start
        if mark is not None and self._is_at(mark[0], mark[1], end):
            self.walked.begin(<Py_ssize_t>(<uint64_t>mark[0] - first_seq))
            self.valid_end = mark[1]
            self.last_time = mark[2]
        self._walk(end)

    def __dealloc__(self):
        free(self.rows)

    cdef bint _use_footer(self) except -1:
        cdef FooterLayout footer
        cdef const char* base
        cdef Py_ssize_t slot
        cdef Py_ssize_t size = self.view.shape[0]
        cdef Py_ssize_t length
        trailer = decode_trailer(self.view[max(0, size - TRAILER_BYTES):])
        if trailer is None or trailer[0] + trailer[1] + TRAILER_BYTES != size or trailer[0] % 8:
            return False
        base = <const char*>&self.view[0] + <Py_ssize_t>trailer[0]
        length = trailer[1]
        if crc32c_update(0, base, length) != <uint32_t>trailer[2]:
            return False
        if self.image is not None:
            self.footer = sound_segment_footer(base[:length], True, self.first_seq, 0, -1)
            if self.footer is None:
                return False
            base = PyBytes_AS_STRING(self.footer)
            length = len(self.footer)
            parse_footer(base, length, &footer)
        elif sound_footer(base, length, <uint64_t>trailer[0], &footer) != 0 or footer.first_seq != self.first_seq:
            return False
        self.sealed = True
        self.valid_end = trailer[0] if self.image is None else self.size
        self.slots = footer.slots
        self.last_seq = footer.last_seq
        self.offsets = <const uint32_t*>(base + footer.offsets_at)
        self.times = <const int64_t*>(base + footer.times_at)
        self.sizes = <const uint32_t*>(base + footer.sizes_at)
        self.subject_ids = <const uint32_t*>(base + footer.subject_ids_at)
        self.subjects = footer.subjects
        self.subject_offsets = <const uint32_t*>(base + footer.subject_offsets_at)
        self.subject_text = base + footer.subject_text_at
        self.ascii_subjects = is_ascii(<const uint8_t*>self.subject_text, self.subject_offsets[self.subjects])
        self.deletions = PyBytes_FromStringAndSize(base + footer.ranges_at, 16 * footer.ranges)
        for slot in range(self.slots):
            if self.offsets[slot] == OFFSET_LOST:
                self.damaged.append((self.first_seq + slot, self.first_seq + slot))
        return True

    cdef bint _is_at(self, uint64_t seq, Py_ssize_t offset, Py_ssize_t limit) noexcept nogil:
        """The whole record of this message is at this byte."""
        cdef const char* record = self.data + offset
        return (0 < offset < limit and seq >= self.first_seq and record_is_valid(record, limit - offset, self.seed)
                and record_kind(record) == KIND_MESSAGE and record_seq(record) == seq)

    def mark_of(self, uint64_t seq):
        """(sequence, offset, time of what is before) of a message of a segment that was walked; None for any other."""
        cdef Py_ssize_t slot, before
        if self.walked is None or not self.first_seq < seq <= self.last_seq:
            return None
        slot = before = <Py_ssize_t>(seq - self.first_seq)
        while before > 0 and self.offsets[before - 1] == OFFSET_EMPTY:
            before -= 1
        if before == 0 or self.offsets[slot] == OFFSET_EMPTY:
            return None
        return seq, self.offsets[slot], self.times[before - 1]

    def grow(self, data, uint64_t from_seq):
        """Go on where the last walk of the file ended, `data` is what it holds now; False: it has to be walked anew.

        What was walked only changes when a message is overwritten, and a deletion that is appended then says so. The
        messages from `from_seq` on are still checked.
        """
        cdef const unsigned char[::1] view = data
        cdef Py_ssize_t slot, last = self.slots - 1
        if self.walked is None or self.image is not None or self.unsure or last < 0 or view.shape[0] < self.valid_end:
            return False
        if decode_trailer(view[max(0, view.shape[0] - TRAILER_BYTES):]) is not None:
            return False
        if self.batches.torn or not self._only_erased():
            return False        # what could not be read may be there by now
        self.view = view
        self.data = <const char*>&view[0]
        self.size = view.shape[0]
        slot = <Py_ssize_t>min(<uint64_t>last, max(from_seq, self.first_seq) - self.first_seq)
        while slot <= last:
            if (slot == last or self.offsets[slot] != OFFSET_EMPTY) and not self._readable(slot):
                return False
            slot += 1
        self._walk(self.size)
        return True

    cdef bint _only_erased(self) except -1:
        """Whatever is damaged was deleted."""
        if not self.damaged:
            return True
        deleted = merge_ranges(self.deletions)
        return all([ranges_cover(deleted, first, last) for first, last in self.damaged])

    cdef int _walk(self, Py_ssize_t limit) except -1:
        """Finds the records of [valid_end, limit): damaged ones are skipped, a torn end is no damage."""
        cdef const char* record
        cdef Py_ssize_t pos = self.valid_end
        cdef bint after_damage = False
        cdef list deletions = [self.deletions]
        self.unsure = False
        while pos < limit:
            record = self.data + pos
            if not record_is_valid(record, limit - pos, self.seed):
                after_damage = True
                pos = self._resume(pos, limit)
                continue
            if record_kind(record) == KIND_MESSAGE:
                after_damage = self._walk_message(pos, after_damage)
            else:
                after_damage = self._walk_other(pos, after_damage, deletions)
            pos += record_length(record)
            self.valid_end = pos
            self.unsure = after_damage
        if self.batches.first_seq:
            # a batch that is being written, or that a crash cut short
            self.walked.count = <Py_ssize_t>(self.batches.first_seq - self.first_seq)
            self.valid_end = self.batches.start
            self.unsure = True
        self.deletions = b"".join(deletions)
        self.offsets = self.walked.offsets
        self.times = self.walked.times
        self.sizes = self.walked.sizes
        self.slots = self.walked.count
        self.last_seq = self.first_seq + self.slots - 1
        return 0

    cdef int _walk_message(self, Py_ssize_t pos, bint after_damage) except -1:
        """Takes one message over; returns whether damage lies between it and the next."""
        cdef const char* record = self.data + pos
        cdef uint64_t seq = record_seq(record)
        cdef uint64_t expected = self.first_seq + self.walked.count
        if not message_fits(record, self.first_seq, expected, pos):
            return 1            # a stale copy of another place
        self.last_time = max(self.last_time, record_time(record))
        self.batches.message(record, expected, pos, after_damage)
        if after_damage and seq > expected:
            self.damaged.append((expected, seq - 1))
        self.walked.put(<Py_ssize_t>(seq - self.first_seq), <uint32_t>pos, self.last_time,
                        record_size_entry(record))
        return 0

    cdef int _walk_other(self, Py_ssize_t pos, bint after_damage, list deletions) except -1:
        """Deletions and configurations name the last sequence of their time: what is missing up to it is damaged."""
        cdef uint64_t seq = record_seq(self.data + pos)
        cdef uint64_t expected = self.first_seq + self.walked.count
        cdef bint near = seq < expected or seq - self.first_seq < slots_bound(pos)
        self.batches.other(seq, expected, after_damage and near)
        if near and record_kind(self.data + pos) == KIND_DELETIONS:
            deletions.append(_deletions_of(self.data + pos))
        if not after_damage or seq < expected or not near:
            return after_damage
        self.damaged.append((expected, seq))
        self.walked.put(<Py_ssize_t>(seq - self.first_seq), OFFSET_EMPTY, 0, 0)
        return 0

    cdef Py_ssize_t _resume(self, Py_ssize_t pos, Py_ssize_t limit) noexcept nogil:
        """The next whole record behind a damaged one; `limit` when there is none."""
        cdef Py_ssize_t next_pos
        if limit - pos >= RECORD_HEADER:
            # its length may still be right: a payload that looks like a record is then not taken for one
            next_pos = pos + record_length(self.data + pos)
            if pos < next_pos < limit and record_is_valid(self.data + next_pos, limit - next_pos, self.seed):
                return next_pos
        next_pos = find_record(self.data, limit, pos + 1, self.seed)
        return next_pos if next_pos >= 0 else limit

    cdef bint _readable(self, Py_ssize_t slot) noexcept nogil:
        """The record of a slot is undamaged, and is the one that the slot means."""
        cdef const char* record
        cdef Py_ssize_t offset = self.offsets[slot]
        if offset >= self.valid_end:
            return False
        record = self.data + offset
        return (record_is_valid(record, self.valid_end - offset, self.seed)
                and record_kind(record) == KIND_MESSAGE
                and record_seq(record) == self.first_seq + slot
                and record_size_entry(record) == self.sizes[slot])

    def torn_batches(self, bytes deleted not None):
        """[(first_seq, last_seq)] of the batches that lack records which are not among the `deleted` ranges."""
        if self.batches is None:
            return []
        return [(first, last) for first, last, missing in self.batches.torn
                if missing is None or not all(ranges_cover(deleted, *gap) for gap in missing)]

    def summary(self):
        """(messages, bytes of headers and payload, first time, last time) of the selected rows; times in ns."""
        cdef Py_ssize_t i
        cdef uint64_t total = 0
        for i in range(self.row_count):
            total += self.sizes[self.rows[i]] & SIZE_MASK
        if self.row_count == 0:
            return 0, 0, 0, 0
        return self.row_count, total, self.times[self.rows[0]], self.times[self.rows[self.row_count - 1]]

    def select(self, bytes deleted=b"", uint64_t start_seq=0, uint64_t end_seq=0xFFFFFFFFFFFFFFFF,
               int64_t start_ns=-0x8000000000000000, int64_t end_ns=0x7FFFFFFFFFFFFFFF, bytes pattern=b""):
        """Chooses the messages that later batches are made of; returns how many.

        `deleted` are merged ranges (see merge_ranges); both ends of sequences and times are inclusive; `pattern` is a
        NATS subject pattern, b"" for all.
        """
        cdef Py_ssize_t slot, chosen = 0, stop = self.slots
        cdef uint64_t seq
        cdef const char* gap = deleted
        cdef const char* gaps_end = gap + (len(deleted) & ~15)
        cdef const char* pattern_text = pattern
        cdef Py_ssize_t pattern_len = len(pattern)
        cdef bytes wanted = self._wanted_subjects(pattern) if pattern_len and self.subject_ids != NULL else None
        cdef const char* ids = PyBytes_AS_STRING(wanted) if wanted is not None else NULL
        self.row_count = 0
        if stop == 0 or start_seq > self.last_seq or end_seq < self.first_seq:
            return 0
        self.rows = <uint32_t*>_resized(self.rows, stop * sizeof(uint32_t))
        slot = <Py_ssize_t>(start_seq - self.first_seq) if start_seq > self.first_seq else 0
        if end_seq < self.last_seq:
            stop = <Py_ssize_t>(end_seq - self.first_seq) + 1
        with nogil:
            while slot < stop:
                seq = self.first_seq + slot
                while gap < gaps_end and load_u64(gap + 8) < seq:
                    gap += 16
                if gap < gaps_end and load_u64(gap) <= seq:
                    slot = stop if load_u64(gap + 8) >= self.last_seq else <Py_ssize_t>(
                        load_u64(gap + 8) - self.first_seq) + 1
                    continue
                if (self.offsets[slot] != OFFSET_EMPTY and self.offsets[slot] != OFFSET_LOST
                        and start_ns <= self.times[slot] <= end_ns
                        and (pattern_len == 0 or self._matches(slot, ids, pattern_text, pattern_len))):
                    self.rows[chosen] = <uint32_t>slot
                    chosen += 1
                slot += 1
        self.row_count = chosen
        return chosen

    cdef bytes _wanted_subjects(self, bytes pattern):
        """One byte for each entry of the dictionary: does it match?"""
        cdef bytes wanted = PyBytes_FromStringAndSize(NULL, self.subjects)
        cdef char* flags = PyBytes_AS_STRING(wanted)
        cdef Py_ssize_t i
        for i in range(self.subjects):
            flags[i] = pattern_matches(self.subject_text + self.subject_offsets[i],
                                       self.subject_offsets[i + 1] - self.subject_offsets[i], pattern, len(pattern))
        return wanted

    cdef bint _matches(self, Py_ssize_t slot, const char* ids, const char* pattern, Py_ssize_t n) noexcept nogil:
        cdef const char* record
        if ids != NULL:
            return self.subject_ids[slot] < <uint32_t>self.subjects and ids[self.subject_ids[slot]]
        record = self.data + self.offsets[slot]
        return pattern_matches(record_subject(record), record_subject_len(record), pattern, n)

    def seq_of(self, Py_ssize_t row):
        """The sequence of a chosen row."""
        if not 0 <= row < self.row_count:
            raise IndexError(f"no row {row}, there are {self.row_count}")
        return self.first_seq + self.rows[row]

    def subject_totals(self):
        """[(subject, messages, bytes, first sequence, last sequence, first time, last time)] of the chosen rows.

        A sealed segment tells them by its footer alone; times in ns.
        """
        cdef Py_ssize_t i, slot
        cdef Py_ssize_t number
        cdef const char* record
        cdef list names = []
        cdef dict numbers = {}
        cdef SubjectTotal* total
        cdef SubjectTotal* totals = NULL
        cdef Py_ssize_t room = self.subjects if self.subject_ids != NULL else self.row_count
        totals = <SubjectTotal*>calloc(max(room, 1), sizeof(SubjectTotal))
        if totals == NULL:
            raise MemoryError(f"no memory for {room} subjects")
        try:
            for i in range(self.row_count):
                slot = self.rows[i]
                if self.subject_ids != NULL:
                    number = self.subject_ids[slot]
                    if number >= self.subjects:
                        continue
                else:
                    record = self.data + self.offsets[slot]
                    name = record_subject(record)[:record_subject_len(record)]
                    number = numbers.setdefault(name, len(names))
                    if number == len(names):
                        names.append(name)
                total = &totals[number]
                if total.messages == 0:
                    total.first_slot = slot
                total.messages += 1
                total.size += self.sizes[slot] & SIZE_MASK
                total.last_slot = slot
            if self.subject_ids != NULL:
                names = [self.subject_text[self.subject_offsets[i]:self.subject_offsets[i + 1]]
                         for i in range(self.subjects)]
            return [
                (names[i], totals[i].messages, totals[i].size, self.first_seq + totals[i].first_slot,
                 self.first_seq + totals[i].last_slot, self.times[totals[i].first_slot],
                 self.times[totals[i].last_slot])
                for i in range(len(names)) if totals[i].messages]
        finally:
            free(totals)

    def batch(self, Py_ssize_t start, Py_ssize_t max_rows, int want, bint check):
        """Decodes the chosen rows from index `start` on: fewer than max_rows where they are large.

        Returns (rows consumed, rows decoded, sequences i64, times i64 in microseconds, sizes i32, subject column,
        header column, (data offsets, data)).  Columns that are not wanted are empty.  Without `check` and without data
        and headers only the footer of a sealed segment is read.
        """
        cdef Py_ssize_t capacity = 0, decoded, i
        cdef Py_ssize_t consumed = self._stretch(start, max_rows, &capacity)
        cdef bytes seqs = PyBytes_FromStringAndSize(NULL, consumed * 8)
        cdef bytes times = PyBytes_FromStringAndSize(NULL, consumed * 8)
        cdef bytes sizes = PyBytes_FromStringAndSize(NULL, consumed * 4)
        cdef bytes ends = PyBytes_FromStringAndSize(NULL, (consumed + 1) * 4 if want & DATA else 0)
        cdef bytes data = PyBytes_FromStringAndSize(NULL, capacity if want & DATA else 0)
        cdef int64_t* seq_out = <int64_t*>PyBytes_AS_STRING(seqs)
        cdef int64_t* time_out = <int64_t*>PyBytes_AS_STRING(times)
        cdef uint32_t* size_out = <uint32_t*>PyBytes_AS_STRING(sizes)
        cdef char* data_out = PyBytes_AS_STRING(data)
        cdef int* ends_out = <int*>PyBytes_AS_STRING(ends)
        cdef uint32_t* good = <uint32_t*>malloc(max(consumed, 1) * sizeof(uint32_t))
        if good == NULL:
            raise MemoryError("no memory for a batch")
        self.subject_column.reset()
        self.header_column.reset()
        if self.image is not None and (check or want & (DATA | HEADERS)):
            self._need(start, consumed)
        try:
            with nogil:
                decoded = self._decode(start, consumed, good, want, data_out, ends_out,
                                       check or self.subject_ids == NULL or want & (DATA | HEADERS))
                if want & SUBJECT:
                    self._add_subjects(good, decoded)
                for i in range(decoded):
                    seq_out[i] = <int64_t>(self.first_seq + good[i])
                    time_out[i] = _microseconds(self.times[good[i]])
                    size_out[i] = self.sizes[good[i]] & SIZE_MASK
        finally:
            free(good)
        return (consumed, decoded, seqs, times, sizes, self.subject_column.take(), self.header_column.take(),
                (ends, data))

    def digests(self, Py_ssize_t start, Py_ssize_t count, digest):
        """(sequence, digest(sequence, time ns, subject, headers, payload)) of the readable ones of these rows."""
        cdef Py_ssize_t i, slot
        cdef const char* record
        cdef list out = []
        for i in range(start, min(start + count, self.row_count)):
            slot = self.rows[i]
            if self.image is not None:
                self._need(i, 1)
            if not self._readable(slot):
                self._note_damaged(slot)
                continue
            record = self.data + self.offsets[slot]
            out.append((self.first_seq + slot, digest(
                self.first_seq + slot, record_time(record), record_subject(record)[:record_subject_len(record)],
                record_headers(record)[:record_headers_len(record)],
                record_payload(record)[:record_payload_len(record)])))
        return out

    cdef int _need(self, Py_ssize_t start, Py_ssize_t count) except -1:
        """Unpack the frames of these rows."""
        cdef Py_ssize_t i
        for i in range(start, start + count):
            self.image.need(self.offsets[self.rows[i]])
        return 0

    cdef Py_ssize_t _stretch(self, Py_ssize_t start, Py_ssize_t max_rows, Py_ssize_t* data_bytes) noexcept nogil:
        """How many rows from `start` on fit a batch, and the room their payloads need at most."""
        cdef Py_ssize_t i = start
        cdef Py_ssize_t stop = min(self.row_count, start + max_rows)
        cdef Py_ssize_t size
        while i < stop:
            size = self.sizes[self.rows[i]] & SIZE_MASK
            if i > start and data_bytes[0] + size > BATCH_BYTES:
                break
            data_bytes[0] += size
            i += 1
        return i - start

    cdef Py_ssize_t _decode(self, Py_ssize_t start, Py_ssize_t count, uint32_t* good, int want, char* data,
                            int* data_ends, bint check) except? -1 nogil:
        """Copies what is wanted of each readable row; `good` receives their slots. Returns how many."""
        cdef Py_ssize_t i, slot, length, decoded = 0
        cdef int used = 0
        cdef const char* record
        if want & DATA:
            data_ends[0] = 0
        for i in range(start, start + count):
            slot = self.rows[i]
            if check and not self._readable(slot):
                self._note_damaged(slot)
                continue
            record = self.data + self.offsets[slot]
            if want & HEADERS:
                self.header_column.add(<const uint8_t*>record_headers(record), record_headers_len(record))
            if want & DATA:
                length = record_payload_len(record)
                memcpy(data + used, record_payload(record), length)
                used += <int>length
                data_ends[decoded + 1] = used
            good[decoded] = <uint32_t>slot
            decoded += 1
        return decoded

    cdef int _note_damaged(self, Py_ssize_t slot) except -1 with gil:
        self.damaged.append((self.first_seq + slot, self.first_seq + slot))
        return 0

    cdef int _add_subjects(self, const uint32_t* good, Py_ssize_t count) except -1 nogil:
        """The subjects of these slots into the subject column."""
        cdef const char* record
        cdef Py_ssize_t i, length, needed = 0
        cdef uint32_t number
        cdef char* text
        cdef int32_t* ends
        if self.subject_ids == NULL:
            for i in range(count):
                record = self.data + self.offsets[good[i]]
                self.subject_column.add(<const uint8_t*>record_subject(record), record_subject_len(record))
            return 0
        for i in range(count):
            number = self.subject_ids[good[i]]
            needed += self.subject_offsets[number + 1] - self.subject_offsets[number]
        if not self.ascii_subjects:
            for i in range(count):
                number = self.subject_ids[good[i]]
                self.subject_column.add(<const uint8_t*>(self.subject_text + self.subject_offsets[number]),
                                        self.subject_offsets[number + 1] - self.subject_offsets[number])
            return 0
        # nearly every dictionary: nothing to check or to replace, so that only bytes are moved
        self.subject_column.reserve(count, needed)
        text = <char*>self.subject_column.text
        ends = self.subject_column.ends
        needed = 0
        for i in range(count):
            number = self.subject_ids[good[i]]
            length = self.subject_offsets[number + 1] - self.subject_offsets[number]
            memcpy(text + needed, self.subject_text + self.subject_offsets[number], length)
            needed += length
            ends[i + 1] = <int32_t>needed
        self.subject_column.rows = count
        return 0


cdef bytes _deletions_of(const char* record):
    """The ranges of a `D` record: it tells of what was there when it was written."""
    cdef bytes ranges = PyBytes_FromStringAndSize(record_payload(record), record_payload_len(record) & ~15)
    cdef uint64_t* pairs = <uint64_t*>PyBytes_AS_STRING(ranges)
    cdef Py_ssize_t i
    for i in range(PyBytes_GET_SIZE(ranges) // 16):
        pairs[2 * i + 1] = min(pairs[2 * i + 1], record_seq(record))
    return ranges


cdef inline int64_t _microseconds(int64_t time_ns) noexcept nogil:
    """Rounded down, before 1970 too."""
    cdef int64_t whole = time_ns // 1000
    return whole - 1 if time_ns < 0 and whole * 1000 != time_ns else whole


cdef int _by_first(const void* a, const void* b) noexcept nogil:
    cdef uint64_t left = (<const uint64_t*>a)[0]
    cdef uint64_t right = (<const uint64_t*>b)[0]
    return (left > right) - (left < right)


def merge_ranges(bytes ranges not None):
    """Sorted, disjoint and joined ranges (pairs of u64, both inclusive) that cover the same sequences."""
    cdef Py_ssize_t n = len(ranges) // 16, i, kept = 0
    cdef bytes merged = PyBytes_FromStringAndSize(PyBytes_AS_STRING(ranges), n * 16)
    cdef uint64_t* pairs = <uint64_t*>PyBytes_AS_STRING(merged)
    with nogil:
        qsort(pairs, n, 16, _by_first)
        for i in range(n):
            if pairs[2 * i] > pairs[2 * i + 1]:
                continue
            if kept > 0 and (pairs[2 * kept - 1] + 1 >= pairs[2 * i] or pairs[2 * kept - 1] + 1 == 0):
                pairs[2 * kept - 1] = max(pairs[2 * kept - 1], pairs[2 * i + 1])
            else:
                pairs[2 * kept] = pairs[2 * i]
                pairs[2 * kept + 1] = pairs[2 * i + 1]
                kept += 1
    return merged[:16 * kept]


def clip_ranges(bytes merged not None, uint64_t first_seq, uint64_t last_seq):
    """Those merged ranges that touch first_seq..last_seq, as they are."""
    cdef const uint64_t* pairs = <const uint64_t*>PyBytes_AS_STRING(merged)
    cdef Py_ssize_t n = len(merged) // 16
    cdef Py_ssize_t low = 0, high = n, middle, stop
    while low < high:
        middle = (low + high) // 2
        if pairs[2 * middle + 1] < first_seq:
            low = middle + 1
        else:
            high = middle
    stop = low
    while stop < n and pairs[2 * stop] <= last_seq:
        stop += 1
    return merged[16 * low:16 * stop]


def ranges_cover(bytes merged not None, uint64_t first_seq, uint64_t last_seq):
    """Is every sequence of first_seq..last_seq in the merged ranges?"""
    cdef bytes touching = clip_ranges(merged, first_seq, last_seq)
    cdef const uint64_t* pairs = <const uint64_t*>PyBytes_AS_STRING(touching)
    return len(touching) == 16 and pairs[0] <= first_seq and pairs[1] >= last_seq
