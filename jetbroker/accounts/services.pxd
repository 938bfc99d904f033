"""Service imports: requests that go to another account, and the way of their answers back."""
from jetbroker.routing.router cimport Route, Router
from jetbroker.routing.subscription cimport Receiver, Subscription
from jetbroker.routing.transform cimport Transform
from jetbroker.wire.message cimport Message


cdef class Responses(Receiver):
    """The answers that one account's services owe to others, and what it waits for itself."""
    cdef readonly Router router
    cdef readonly bytes prefix         # `_R_.<6>.`, all generated reply subjects of this account begin with it
    cdef readonly dict owed            # reply subject (generated) -> Response
    cdef dict awaited                  # original reply subject -> {Response: None}
    cdef bint sweep_due
    cdef object timer                  # of the next expiry, None when nothing is owed
    cdef double timer_due

    cdef Response _new(self, Responses requestor, bytes original, object export, bint single)
    cdef int _expect_expiry(self, double due) except -1
    cdef int _finish(self, Response response) except -1


cdef class Response:
    """One request that may still be answered."""
    cdef bytes reply                   # generated
    cdef bytes original
    cdef Responses owner
    cdef Responses requestor
    cdef readonly object export        # accounts.graph.Export
    cdef bint single
    cdef double used_at                # loop time
    cdef Route route                   # of the original reply, while consumers deliver to it


cdef class ServiceReceiver(Receiver):
    """Stands in the importer's router for one service of another account."""
    cdef readonly object rule          # accounts.graph.ServiceImport
    cdef readonly Responses importer
    cdef readonly Responses exporter
    cdef bytes subject
    cdef Transform transform
    cdef bint published
    cdef readonly object export
    cdef object describe               # (origin, crossed, reply) -> bytes, see accounts.client_info

    cdef bytes _target(self, const char* subject, Py_ssize_t n)
    # `trace`: None unless the message is traced.
    cdef int _ask(self, Subscription sub, const Message* msg, object trace) except -1
    cdef int _ask_traced(self, bytes target, Message* request, bytes block, object trace) except -1
