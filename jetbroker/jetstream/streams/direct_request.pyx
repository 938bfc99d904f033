# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""A direct get request (see direct_request.pxd)."""
from jetbroker.bounds import INT64_MAX, INT64_MIN, UINT64_MAX
from jetbroker.forms.api_level import level_supported
from jetbroker.forms.gojson import fast_value
from jetbroker.forms.gotext import parse_time

cdef bytes EMPTY = b"408 Empty Request"
cdef bytes MALFORMED = b"408 Malformed Request"
cdef bytes BAD = b"408 Bad Request"
cdef bytes API_LEVEL_TOO_LOW = b"412 Required Api Level"


class DirectError(Exception):
    """A request that is answered by a status line; `status` is the text after `NATS/1.0 `.

    Raise a new one each time: one that is raised again keeps the frames of all times before.
    """

    def __init__(self, bytes status not None) -> None:
        super().__init__(status.decode())
        self.status = status


cdef class DirectRequest:
    """Asks for nothing yet."""

    cdef bint asks(self) noexcept:
        return (self.seq != 0 or self.batch != 0 or self.max_bytes != 0 or self.up_to_seq != 0
                or self.last_by_subject is not None or self.next_by_subject is not None
                or self.start_time_ns is not None or self.up_to_time_ns is not None or self.multi_last is not None)


cdef DirectRequest read_request(bytes subject, bytes body, bytes level):
    cdef DirectRequest request
    if level is not None and not level_supported(level):
        raise DirectError(API_LEVEL_TOO_LOW)
    if not body:
        if not subject:
            raise DirectError(EMPTY)
        request = DirectRequest.__new__(DirectRequest)
    else:
        request = _from_fields(_fields(body))
        if not subject:
            _check(request)
            return request
        if request.asks():
            raise DirectError(BAD)
    request.last_by_subject = subject
    return request


cdef dict _fields(bytes body):
    try:
        fields = fast_value(body)
    except ValueError:
        raise DirectError(MALFORMED) from None
    if not isinstance(fields, dict):
        raise DirectError(MALFORMED)
    return {name.lower(): value for name, value in (<dict>fields).items() if value is not None}


cdef DirectRequest _from_fields(dict fields):
    cdef DirectRequest request = DirectRequest.__new__(DirectRequest)
    cdef str name
    for name, value in fields.items():
        if name == "seq":
            request.seq = _integer(value, 0, UINT64_MAX)
        elif name == "last_by_subj":
            request.last_by_subject = _text(value) or None
        elif name == "next_by_subj":
            request.next_by_subject = _text(value) or None
        elif name == "batch":
            request.batch = _integer(value, INT64_MIN, INT64_MAX)
        elif name == "max_bytes":
            request.max_bytes = _integer(value, INT64_MIN, INT64_MAX)
        elif name == "start_time":
            request.start_time_ns = _time(value)
        elif name == "multi_last":
            request.multi_last = _texts(value) or None
        elif name == "up_to_seq":
            request.up_to_seq = _integer(value, 0, UINT64_MAX)
        elif name == "up_to_time":
            request.up_to_time_ns = _time(value)
        elif name == "no_hdr":
            if type(value) is not bool:
                raise DirectError(MALFORMED)
            request.no_hdr = value
    return request


cdef int _check(DirectRequest request) except -1:
    cdef int starts = (request.seq != 0) + (request.last_by_subject is not None) + (request.start_time_ns is not None)
    if not (starts or request.next_by_subject is not None or request.multi_last is not None):
        raise DirectError(EMPTY)
    if starts > 1 or (request.last_by_subject is not None and (request.next_by_subject is not None or request.batch)):
        raise DirectError(BAD)
    if request.up_to_seq and request.up_to_time_ns is not None:
        raise DirectError(BAD)
    if request.multi_last is not None and (
            request.last_by_subject is not None or request.next_by_subject is not None):
        raise DirectError(BAD)
    return 0


cdef object _integer(object value, object low, object high):
    if type(value) is not int or not low <= value <= high:
        raise DirectError(MALFORMED)
    return value


cdef bytes _text(object value):
    if not isinstance(value, str):
        raise DirectError(MALFORMED)
    return (<str>value).encode()


cdef tuple _texts(object value):
    if not isinstance(value, list):
        raise DirectError(MALFORMED)
    return tuple([_text(text) for text in <list>value])


cdef object _time(object value):
    if not isinstance(value, str):
        raise DirectError(MALFORMED)
    try:
        return parse_time(value).unix_nano
    except ValueError:
        raise DirectError(MALFORMED) from None
