# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Subject transforms (see transform.pxd); their language is in routing/placeholders.py."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr, memcmp

from jetbroker.wire.buffer cimport OutputBuffer

import os

from jetbroker.routing.placeholders import Kind, compile_steps, reverse

# As C numbers: what a step does is asked for every message.
cdef int LITERAL = Kind.LITERAL
cdef int WILDCARD = Kind.WILDCARD
cdef int PARTITION = Kind.PARTITION
cdef int SPLIT_FROM_LEFT = Kind.SPLIT_FROM_LEFT
cdef int SPLIT_FROM_RIGHT = Kind.SPLIT_FROM_RIGHT
cdef int SLICE_FROM_LEFT = Kind.SLICE_FROM_LEFT
cdef int SPLIT = Kind.SPLIT
cdef int LEFT = Kind.LEFT
cdef int RIGHT = Kind.RIGHT
cdef int RANDOM = Kind.RANDOM

# The tokens of the subject at hand; one event loop, and nothing here calls out while they are in use.
cdef Py_ssize_t* starts = NULL
cdef Py_ssize_t* lengths = NULL
cdef int token_room = 0
cdef OutputBuffer scratch = OutputBuffer()
cdef uint64_t random_state = int.from_bytes(os.urandom(8), "little") | 1


cdef unsigned int random_bits() noexcept nogil:
    """xorshift64*: spreads load, keeps no secrets."""
    global random_state
    random_state ^= random_state >> 12
    random_state ^= random_state << 25
    random_state ^= random_state >> 27
    return <unsigned int>((random_state * 0x2545F4914F6CDD1DULL) >> 32)


cdef bint fits_source(const char* subject, Py_ssize_t n, const char* source, Py_ssize_t m) noexcept nogil:
    cdef const char* end = subject + n
    cdef const char* source_end = source + m
    cdef const char* stop
    cdef const char* source_stop
    cdef bint is_wildcard
    while True:
        source_stop = <const char*>memchr(source, c'.', source_end - source)
        if source_stop == NULL:
            source_stop = source_end
        is_wildcard = source_stop - source == 1 and source[0] == c'*'
        if source_stop - source == 1 and source[0] == c'>':
            return True
        stop = <const char*>memchr(subject, c'.', end - subject)
        if stop == NULL:
            stop = end
        if stop == subject or (stop - subject == 1 and subject[0] == c'>'):
            return False
        if not is_wildcard and (stop - subject != source_stop - source or memcmp(subject, source, stop - subject) != 0):
            return False
        if stop == end or source_stop == source_end:
            return stop == end and source_stop == source_end
        subject = stop + 1
        source = source_stop + 1


cdef int split_tokens(const char* subject, Py_ssize_t n) except -1:
    """Fill `starts` and `lengths`; returns the number of tokens."""
    global starts, lengths, token_room
    cdef int count = 0
    cdef Py_ssize_t start = 0, i
    cdef void* grown
    for i in range(n + 1):
        if i < n and subject[i] != c'.':
            continue
        if count == token_room:
            grown = realloc(starts, (count * 2 + 64) * sizeof(Py_ssize_t))
            if grown == NULL:
                raise MemoryError()
            starts = <Py_ssize_t*>grown
            grown = realloc(lengths, (count * 2 + 64) * sizeof(Py_ssize_t))
            if grown == NULL:
                raise MemoryError()
            lengths = <Py_ssize_t*>grown
            token_room = count * 2 + 64
        starts[count] = start
        lengths[count] = i - start
        count += 1
        start = i + 1
    return count


