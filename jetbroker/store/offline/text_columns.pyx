# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Growing Arrow string and map columns (see text_columns.pxd)."""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, uint8_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memcpy

cdef Py_ssize_t MAX_TEXT_BYTES = 0x7FFFFFFF     # Arrow offsets are int32
cdef Py_ssize_t LINEAR_FIELDS = 32              # above, names are gathered with a dict: a block may hold 16,000 lines


# What needs the GIL stands in functions of its own: a `with gil` block would take it at each call of its function.
cdef int _raise_no_memory(size_t size) except -1 with gil:
    raise MemoryError(f"no memory for a column of {size} bytes")


cdef int _raise_too_long() except -1 with gil:
    raise OverflowError("a batch holds more than 2 GiB of text")


cdef void* _grown(void* block, Py_ssize_t* capacity, Py_ssize_t needed, size_t item) except NULL nogil:
    cdef Py_ssize_t wanted = capacity[0] * 2 if capacity[0] * 2 > needed else needed
    cdef void* grown = realloc(block, wanted * item)
    if grown == NULL:
        _raise_no_memory(wanted * item)
    capacity[0] = wanted
    return grown


cdef bint is_ascii(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    cdef uint64_t word = 0
    cdef uint64_t seen = 0
    while n >= 8:
        memcpy(&word, p, 8)
        seen |= word
        p += 8
        n -= 8
    while n > 0:
        seen |= p[0]
        p += 1
        n -= 1
    return (seen & <uint64_t>0x8080808080808080) == 0


cdef class TextColumn:
    def __cinit__(self):
        self.ends = <int32_t*>_grown(NULL, &self.rows_capacity, 1024, sizeof(int32_t))
        self.text = <uint8_t*>_grown(NULL, &self.text_capacity, 4096, 1)
        self.ends[0] = 0

    def __dealloc__(self):
        free(self.ends)
        free(self.text)

    cdef int add(self, const uint8_t* p, Py_ssize_t n) except -1 nogil:
        cdef Py_ssize_t start = self.ends[self.rows]
        if not is_ascii(p, n):
            return self._append_replaced(p, n, start)
        return self._append(p, n, start)

    cdef int _append_replaced(self, const uint8_t* p, Py_ssize_t n, Py_ssize_t start) except -1 with gil:
        cdef bytes text = (<const char*>p)[:n].decode("utf-8", "replace").encode()
        return self._append(<const uint8_t*><const char*>text, len(text), start)

    cdef int _append(self, const uint8_t* p, Py_ssize_t n, Py_ssize_t start) except -1 nogil:
        if start + n > self.text_capacity:
            if start + n > MAX_TEXT_BYTES:
                _raise_too_long()
            self.text = <uint8_t*>_grown(self.text, &self.text_capacity, start + n, 1)
        if self.rows + 2 > self.rows_capacity:
            self.ends = <int32_t*>_grown(self.ends, &self.rows_capacity, self.rows + 2, sizeof(int32_t))
        memcpy(self.text + start, p, n)
        self.rows += 1
        self.ends[self.rows] = <int32_t>(start + n)
        return 0

    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t size) except -1 nogil:
        if size > MAX_TEXT_BYTES:
            _raise_too_long()
        if size > self.text_capacity:
            self.text = <uint8_t*>_grown(self.text, &self.text_capacity, size, 1)
        if rows + 1 > self.rows_capacity:
            self.ends = <int32_t*>_grown(self.ends, &self.rows_capacity, rows + 1, sizeof(int32_t))
        return 0

    cdef void reset(self) noexcept nogil:
        self.rows = 0

    cdef tuple take(self):
        cdef tuple taken = (
            PyBytes_FromStringAndSize(<const char*>self.ends, (self.rows + 1) * sizeof(int32_t)),
            PyBytes_FromStringAndSize(<const char*>self.text, self.ends[self.rows]),
        )
        self.reset()
        return taken


