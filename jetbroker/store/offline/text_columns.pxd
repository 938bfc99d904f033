"""Growing Arrow string and map columns, filled without the GIL."""
from libc.stdint cimport int32_t, uint8_t


cdef struct HeaderField:
    const uint8_t* name
    Py_ssize_t name_len
    const uint8_t* value
    Py_ssize_t value_len
    Py_ssize_t next_same       # the next field of the same name, -1: none
    bint is_first              # of its name


cdef class TextColumn:
    """Arrow `string`: int32 offsets and UTF-8 text. What is not UTF-8 is replaced by U+FFFD."""
    cdef int32_t* ends
    cdef uint8_t* text
    cdef Py_ssize_t rows, rows_capacity, text_capacity
    cdef int add(self, const uint8_t* p, Py_ssize_t n) except -1 nogil
    cdef int _append_replaced(self, const uint8_t* p, Py_ssize_t n, Py_ssize_t start) except -1 with gil
    cdef int _append(self, const uint8_t* p, Py_ssize_t n, Py_ssize_t start) except -1 nogil
    # Room for so many rows and bytes; the caller then fills text and ends[1:], and sets rows.
    cdef int reserve(self, Py_ssize_t rows, Py_ssize_t size) except -1 nogil
    cdef void reset(self) noexcept nogil
    cdef tuple take(self)      # (offsets: bytes, text: bytes)


cdef class HeaderColumn:
    """Arrow `map<string, list<string>>`: the fields of header blocks, values of one name gathered in order."""
    cdef TextColumn names, values
    cdef int32_t* map_ends
    cdef int32_t* list_ends
    cdef HeaderField* fields
    cdef Py_ssize_t rows, rows_capacity, lists, lists_capacity, fields_capacity
    # One row; an empty block is a row without entries.
    cdef int add(self, const uint8_t* block, Py_ssize_t n) except -1 nogil
    cdef Py_ssize_t _parse(self, const uint8_t* block, Py_ssize_t n) except? -1 nogil
    cdef int _link_same_names(self, Py_ssize_t count) except -1 nogil
    cdef int _link_by_dict(self, Py_ssize_t count) except -1 with gil
    cdef void reset(self) noexcept nogil
    cdef tuple take(self)      # (map offsets, name offsets, names, list offsets, value offsets, values)


cdef bint is_ascii(const uint8_t* p, Py_ssize_t n) noexcept nogil