cdef class Transform:
    """What subjects that fit `source` become. Raises TransformError for what is no transform.

    `strict`: as imports need it: only wildcards, all of them used, so that it can be undone.
    """

    def __init__(self, bytes source not None, bytes destination not None, bint strict=False) -> None:
        cdef int i, first = 0
        cdef list steps
        self.source = source or b">"
        self.destination = destination
        steps = compile_steps(self.source, destination, strict)
        self.source_tokens = self.source.count(b".") + 1
        self.open_ended = self.source == b">" or self.source.endswith(b".>")
        if self.open_ended:
            steps.pop()  # the '>' itself
        self.is_constant = not self.open_ended and all(step.kind == Kind.LITERAL for step in steps)
        self.is_random = any(step.kind == Kind.RANDOM for step in steps)
        self.kept = [step.text for step in steps]
        self.step_count = len(steps)
        self.steps = <Step*>malloc((self.step_count + 1) * sizeof(Step))
        self.tokens = <int*>malloc((sum(len(step.tokens) for step in steps) + 1) * sizeof(int))
        if self.steps == NULL or self.tokens == NULL:
            raise MemoryError()
        for i, step in enumerate(steps):
            self.steps[i].kind = step.kind
            self.steps[i].number = step.number
            self.steps[i].text = PyBytes_AS_STRING(step.text)
            self.steps[i].text_len = PyBytes_GET_SIZE(step.text)
            self.steps[i].first = first
            self.steps[i].count = len(step.tokens)
            for token in step.tokens:
                self.tokens[first] = token
                first += 1

    def __dealloc__(self) -> None:
        free(self.steps)
        free(self.tokens)

    def transform(self, bytes subject not None) -> bytes | None:
        """What a subject becomes; None when it does not fit the source."""
        if not self.fits(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject)):
            return None
        return self.map(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))

    def reversed(self) -> "Transform | None":
        """The transform that undoes this one, which must be strict; None when there is none."""
        way_back = reverse(self.source, self.destination)
        return None if way_back is None else Transform(way_back[0], way_back[1], True)

    cdef bint fits(self, const char* subject, Py_ssize_t n) noexcept:
        return fits_source(subject, n, PyBytes_AS_STRING(self.source), PyBytes_GET_SIZE(self.source))

    cdef bytes map(self, const char* subject, Py_ssize_t n):
        cdef int i
        cdef Py_ssize_t rest
        cdef int count
        if self.is_constant:
            return self.destination
        count = split_tokens(subject, n)
        scratch.clear()
        for i in range(self.step_count):
            if i:
                scratch.append(".", 1)
            self._write(&self.steps[i], scratch, subject, n)
        if self.open_ended:
            if self.step_count:
                scratch.append(".", 1)
            if count >= self.source_tokens:
                rest = starts[self.source_tokens - 1]
                scratch.append(subject + rest, n - rest)
        return PyBytes_FromStringAndSize(scratch.data, scratch.size)

    cdef int _write(self, Step* step, OutputBuffer out, const char* subject, Py_ssize_t n) except -1:
        """One token of the destination: maybe several tokens, or none."""
        cdef const char* token = NULL
        cdef Py_ssize_t size = 0
        cdef Py_ssize_t cut = step.number
        if step.count:
            token = subject + starts[self.tokens[step.first]]
            size = lengths[self.tokens[step.first]]
        if step.kind == LITERAL:
            return out.append(step.text, step.text_len)
        if step.kind == PARTITION:
            return self._write_partition(step, out, subject, n)
        if step.kind == RANDOM:
            return append_number(out, 0 if cut == 0 else <int32_t>(random_bits() >> 1) % step.number)
        if step.kind == SPLIT:
            return write_split(step, out, token, size)
        if step.kind == WILDCARD or cut <= 0 or cut >= size:
            return out.append(token, size)
        if step.kind == LEFT:
            return out.append(token, cut)
        if step.kind == RIGHT:
            return out.append(token + size - cut, cut)
        if step.kind == SPLIT_FROM_LEFT:
            return write_pieces(out, token, size, cut, size)
        if step.kind == SPLIT_FROM_RIGHT:
            return write_pieces(out, token, size, size - cut, size)
        if step.kind == SLICE_FROM_LEFT:
            return write_pieces(out, token, size, cut, cut)
        return write_pieces(out, token, size, size % cut or cut, cut)

    cdef int _write_partition(self, Step* step, OutputBuffer out, const char* subject, Py_ssize_t n) except -1:
        cdef uint32_t h = 2166136261U
        cdef int i, place
        if step.count == 0:
            h = fnv1a(h, subject, n)
        for i in range(step.first, step.first + step.count):
            place = self.tokens[i]
            h = fnv1a(h, subject + starts[place], lengths[place])
        return append_number(out, 0 if step.number == 0 else h % <uint32_t>step.number)


cdef inline uint32_t fnv1a(uint32_t h, const char* p, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        h = (h ^ <unsigned char>p[i]) * 16777619U
    return h


cdef int append_number(OutputBuffer out, long number) except -1:
    cdef bytes text = b"%d" % number
    return out.append(PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))


cdef int write_pieces(OutputBuffer out, const char* token, Py_ssize_t size, Py_ssize_t first,
                      Py_ssize_t other) except -1:
    """The token in pieces: one of `first` bytes, then of `other` bytes each; the last one may be shorter."""
    cdef Py_ssize_t piece = first
    while size > piece:
        out.append(token, piece)
        out.append(".", 1)
        token += piece
        size -= piece
        piece = other
    return out.append(token, size)


cdef int write_split(Step* step, OutputBuffer out, const char* token, Py_ssize_t size) except -1:
    """The token cut at each delimiter; no dot beside an empty piece at its beginning or end."""
    cdef list pieces = split_like_go(token[:size], step.text[:step.text_len])
    cdef Py_ssize_t i
    cdef Py_ssize_t last = len(pieces) - 1
    for i, piece in enumerate(pieces):
        out.append(PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece))
        if i < last and pieces[i + 1] and not (i == 0 and not piece):
            out.append(".", 1)
    return 0


cdef list split_like_go(bytes token, bytes delimiter):
    """By the delimiter; without one into characters, as UTF-8 where it is valid."""
    if delimiter:
        return token.split(delimiter)
    return [character.encode("utf-8", "surrogateescape") for character in token.decode("utf-8", "surrogateescape")]
