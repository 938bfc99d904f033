# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Subject mappings of one account (see mapping.pxd)."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM
from libc.stdint cimport uint64_t
from libc.string cimport memcmp

from jetbroker.routing.transform cimport Transform, fits_source, random_bits
from jetbroker.wire.subjects cimport has_wildcard, is_valid_subject

from jetbroker import limits
from jetbroker.routing.placeholders import TransformError, check_mapping, number_wildcards

cdef uint64_t CACHE_SLOTS = limits.MAPPING_CACHE_ENTRIES


cdef inline uint64_t hash_subject(const char* p, Py_ssize_t n) noexcept nogil:
    cdef uint64_t h = 0xCBF29CE484222325ULL
    cdef Py_ssize_t i
    for i in range(n):
        h = (h ^ <unsigned char>p[i]) * 0x100000001B3ULL
    return h ^ (h >> 32)


cdef inline bint is_system(const char* p, Py_ssize_t n) noexcept nogil:
    """The server's own subjects: its services, JetStream's API and acks, answers to imported services."""
    if n < 4:
        return False
    if p[0] == c'_':
        return memcmp(p, b"_R_.", 4) == 0
    return p[0] == c'$' and (memcmp(p, b"$JS.", 4) == 0 or (n >= 5 and memcmp(p, b"$SYS.", 5) == 0))


cdef class Destination:
    """Where a mapping leads, and how often."""


cdef class Mapping:
    """One source and its destinations."""

    cdef bytes choose(self, const char* subject, Py_ssize_t n):
        cdef Destination destination
        cdef unsigned int number
        if len(self.destinations) == 1 and (<Destination>self.destinations[0]).below == 100:
            return (<Destination>self.destinations[0]).transform.map(subject, n)
        number = random_bits() % 100
        for destination in self.destinations:
            if number < destination.below:
                return destination.transform.map(subject, n)
        return b""


cdef class CachedMapping:
    """What is known of one published subject."""


cdef class Mappings:
    """The mappings of one account. Raises TransformError for what cannot be one, with nats-server's text.

    `sources` are (source, [(destination, weight in percent, cluster)]). Destinations of another cluster than
    `cluster` count only in their check.

    A source that begins with a wildcard leaves the server's own subjects (`$SYS.`, `$JS.`, `_R_.`) alone.
    """

    def __init__(self, sources, str cluster="") -> None:
        mappings = {source: _make(source, targets, cluster) for source, targets in sources}
        self.mappings = sorted(mappings.values(), key=lambda mapping: not (<Mapping>mapping).is_literal)
        self.common = _common_tokens([(<Mapping>mapping).source for mapping in self.mappings])
        self.cache = [None] * CACHE_SLOTS

    def mapped(self, bytes subject not None) -> bytes | None:
        """As `map`, for Python."""
        return self.map(PyBytes_AS_STRING(subject), PyBytes_GET_SIZE(subject))

    def sources(self) -> list:
        """Of all mappings, in the order they are tried."""
        return [(<Mapping>mapping).source for mapping in self.mappings]

    cdef bytes map(self, const char* subject, Py_ssize_t n):
        cdef object slot
        cdef CachedMapping known
        cdef Py_ssize_t common = PyBytes_GET_SIZE(self.common)
        if n < common or memcmp(subject, PyBytes_AS_STRING(self.common), common) != 0:
            return None
        slot = <object>PyList_GET_ITEM(self.cache, <Py_ssize_t>(hash_subject(subject, n) % CACHE_SLOTS))
        if (slot is not None and PyBytes_GET_SIZE((<CachedMapping>slot).subject) == n
                and memcmp(PyBytes_AS_STRING((<CachedMapping>slot).subject), subject, n) == 0):
            known = <CachedMapping>slot
        else:
            known = self._look_up(subject, n)
        if known.mapping is None or known.result is not None:
            return known.result
        return known.mapping.choose(subject, n)

    cdef CachedMapping _look_up(self, const char* subject, Py_ssize_t n):
        cdef CachedMapping found = CachedMapping.__new__(CachedMapping)
        cdef Mapping mapping
        cdef bint system = is_system(subject, n)
        self.builds += 1
        found.subject = PyBytes_FromStringAndSize(subject, n)
        for mapping in self.mappings:
            if mapping.is_literal:
                if mapping.source != found.subject:
                    continue
            elif (system and not mapping.names_system) or not fits_source(
                    subject, n, PyBytes_AS_STRING(mapping.source), PyBytes_GET_SIZE(mapping.source)):
                continue
            found.mapping = mapping
            if mapping.is_fixed:
                found.result = mapping.choose(subject, n)
            break
        self.cache[hash_subject(subject, n) % CACHE_SLOTS] = found
        return found


