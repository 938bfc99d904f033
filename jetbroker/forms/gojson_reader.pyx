# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""JSON as Go's encoding/json reads it (see gojson.py): compiled, as what is read may be somebody's attack.

One walk from the left with an explicit stack: the time is linear in the text, and depth costs no recursion.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint32_t

from jetbroker.forms.gotext import char_quoted

cdef Py_ssize_t MAX_DEPTH = 10_000     # as encoding/json
cdef Py_ssize_t SMALL_DIGITS = 18      # fit into a long
cdef uint32_t REPLACEMENT = 0xFFFD


class JsonError(Exception):
    """The text is no JSON. The message is that of Go's Decoder; `unmarshal`: that of its Unmarshal."""

    def __init__(self, str text not None, str unmarshal not None) -> None:
        super().__init__(text)
        self.unmarshal = unmarshal


class Number(str):
    """A number as it was written, where an int does not say the same."""

    __slots__ = ()


def read_values(bytes body not None):
    """Each value in `body`, one behind the other. Raises JsonError with Go's text."""
    cdef _Reader reader = _Reader(body)
    reader.skip()
    while reader.at < reader.size:
        yield reader.value()
        reader.skip()


def syntax_fault(bytes body not None) -> str:
    """What Unmarshal says of a text that is not one value; "" where it is one."""
    cdef _Reader reader = _Reader(body)
    reader.skip()
    try:
        reader.value()
        reader.skip()
        if reader.at < reader.size:
            raise reader.fault(reader.at, "after top-level value")
    except JsonError as error:
        return error.unmarshal
    return ""


cdef class _Reader:
    """A place in a text; all methods move it on."""
    cdef bytes body
    cdef const char* text              # a zero byte stands behind it, which no value holds outside of a string
    cdef Py_ssize_t size
    cdef Py_ssize_t at

    def __cinit__(self, bytes body):
        self.body = body
        self.text = PyBytes_AS_STRING(body)
        self.size = PyBytes_GET_SIZE(body)

    cdef inline void skip(self) noexcept:
        while self.text[self.at] in b" \t\r\n":
            self.at += 1

    cdef object value(self):
        cdef list root = []
        cdef list stack = []           # the open containers, each with the key its parent keeps it under
        cdef object container = root
        cdef object key = None
        cdef object inner
        cdef char mark = self.text[self.at]
        while True:
            if mark == c"{" or mark == c"[":
                if len(stack) >= MAX_DEPTH:
                    raise self.fault(self.at, "exceeded max depth")
                stack.append((container, key))
                container = {} if mark == c"{" else []
                self.at += 1
                self.skip()
                if self.text[self.at] != (c"}" if mark == c"{" else c"]"):
                    if mark == c"{":
                        key = self.key()
                    mark = self.text[self.at]
                    continue
            else:
                put(container, key, self.scalar(mark))
            while stack:               # behind a value: close what ends here, or go on to the next value
                self.skip()
                mark = self.text[self.at]
                if mark == (c"}" if type(container) is dict else c"]"):
                    self.at += 1
                    inner = container
                    container, key = stack.pop()
                    put(container, key, inner)
                    continue
                self.next_entry(type(container) is dict)
                if type(container) is dict:
                    key = self.key()
                break
            else:
                return root[0]
            mark = self.text[self.at]

    cdef int next_entry(self, bint is_object) except -1:
        if self.text[self.at] != c",":
            raise self.fault(self.at, "after object key:value pair" if is_object else "after array element")
        self.at += 1
        self.skip()
        return 0

    cdef object key(self):
        if self.text[self.at] != c'"':
            raise self.fault(self.at, "looking for beginning of object key string")
        key = self.string()
        self.skip()
        if self.text[self.at] != c":":
            raise self.fault(self.at, "after object key")
        self.at += 1
        self.skip()
        return key

    cdef object scalar(self, char first):
        if first == c'"':
            return self.string()
        if first == c"-" or c"0" <= first <= c"9":
            return self.number()
        if first == c"t":
            self.literal(b"true")
            return True
        if first == c"f":
            self.literal(b"false")
            return False
        if first == c"n":
            self.literal(b"null")
            return None
        raise self.fault(self.at, "looking for beginning of value")

    cdef int literal(self, bytes word) except -1:
        cdef const char* expected = PyBytes_AS_STRING(word)
        cdef Py_ssize_t i
        for i in range(PyBytes_GET_SIZE(word)):
            if self.text[self.at + i] != expected[i]:
                wanted = char_quoted(chr(<unsigned char>expected[i]))
                raise self.fault(self.at + i, f"in literal {word.decode()} (expecting {wanted})", True)
        self.at += PyBytes_GET_SIZE(word)
        return 0

    cdef inline bint digits(self) noexcept:
        """Walk over digits; False when there are none."""
        cdef Py_ssize_t start = self.at
        while c"0" <= self.text[self.at] <= c"9":
            self.at += 1
        return self.at > start

    cdef object number(self):
        cdef Py_ssize_t start = self.at
        cdef Py_ssize_t i
        cdef long small = 0
        cdef bint negative = self.text[start] == c"-"
        cdef bint whole = True
        self.at += negative
        if self.text[self.at] == c"0":
            self.at += 1
        elif not self.digits():
            raise self.fault(self.at, "in numeric literal", True)
        if self.text[self.at] == c".":
            whole = False
            self.at += 1
            if not self.digits():
                raise self.fault(self.at, "after decimal point in numeric literal", True)
        if self.text[self.at] in b"eE":
            whole = False
            self.at += 1
            self.at += self.text[self.at] in b"+-"
            if not self.digits():
                raise self.fault(self.at, "in exponent of numeric literal", True)
        if not whole or self.at - start > SMALL_DIGITS or (negative and self.text[start + 1] == c"0"):
            return Number(self.text[start:self.at].decode())
        for i in range(start + negative, self.at):
            small = small * 10 + (self.text[i] - c"0")
        return -small if negative else small

    cdef object string(self):
        """The string whose opening quote is here."""
        cdef Py_ssize_t start = self.at + 1
        cdef bint escaped = False
        cdef char c
        self.at = start
        while True:
            c = self.text[self.at]
            if c == c'"':
                break
            if <unsigned char>c < 0x20:
                raise self.fault(self.at, "in string literal")
            self.at += 1
            if c == c"\\":
                escaped = True
                self.escape()
        self.at += 1
        if escaped:
            return unescaped(self.text + start, self.at - 1 - start)
        return PyUnicode_DecodeUTF8(self.text + start, self.at - 1 - start, "replace")

    cdef int escape(self) except -1:
        """What follows a backslash."""
        if self.text[self.at] == c"u":
            for _ in range(4):
                self.at += 1
                if hex_digit(self.text[self.at]) < 0:
                    raise self.fault(self.at, "in \\u hexadecimal character escape", True)
        elif self.text[self.at] not in b'"\\/bfnrt':
            raise self.fault(self.at, "in string escape code", True)
        self.at += 1
        return 0

    cdef object fault(self, Py_ssize_t at, str where, bint inside=False):
        """`inside` of a word or number: where the text ends there, Unmarshal complains of a blank."""
        cdef bint ended = at >= self.size
        char = " " if ended else chr(<unsigned char>self.text[at])
        text = f"invalid character {char_quoted(char)} {where}"
        if ended:
            return JsonError("unexpected EOF", text if inside else "unexpected end of JSON input")
        return JsonError(f"{text} at offset {at + 1}", text)


