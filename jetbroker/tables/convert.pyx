"""Payloads' values, checked and made what Arrow builds columns of. It runs once per message and column."""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_Append
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.math cimport isinf
from libc.stdint cimport int32_t

import binascii
from datetime import UTC, date, datetime
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from enum import Enum
from uuid import UUID

from jetbroker.limits import TYPED_DECIMAL_CHARACTERS
from jetbroker.tables.column_types import INTEGER_BITS

cdef enum:
    SHOWN_CHARACTERS = 40

cdef enum Kind:
    STRING, BOOLEAN, INTEGER, SINGLE, DOUBLE, TIMESTAMP, DATE, BINARY, DECIMAL, ARRAY, MAP, STRUCT

cdef dict KINDS = {
    "string": STRING, "boolean": BOOLEAN, "float": SINGLE, "double": DOUBLE, "timestamp": TIMESTAMP, "date": DATE,
    "binary": BINARY, "decimal": DECIMAL, "array": ARRAY, "map": MAP, "struct": STRUCT,
}
cdef object EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
cdef int DECIMAL_CHARACTERS = TYPED_DECIMAL_CHARACTERS


def microseconds(moment):
    """Of a datetime (UTC unless it says otherwise), since 1970, exactly: a float would round."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    passed = moment - EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


cdef class Converter:
    """Values of one type. `of` raises ValueError for one that is of another."""

    def __init__(self, of):
        self.type = of
        self.kind = INTEGER if of.name in INTEGER_BITS else KINDS[of.name]
        if self.kind == INTEGER:
            self.high = (1 << (INTEGER_BITS[of.name] - 1)) - 1
            self.low = -self.high - 1
        elif self.kind == DECIMAL:
            self.quantum = Decimal(1).scaleb(-of.scale)
            self.context = Context(prec=of.precision, traps=[Inexact, InvalidOperation])
        elif self.kind == ARRAY or self.kind == MAP:
            self.item = Converter(of.item)
        elif self.kind == STRUCT:
            self.members = [Place(field) for field in of.fields]

    cdef object of(self, object value):
        if value is None:
            return None
        if self.kind == STRING:
            return self._string(value)
        if isinstance(value, Enum):
            value = value.value
        if self.kind == INTEGER:
            if type(value) is not bool and isinstance(value, int) and self.low <= value <= self.high:
                return value
        elif self.kind == DOUBLE or self.kind == SINGLE:
            if isinstance(value, (float, int, Decimal)) and type(value) is not bool:
                return self._floating(value)
        elif self.kind == BOOLEAN:
            if type(value) is bool:
                return value
        elif self.kind == TIMESTAMP:
            if isinstance(value, str):
                value = _read(datetime.fromisoformat, value, self)
            if isinstance(value, datetime):
                return microseconds(value)
        elif self.kind == DATE:
            if isinstance(value, str):
                return _read(date.fromisoformat, value, self)
            if isinstance(value, date) and not isinstance(value, datetime):
                return value
        elif self.kind == BINARY:
            if isinstance(value, (bytes, bytearray)):
                return value
            if isinstance(value, str):
                return _read(_from_base64, value, self)
        elif self.kind == DECIMAL:
            return self._decimal(value)
        else:
            return self._nested(value)
        raise _wrong(value, self)

    cdef object _string(self, object value):
        cdef Py_ssize_t length
        if type(value) is not str:
            if isinstance(value, Enum):
                value = value.value
            elif isinstance(value, UUID):
                value = str(value)
        if not isinstance(value, str):
            raise _wrong(value, self)
        PyUnicode_AsUTF8AndSize(value, &length)  # half of a surrogate pair has no UTF-8: UnicodeEncodeError
        return value

    cdef object _floating(self, object value):
        cdef double number
        try:
            number = float(value)
        except OverflowError:
            raise _wrong(value, self) from None
        if self.kind == SINGLE and isinf(<float>number) and not isinf(number):
            raise _wrong(value, self)
        return number

    cdef object _decimal(self, object value):
        if type(value) is float:
            value = repr(value)
        if isinstance(value, (str, int, Decimal)) and type(value) is not bool:
            if isinstance(value, str) and len(value) > DECIMAL_CHARACTERS:
                raise _wrong(value, self)
            try:
                number = Decimal(value)
                if number.is_finite():
                    return number.quantize(self.quantum, context=self.context)
            except DecimalException:
                pass
        raise _wrong(value, self)

    cdef object _nested(self, object value):
        cdef Place place
        if self.kind == ARRAY:
            if isinstance(value, (list, tuple, set, frozenset)):
                return [self.item.of(item) for item in value]
        elif self.kind == MAP:
            if isinstance(value, dict):
                return [(_key(key), self.item.of(item)) for key, item in value.items()]
        else:
            if not isinstance(value, dict):
                value = getattr(value, "__dict__", value)
            if isinstance(value, dict):
                return {place.column: place.find(value) for place in self.members}
        raise _wrong(value, self)


cdef class Place:
    """Where a payload has a column's value."""

    def __init__(self, field):
        self.path = field.path
        self.column = field.column
        self.converter = Converter(field.type)

    cdef object find(self, object row):
        """The value, None where there is none. Raises ValueError for one of another type."""
        cdef PyObject* found
        for key in self.path:
            if row is None:
                return None
            if not isinstance(row, dict):
                raise ValueError(f"{_shown(row)} is no object that could have {key!r}")
            found = PyDict_GetItem(row, key)
            if found == NULL:
                return None
            row = <object>found
        return self.converter.of(row)


