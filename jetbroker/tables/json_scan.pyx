# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""JSON payloads to columns without an object in between: only what the columns need is kept of a payload.

A payload is read once, strictly. Whatever is rare or wrong (an escape in a wanted string, a key twice, a value of
another type, no JSON at all) is left to the RowDecoder, which judges it: here is no second rule, only a quick way to
the same values.
"""
cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, int8_t, int16_t, int32_t, int64_t, uint64_t
from libc.string cimport memcmp, memcpy

from jetbroker.tables.convert cimport Converter, RowDecoder

from jetbroker.tables.column_types import INTEGER_BITS

cdef extern from *:
    """
    #define ONES 0x0101010101010101ULL
    #define HIGH_BITS 0x8080808080808080ULL
    """
    const uint64_t ONES
    const uint64_t HIGH_BITS
    int first_bit "__builtin_ctzll"(uint64_t word) noexcept

cdef extern from "Python.h":
    double PyOS_string_to_double(const char* s, char** endptr, object overflow_exception) except? -1.0

cdef enum:
    MAX_DEPTH = 64        # deeper payloads, more keys and longer numbers are the RowDecoder's
    MAX_KEYS = 64
    MAX_DIGITS = 19
    MAX_EXPONENT = 99
    NUMBER_BYTES = 64

cdef enum Kind:
    TEXT, INTEGER, DOUBLE, SINGLE, BOOLEAN, MOMENT

cdef enum State:
    ABSENT, IS_TEXT, IS_INTEGER, IS_NUMBER, IS_BOOLEAN

cdef uint64_t EXACT = 1ULL << 53     # integers up to here are doubles
cdef double[23] POWERS
cdef int _power
POWERS[0] = 1.0
for _power in range(1, 23):
    POWERS[_power] = POWERS[_power - 1] * 10.0

cdef dict KINDS = {
    "string": TEXT, "boolean": BOOLEAN, "float": SINGLE, "double": DOUBLE, "timestamp": MOMENT,
    **dict.fromkeys(INTEGER_BITS, INTEGER),
}
cdef dict BYTES = {"float": 4, "double": 8, "timestamp": 8, **{name: bits // 8 for name, bits in INTEGER_BITS.items()}}

cdef struct Found:
    State state
    int64_t integer
    double number
    const char* text
    Py_ssize_t length


cdef struct Number:
    uint64_t digits          # all of them, without the point
    int exponent             # of ten
    bint negative
    bint whole               # neither a point nor an exponent


def takes(fields):
    """Can the columns of these fields be filled by a JsonScanner?"""
    paths = [field.path for field in fields]
    inner = {path[:length] for path in paths for length in range(len(path))}
    tops = {}
    for path in set(paths) | inner:
        if path:
            above = path[:len(path) - 1]
            tops[above] = tops.get(above, 0) + 1
    return (all(field.type.name in KINDS for field in fields) and len(set(paths)) == len(paths)
            and not inner.intersection(paths) and max(tops.values(), default=0) <= MAX_KEYS)


@cython.final
cdef class Column:
    """One column of a batch: Arrow's buffers of it, a row after the other."""
    cdef Kind kind
    cdef Py_ssize_t width            # of a value, in bytes; 0: bits, or a text
    cdef bytearray values, ends, valid
    cdef Py_ssize_t used             # bytes of texts
    cdef readonly Py_ssize_t nulls
    cdef int64_t high
    cdef Converter converter

    def __init__(self, of, Py_ssize_t count):
        self.kind = KINDS[of.name]
        self.width = BYTES.get(of.name, 0)
        self.converter = Converter(of)
        self.valid = bytearray((count + 7) // 8)
        if self.kind == INTEGER:
            self.high = INT64_MAX >> (64 - self.width * 8)
        if self.kind == TEXT:
            self.ends = bytearray((count + 1) * 4)
            self.values = bytearray(count * 16)
        else:
            self.values = bytearray(count * self.width if self.width else (count + 7) // 8)

    def buffers(self):
        """As pyarrow's `Array.from_buffers` takes them; None for no nulls."""
        valid = self.valid if self.nulls else None
        if self.kind == TEXT:
            return [valid, self.ends, memoryview(self.values)[:self.used]]
        return [valid, self.values]

    cdef bint fits(self, Found* found) except -1:
        """Is it a value of this type? False: the RowDecoder may say so, or say why not."""
        if found.state == ABSENT:
            return True
        if self.kind == TEXT:
            return found.state == IS_TEXT
        if self.kind == BOOLEAN:
            return found.state == IS_BOOLEAN
        if self.kind == INTEGER:
            return found.state == IS_INTEGER and -self.high - 1 <= found.integer <= self.high
        if self.kind == MOMENT:
            return found.state == IS_TEXT and self._moment(found)
        return ((found.state == IS_NUMBER or found.state == IS_INTEGER)
                and (self.kind == DOUBLE or -1e38 < found.number < 1e38))

    cdef bint _moment(self, Found* found) except -1:
        try:
            found.integer = self.converter.of(PyUnicode_DecodeUTF8(found.text, found.length, NULL))
        except ValueError:
            return False
        return True

    cdef int put(self, Py_ssize_t row, Found* found) except -1:
        if found.state == ABSENT:
            self.nulls += 1
        else:
            PyByteArray_AS_STRING(self.valid)[row >> 3] |= 1 << (row & 7)
        if self.kind == TEXT:
            if found.state != ABSENT:
                self._append(found.text, found.length)
            (<int32_t*>PyByteArray_AS_STRING(self.ends))[row + 1] = <int32_t>self.used
        elif found.state != ABSENT:
            self._store(PyByteArray_AS_STRING(self.values), row, found)
        return 0

    cdef int _append(self, const char* text, Py_ssize_t length) except -1:
        if self.used + length > PyByteArray_GET_SIZE(self.values):
            PyByteArray_Resize(self.values, (self.used + length) * 2)
        memcpy(PyByteArray_AS_STRING(self.values) + self.used, text, length)
        self.used += length
        return 0

    cdef void _store(self, char* values, Py_ssize_t row, Found* found) noexcept:
        if self.kind == DOUBLE:
            (<double*>values)[row] = found.number
        elif self.kind == SINGLE:
            (<float*>values)[row] = <float>found.number
        elif self.kind == BOOLEAN:
            values[row >> 3] |= <char>(found.integer << (row & 7))
        elif self.width == 8:
            (<int64_t*>values)[row] = found.integer
        elif self.width == 4:
            (<int32_t*>values)[row] = <int32_t>found.integer
        elif self.width == 2:
            (<int16_t*>values)[row] = <int16_t>found.integer
        else:
            (<int8_t*>values)[row] = <int8_t>found.integer

    cdef int put_value(self, Py_ssize_t row, object value) except -1:
        """What the RowDecoder found."""
        cdef Found found
        found.state = ABSENT
        if value is not None:
            if self.kind == TEXT:
                found.state = IS_TEXT
                found.text = PyUnicode_AsUTF8AndSize(value, &found.length)
            elif self.kind == DOUBLE or self.kind == SINGLE:
                found.state = IS_NUMBER
                found.number = value
            else:
                found.state = IS_INTEGER
                found.integer = value
        return self.put(row, &found)


@cython.final
cdef class Node:
    """Keys of an object, and what is below them."""
    cdef list keys                   # UTF-8
    cdef list below                  # a Node; None: the value is a column's
    cdef list columns                # its number

    def __init__(self, paths):
        self.keys, self.below, self.columns = [], [], []
        for key in dict.fromkeys(path[0] for path, _ in paths):
            inner = [(path[1:], column) for path, column in paths if path[0] == key]
            self.keys.append(key.encode())
            self.below.append(Node(inner) if inner[0][0] else None)
            self.columns.append(inner[0][1])

    cdef Py_ssize_t find(self, const char* key, Py_ssize_t length, Py_ssize_t hint) noexcept:
        """Its place; -1: nobody wants it. Objects have their keys in much the same order: the hint's turn comes first."""
        cdef Py_ssize_t count = PyList_GET_SIZE(self.keys)
        cdef Py_ssize_t turn, place
        cdef bytes known
        for turn in range(count):
            place = hint + turn
            if place >= count:
                place -= count
            known = <bytes>PyList_GET_ITEM(self.keys, place)
            if PyBytes_GET_SIZE(known) == length and memcmp(PyBytes_AS_STRING(known), key, length) == 0:
                return place
        return -1


@cython.final
cdef class JsonScanner:
    """Payloads to columns, as the RowDecoder's `decode` gives them, for fields that `takes` agrees to."""
    cdef tuple fields
    cdef RowDecoder decoder
    cdef Node root
    cdef Found* found                # of the row at hand, one for each column
    cdef const char* p
    cdef const char* end
    cdef readonly object fault

    def __cinit__(self, fields, decoder):
        self.found = <Found*>PyMem_Malloc(max(1, len(fields)) * sizeof(Found))
        if self.found == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.found)

    def __init__(self, fields, decoder):
        self.fields = tuple(fields)
        self.decoder = decoder
        self.root = Node([(field.path, number) for number, field in enumerate(fields)])
        self.fault = None

    def decode(self, const unsigned char[::1] ends not None, const unsigned char[::1] data not None, Py_ssize_t first,
               Py_ssize_t count):
        """(a Column for each field, the rows that do not validate): `count` payloads from the `first` on."""
        cdef const int32_t* offsets = <const int32_t*>&ends[0] if count else NULL
        cdef const char* text = <const char*>&data[0] if data.shape[0] else NULL
        cdef list columns = [Column(field.type, count) for field in self.fields]
        cdef list bad = []
        cdef Py_ssize_t row
        if count and ((first + count + 1) * 4 > ends.shape[0] or offsets[first + count] > data.shape[0]):
            raise IndexError("the buffers are shorter than the array")
        self.fault = None
        for row in range(count):
            self.p = text + offsets[first + row]
            self.end = text + offsets[first + row + 1]
            if self._scan() and self._fits(columns):
                self._put(columns, row)
            elif not self._ask(columns, row, text + offsets[first + row]):
                bad.append(row)
        return columns, bad

    cdef bint _fits(self, list columns) except -1:
        cdef Py_ssize_t i
        for i in range(PyList_GET_SIZE(columns)):
            if not (<Column>PyList_GET_ITEM(columns, i)).fits(&self.found[i]):
                return False
        return True

    cdef int _put(self, list columns, Py_ssize_t row) except -1:
        cdef Py_ssize_t i
        for i in range(PyList_GET_SIZE(columns)):
            (<Column>PyList_GET_ITEM(columns, i)).put(row, &self.found[i])
        return 0

    cdef bint _ask(self, list columns, Py_ssize_t row, const char* start) except -1:
        """What the RowDecoder makes of it; False: it does not validate."""
        cdef list values = [[] for _ in columns]
        cdef bint valid = True
        try:
            self.decoder.add(PyBytes_FromStringAndSize(start, self.end - start), values)
        except (ValueError, RecursionError) as error:
            if self.fault is None:
                self.fault = error
            valid = False
        for column, value in zip(columns, values, strict=True):
            (<Column>column).put_value(row, value[0] if valid else None)
        return valid

    cdef bint _scan(self) except -1:
        """Fill `found`; False: it is not as simple as that."""
        cdef Py_ssize_t i
        for i in range(len(self.fields)):
            self.found[i].state = ABSENT
        if not self._is_text():
            return False
        self._space()
        if self.p == self.end or self.p[0] != c'{':
            return False
        self.p += 1
        if not self._object(self.root, 0):
            return False
        self._space()
        return self.p == self.end

    cdef bint _is_text(self) except -1:
        """UTF-8?"""
        cdef const char* p = self.p
        cdef uint64_t word
        cdef uint64_t high = 0
        while self.end - p >= 8:
            memcpy(&word, p, 8)
            high |= word
            p += 8
        while p < self.end:
            high |= <unsigned char>p[0]
            p += 1
        if not high & HIGH_BITS:
            return True
        try:
            PyUnicode_DecodeUTF8(self.p, self.end - self.p, NULL)
        except UnicodeDecodeError:
            return False
        return True

    cdef inline void _space(self) noexcept:
        while self.p < self.end and (self.p[0] == c' ' or self.p[0] == c'\n' or self.p[0] == c'\r'
                                     or self.p[0] == c'\t'):
            self.p += 1

    cdef inline bint _comes(self, char wanted) noexcept:
        """Is it next, behind white space? Then it is taken."""
        if self.p == self.end or self.p[0] != wanted:
            self._space()
            if self.p == self.end or self.p[0] != wanted:
                return False
        self.p += 1
        return True

    cdef bint _object(self, Node node, int depth) except -1:
        """Behind its brace; None: nobody wants anything of it."""
        cdef const char* key
        cdef Py_ssize_t length
        cdef Py_ssize_t place = -1
        cdef Py_ssize_t hint = 0
        cdef uint64_t seen = 0
        cdef bint plain
        if depth > MAX_DEPTH:
            return False
        if self._comes(c'}'):
            return True
        while self._comes(c'"'):
            key = self.p
            plain = True
            length = self._string(&plain)
            if length < 0 or not self._comes(c':') or (node is not None and not plain):
                return False
            if node is not None:
                place = node.find(key, length, hint)
            if place < 0:
                if not self._skip(depth):
                    return False
            else:
                if seen & (1ULL << place) or not self._wanted(node, place, depth):
                    return False
                seen |= 1ULL << place
                hint = place + 1
            if self._comes(c'}'):
                return True
            if not self._comes(c','):
                return False
        return False

    cdef bint _wanted(self, Node node, Py_ssize_t place, int depth) except -1:
        cdef Node below = <Node>PyList_GET_ITEM(node.below, place)
        if below is None:
            return self._value(&self.found[<Py_ssize_t><object>PyList_GET_ITEM(node.columns, place)])
        self._space()
        if self.p < self.end and self.p[0] == c'n':
            return self._literal(b"null", 4)
        return self._comes(c'{') and self._object(below, depth + 1)

    cdef bint _value(self, Found* found) except -1:
        cdef Number number
        cdef const char* start
        cdef bint plain = True
        self._space()
        if self.p == self.end:
            return False
        if self.p[0] == c'"':
            self.p += 1
            found.text = self.p
            found.length = self._string(&plain)
            found.state = IS_TEXT
            return found.length >= 0 and plain
        if self.p[0] == c'n':
            return self._literal(b"null", 4)
        if self.p[0] == c't' or self.p[0] == c'f':
            found.state = IS_BOOLEAN
            found.integer = self.p[0] == c't'
            return self._literal(b"true", 4) if found.integer else self._literal(b"false", 5)
        start = self.p
        return self._number(&number) and self._taken(&number, start, found)

    cdef bint _taken(self, Number* number, const char* start, Found* found) except -1:
        """A number as an integer, and as a double."""
        if number.whole and number.negative and number.digits == 0:
            return False
        if number.whole and number.digits <= <uint64_t>INT64_MAX:
            found.state = IS_INTEGER
            found.integer = -<int64_t>number.digits if number.negative else <int64_t>number.digits
        else:
            found.state = IS_NUMBER
        if number.digits <= EXACT and -22 <= number.exponent <= 22:
            found.number = <double>number.digits
            if number.exponent < 0:
                found.number /= POWERS[-number.exponent]
            else:
                found.number *= POWERS[number.exponent]
            if number.negative:
                found.number = -found.number
            return True
        return self._rounded(start, found)

    cdef bint _rounded(self, const char* start, Found* found) except -1:
        cdef char[NUMBER_BYTES] digits
        cdef Py_ssize_t length = self.p - start
        if length >= NUMBER_BYTES:
            return False
        memcpy(digits, start, length)
        digits[length] = 0
        found.number = PyOS_string_to_double(digits, NULL, None)
        return True

    cdef bint _skip(self, int depth) except -1:
        """A value that nobody wants, as strictly as the others."""
        cdef Number number
        cdef bint plain
        self._space()
        if self.p == self.end:
            return False
        if self.p[0] == c'"':
            self.p += 1
            return self._string(&plain) >= 0
        if self.p[0] == c'{':
            self.p += 1
            return self._object(None, depth + 1)
        if self.p[0] == c'[':
            self.p += 1
            return self._array(depth + 1)
        if self.p[0] == c'n':
            return self._literal(b"null", 4)
        if self.p[0] == c't':
            return self._literal(b"true", 4)
        if self.p[0] == c'f':
            return self._literal(b"false", 5)
        return self._number(&number)

    cdef bint _array(self, int depth) except -1:
        if depth > MAX_DEPTH:
            return False
        if self._comes(c']'):
            return True
        while self._skip(depth):
            if self._comes(c']'):
                return True
            if not self._comes(c','):
                return False
        return False

    cdef bint _literal(self, const char* word, Py_ssize_t length) noexcept:
        if self.end - self.p < length or memcmp(self.p, word, length) != 0:
            return False
        self.p += length
        return True

    cdef Py_ssize_t _string(self, bint* plain) noexcept:
        """Behind its quote: how many bytes it has, -1 where it is none. `plain` becomes False for escapes."""
        cdef const char* start = self.p
        cdef const char* p = start
        while True:
            p = next_special(p, self.end)
            if p >= self.end:
                return -1
            if p[0] == c'"':
                self.p = p + 1
                return p - start
            if <unsigned char>p[0] < 0x20:
                return -1
            if p[0] == c'\\':
                plain[0] = False
                p += 1
                if p == self.end or not is_escape(p[0]):
                    return -1
            p += 1

    cdef bint _number(self, Number* number) noexcept:
        cdef Py_ssize_t count
        number.negative = self.p < self.end and self.p[0] == c'-'
        number.digits = 0
        number.exponent = 0
        number.whole = True
        if number.negative:
            self.p += 1
        if self.p == self.end:
            return False
        if self.p[0] == c'0':
            self.p += 1
            count = 1
        else:
            count = self._digits(number)
            if count == 0:
                return False
        if self.p < self.end and self.p[0] == c'.':
            self.p += 1
            number.whole = False
            number.exponent = -<int>min(self._digits(number), MAX_DIGITS + 1)
            if number.exponent == 0:
                return False
            count -= number.exponent
        if self.p < self.end and (self.p[0] == c'e' or self.p[0] == c'E'):
            number.whole = False
            if not self._exponent(number):
                return False
        return count <= MAX_DIGITS

    cdef Py_ssize_t _digits(self, Number* number) noexcept:
        cdef const char* start = self.p
        while self.p < self.end and c'0' <= self.p[0] <= c'9':
            number.digits = number.digits * 10 + <uint64_t>(self.p[0] - c'0')
            self.p += 1
        return self.p - start

    cdef bint _exponent(self, Number* number) noexcept:
        cdef Number power
        cdef bint negative
        self.p += 1
        negative = self.p < self.end and self.p[0] == c'-'
        if negative or (self.p < self.end and self.p[0] == c'+'):
            self.p += 1
        power.digits = 0
        if not 0 < self._digits(&power) <= 2 or power.digits > MAX_EXPONENT:
            return False
        number.exponent += -<int>power.digits if negative else <int>power.digits
        return True


cdef inline const char* next_special(const char* p, const char* end) noexcept:
    """The next quote, backslash or control character; the end where there is none."""
    cdef uint64_t word, quotes, backslashes, special
    while end - p >= 8:
        memcpy(&word, p, 8)
        quotes = word ^ (ONES * c'"')
        backslashes = word ^ (ONES * c'\\')
        special = ((quotes - ONES) & ~quotes | (backslashes - ONES) & ~backslashes | (word - ONES * 0x20) & ~word)
        special &= HIGH_BITS
        if special:
            return p + (first_bit(special) >> 3)     # a match may only leave wrong marks behind itself
        p += 8
    while p < end and p[0] != c'"' and p[0] != c'\\' and <unsigned char>p[0] >= 0x20:
        p += 1
    return p


cdef inline bint is_escape(char c) noexcept:
    """Of one character; a code point's is not simple."""
    return (c == c'"' or c == c'\\' or c == c'/' or c == c'b' or c == c'f' or c == c'n' or c == c'r' or c == c't')