cdef inline int put(object container, object key, object value) except -1:
    if type(container) is dict:
        (<dict>container)[key] = value
    else:
        (<list>container).append(value)
    return 0


cdef inline int hex_digit(char c) noexcept nogil:
    if c"0" <= c <= c"9":
        return c - c"0"
    if c"a" <= c <= c"f":
        return c - c"a" + 10
    if c"A" <= c <= c"F":
        return c - c"A" + 10
    return -1


cdef uint32_t code_unit(const char* p) noexcept nogil:
    return hex_digit(p[0]) << 12 | hex_digit(p[1]) << 8 | hex_digit(p[2]) << 4 | hex_digit(p[3])


cdef object unescaped(const char* p, Py_ssize_t n):
    """A checked string without its escapes, which are never shorter than what they stand for."""
    cdef bytes room = PyBytes_FromStringAndSize(NULL, n)
    cdef char* out = PyBytes_AS_STRING(room)
    cdef const char* end = p + n
    cdef uint32_t code, low
    while p < end:
        if p[0] != c"\\":
            out[0] = p[0]
            out += 1
            p += 1
            continue
        if p[1] != c"u":
            out[0] = plain_escape(p[1])
            out += 1
            p += 2
            continue
        code = code_unit(p + 2)
        p += 6
        if 0xD800 <= code < 0xE000:  # an escaped pair is one character; half of one is replaced
            low = code_unit(p + 2) if code < 0xDC00 and end - p >= 6 and p[0] == c"\\" and p[1] == c"u" else 0
            if 0xDC00 <= low < 0xE000:
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                p += 6
            else:
                code = REPLACEMENT
        out += put_utf8(out, code)
    return PyUnicode_DecodeUTF8(PyBytes_AS_STRING(room), out - PyBytes_AS_STRING(room), "replace")


cdef char plain_escape(char c) noexcept nogil:
    if c == c"b":
        return c"\b"
    if c == c"f":
        return c"\f"
    if c == c"n":
        return c"\n"
    if c == c"r":
        return c"\r"
    return c"\t" if c == c"t" else c


cdef int put_utf8(char* out, uint32_t code) noexcept nogil:
    if code < 0x80:
        out[0] = <char>code
        return 1
    if code < 0x800:
        out[0] = <char>(0xC0 | code >> 6)
        out[1] = <char>(0x80 | code & 0x3F)
        return 2
    if code < 0x10000:
        out[0] = <char>(0xE0 | code >> 12)
        out[1] = <char>(0x80 | code >> 6 & 0x3F)
        out[2] = <char>(0x80 | code & 0x3F)
        return 3
    out[0] = <char>(0xF0 | code >> 18)
    out[1] = <char>(0x80 | code >> 12 & 0x3F)
    out[2] = <char>(0x80 | code >> 6 & 0x3F)
    out[3] = <char>(0x80 | code & 0x3F)
    return 4