cdef class RowDecoder:
    """Payloads to columns. `load` makes an object of a payload, or raises ValueError; `models`: it has attributes."""

    def __init__(self, fields, load, bint models):
        self.places = [Place(field) for field in fields]
        self.load = load
        self.models = models
        self.fault = None

    def decode(self, const unsigned char[::1] ends not None, const unsigned char[::1] data not None, Py_ssize_t first,
               Py_ssize_t count):
        """(a list of values for each column, the rows that do not validate): `count` payloads from the `first` on.

        `ends` and `data` are the buffers of an Arrow binary array. `fault` is then why the first of these rows failed.
        """
        cdef const int32_t* offsets = NULL
        cdef const char* text = NULL
        cdef list columns = [[] for _ in self.places]
        cdef list bad = []
        cdef Py_ssize_t i
        cdef bytes payload
        if count:
            offsets = <const int32_t*>&ends[0]
        if data.shape[0]:
            text = <const char*>&data[0]
        if count and ((first + count + 1) * 4 > ends.shape[0] or offsets[first + count] > data.shape[0]):
            raise IndexError("the buffers are shorter than the array")
        self.fault = None
        for i in range(first, first + count):
            payload = PyBytes_FromStringAndSize(text + offsets[i], offsets[i + 1] - offsets[i])
            try:
                self.add(payload, columns)
            except (ValueError, RecursionError) as error:
                if self.fault is None:
                    self.fault = error
                bad.append(i - first)
                self._leave_out(columns, i - first)
        return columns, bad

    cdef int add(self, bytes payload, list columns) except -1:
        cdef Place place
        cdef Py_ssize_t column = 0
        row = self.load(payload)
        if self.models:
            row = row.__dict__
        elif type(row) is not dict:
            raise ValueError(f"{_shown(row)} is no object")
        for place in self.places:
            try:
                value = place.find(row)
            except ValueError as error:
                raise ValueError(f"{'.'.join(place.path)}: {error}") from None
            PyList_Append(<list>columns[column], value)
            column += 1
        return 0

    cdef int _leave_out(self, list columns, Py_ssize_t row) except -1:
        """A row of nulls."""
        for values in columns:
            del values[row:]
            values.append(None)
        return 0


cdef object _key(object key):
    if not isinstance(key, str):
        raise ValueError(f"the key {_shown(key)} is no string")
    return key


cdef object _read(object reader, str text, Converter converter):
    try:
        return reader(text)
    except ValueError:
        raise _wrong(text, converter) from None


def _from_base64(text):
    return binascii.a2b_base64(text, strict_mode=True)


cdef str _shown(object value):
    """What an error says of a value: no more than a few characters, and nothing that costs time."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "an array"
    if isinstance(value, (str, bytes)):
        value = value[:SHOWN_CHARACTERS]
    return repr(value)[:SHOWN_CHARACTERS + 3]


cdef object _wrong(object value, Converter converter):
    return ValueError(f"{_shown(value)} is no {converter.type}")
