"""The subscriptions to literal subjects, by the hash of the whole subject."""
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t

from jetbroker.hashing cimport hash_bytes
from jetbroker.routing.subscription cimport Subscription
from jetbroker.slots cimport Slots

# Random, other ones in each process: nobody can choose subjects that meet in one place.
cdef uint64_t hash_seed
cdef uint64_t hash_factor


cdef inline uint64_t hash_subject(const char* p, Py_ssize_t n) noexcept nogil:
    return hash_bytes(p, n, hash_seed, hash_factor)


cdef class Members:
    """The subscriptions to one subject."""
    cdef Subscription single    # the only plain subscription
    cdef dict plain             # Subscription -> None (an ordered set: many may share a subject) when there are several
    cdef dict queues            # queue name -> {Subscription: None}, None when empty

    cdef bint has_members(self) noexcept
    cdef object plain_members(self)    # every plain subscription, in their order
    cdef int put_in(self, Subscription sub) except -1
    cdef bint take_out(self, Subscription sub) except -1


cdef class Literal(Members):
    """Those to a literal one."""
    cdef bytes subject


cdef inline bint is_alone(PyObject* holder) noexcept:
    """A Subscription, not a Literal."""
    return type(<object>holder) is Subscription


cdef inline Members members_of(PyObject* holder):
    """What a slot holds, as Members."""
    cdef Literal made
    if not is_alone(holder):
        return <Members><object>holder
    made = Literal.__new__(Literal)
    made.single = <Subscription><object>holder
    made.subject = made.single.subject
    return made


cdef class Literals(Slots):
    """By subject. What a slot holds is a plain Subscription that is alone, else a Literal."""
    # Where the holder of a subject stands, NULL when it has none; for the next call only.
    cdef PyObject** find(self, const char* subject, Py_ssize_t n) noexcept
    # All subscriptions to it, None when there are none.
    cdef Members members(self, const char* subject, Py_ssize_t n)
    cdef int insert(self, Subscription sub) except -1
    cdef bint remove(self, Subscription sub) except -1