def domain_mappings(str domain not None, str default="") -> Mappings | None:
    """What JetStream domains map in an account; None: neither is given.

    `domain` is the server's own: `$JS.<domain>.API.` is a second name of the API, and of data. `default` is the one that
    an account without JetStream means when it names none.
    """
    cdef list rules = [(prefixed, plain) for prefixed, plain in domain_names(domain)] if domain else []
    if default:
        rules += [(plain, prefixed) for prefixed, plain in domain_names(default)]
    return Mappings([(source, [(target, 100, "")]) for source, target in rules]) if rules else None


def domain_names(str domain not None) -> list[tuple[bytes, bytes]]:
    """What is named by a domain, and the same without it."""
    prefix = b"$JS.%b.API." % domain.encode()
    parts = (b"INFO", b"STREAM.>", b"CONSUMER.>", b"DIRECT.>", b"META.>", b"SERVER.>", b"ACCOUNT.>")
    names = [(prefix + part, b"$JS.API." + part) for part in parts]
    return names + [(prefix + data, data) for data in (b"$KV.>", b"$OBJ.>")]


cdef bytes _common_tokens(list sources):
    """The literal tokens that all sources begin with, and the dot behind them."""
    cdef list shared = []
    for tokens in zip(*[source.split(b".")[:source.count(b".")] for source in sources]):
        if len(set(tokens)) != 1 or tokens[0] == b"*":
            break
        shared.append(tokens[0] + b".")
    return b"".join(shared)


cdef Mapping _make(bytes source, list targets, str cluster):
    """Check everything, keep what counts in this cluster."""
    cdef Mapping mapping = Mapping.__new__(Mapping)
    cdef list named = []
    cdef dict weights = {}
    cdef Destination only
    if not is_valid_subject(PyBytes_AS_STRING(source), PyBytes_GET_SIZE(source)):
        raise TransformError("invalid subject")
    mapping.source = source
    mapping.is_literal = not has_wildcard(PyBytes_AS_STRING(source), PyBytes_GET_SIZE(source))
    mapping.names_system = source.split(b".")[0] not in (b"*", b">")
    for subject, weight, where in targets:
        if subject in named:
            raise TransformError(f'duplicate entry for "{subject.decode("utf-8", "replace")}"')
        named.append(subject)
        if weight > 100:
            raise TransformError("individual weights need to be <= 100")
        weights[where] = weights.get(where, 0) + weight
        if weights[where] > 100:
            raise TransformError("total weight needs to be <= 100")
        check_mapping(source, subject)
    here = [target for target in targets if target[2] == cluster] if cluster else []
    if not here:
        here = [target for target in targets if not target[2]]
    mapping.destinations = _weigh(source, mapping.is_literal, here, source in named)
    mapping.is_fixed = not mapping.destinations
    if len(mapping.destinations) == 1:
        only = <Destination>mapping.destinations[0]
        mapping.is_fixed = only.below == 100 and not only.transform.is_random
    return mapping


cdef list _weigh(bytes source, bint is_literal, list targets, bint with_loss):
    """The destinations, rarest first. What is missing to 100 goes to the original, unless that is named: then lost."""
    cdef list found = []
    cdef list chosen
    cdef Destination destination
    cdef unsigned int below = 0
    original = source if is_literal else number_wildcards(source)
    # nats-server starts with a destination without a subject, and dies of the first message for it
    chosen = [(subject or original, weight, where) for subject, weight, where in targets]
    missing = 100 - sum(weight for _, weight, _ in chosen)
    if missing and not with_loss:
        chosen.append((original, missing, ""))
    for subject, weight, _ in sorted(chosen, key=lambda target: target[1]):
        if weight == 0:
            continue
        below += weight
        destination = Destination.__new__(Destination)
        destination.transform = Transform(source, subject)
        destination.below = below
        found.append(destination)
    return found