cdef class HeaderColumn:
    def __cinit__(self):
        self.names = TextColumn()
        self.values = TextColumn()
        self.map_ends = <int32_t*>_grown(NULL, &self.rows_capacity, 1024, sizeof(int32_t))
        self.list_ends = <int32_t*>_grown(NULL, &self.lists_capacity, 1024, sizeof(int32_t))
        self.fields = <HeaderField*>_grown(NULL, &self.fields_capacity, 64, sizeof(HeaderField))
        self.map_ends[0] = self.list_ends[0] = 0

    def __dealloc__(self):
        free(self.map_ends)
        free(self.list_ends)
        free(self.fields)

    cdef int add(self, const uint8_t* block, Py_ssize_t n) except -1 nogil:
        cdef Py_ssize_t count = self._parse(block, n)
        cdef Py_ssize_t i, j
        self._link_same_names(count)
        for i in range(count):
            if not self.fields[i].is_first:
                continue
            self.names.add(self.fields[i].name, self.fields[i].name_len)
            j = i
            while j >= 0:
                self.values.add(self.fields[j].value, self.fields[j].value_len)
                j = self.fields[j].next_same
            if self.lists + 2 > self.lists_capacity:
                self.list_ends = <int32_t*>_grown(self.list_ends, &self.lists_capacity, self.lists + 2, sizeof(int32_t))
            self.lists += 1
            self.list_ends[self.lists] = <int32_t>self.values.rows
        if self.rows + 2 > self.rows_capacity:
            self.map_ends = <int32_t*>_grown(self.map_ends, &self.rows_capacity, self.rows + 2, sizeof(int32_t))
        self.rows += 1
        self.map_ends[self.rows] = <int32_t>self.lists
        return 0

    cdef Py_ssize_t _parse(self, const uint8_t* block, Py_ssize_t n) except? -1 nogil:
        """Splits a block into self.fields; lines without a colon are no fields."""
        cdef const uint8_t* end = block + n
        cdef const uint8_t* line = <const uint8_t*>memchr(block, c'\n', n) if n > 0 else NULL
        cdef const uint8_t* stop
        cdef const uint8_t* colon
        cdef HeaderField* field
        cdef Py_ssize_t count = 0
        while line != NULL and line + 1 < end:
            line += 1
            stop = <const uint8_t*>memchr(line, c'\n', end - line)
            if stop == NULL:
                stop = end
            colon = <const uint8_t*>memchr(line, c':', stop - line)
            if colon != NULL and colon > line:
                if count + 1 > self.fields_capacity:
                    self.fields = <HeaderField*>_grown(self.fields, &self.fields_capacity, count + 1,
                                                       sizeof(HeaderField))
                field = &self.fields[count]
                field.name = line
                field.name_len = colon - line
                field.value = colon + 1
                field.value_len = _trimmed(&field.value, stop)
                count += 1
            line = stop if stop < end else NULL
        return count

    cdef int _link_same_names(self, Py_ssize_t count) except -1 nogil:
        cdef Py_ssize_t i, j
        cdef HeaderField* fields = self.fields
        for j in range(count):
            fields[j].next_same = -1
            fields[j].is_first = True
        if count > LINEAR_FIELDS:
            return self._link_by_dict(count)
        for j in range(1, count):
            for i in range(j - 1, -1, -1):
                if (fields[i].name_len == fields[j].name_len
                        and memcmp(fields[i].name, fields[j].name, fields[j].name_len) == 0):
                    fields[i].next_same = j
                    fields[j].is_first = False
                    break
        return 0

    cdef int _link_by_dict(self, Py_ssize_t count) except -1 with gil:
        cdef Py_ssize_t i, j
        cdef dict last = {}
        for j in range(count):
            name = (<const char*>self.fields[j].name)[:self.fields[j].name_len]
            i = last.get(name, -1)
            if i >= 0:
                self.fields[i].next_same = j
                self.fields[j].is_first = False
            last[name] = j
        return 0

    cdef void reset(self) noexcept nogil:
        self.rows = self.lists = 0
        self.names.reset()
        self.values.reset()

    cdef tuple take(self):
        cdef tuple taken = (
            PyBytes_FromStringAndSize(<const char*>self.map_ends, (self.rows + 1) * sizeof(int32_t)),
            *self.names.take(),
            PyBytes_FromStringAndSize(<const char*>self.list_ends, (self.lists + 1) * sizeof(int32_t)),
            *self.values.take(),
        )
        self.reset()
        return taken


cdef Py_ssize_t _trimmed(const uint8_t** start, const uint8_t* stop) noexcept nogil:
    """Moves `start` over leading blanks; returns the length without trailing blanks and CR."""
    cdef const uint8_t* first = start[0]
    while first < stop and (first[0] == c' ' or first[0] == c'\t'):
        first += 1
    while stop > first and ((stop - 1)[0] == c'\r' or (stop - 1)[0] == c' ' or (stop - 1)[0] == c'\t'):
        stop -= 1
    start[0] = first
    return stop - first
