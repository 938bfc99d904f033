"""Payloads as typed columns: Arrow record batches with `data` in, batches with columns of their own out.

    typed = TypedPayloads(json="amount double, item.name string", mode="dropping")
    typed.schema                     # what is added: Arrow types
    typed.decode(batch, schema, "ORDERS")

What does not validate is null in these columns and stands in `_corrupt` (permissive), is left out (dropping), or is an
error that names stream and sequence (failing).
"""

from __future__ import annotations

import json as standard_json
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from jetbroker.errors import StoreReadError
from jetbroker.store.offline.reader import COLUMNS
from jetbroker.tables import ddl, json_scan, models
from jetbroker.tables.column_types import ColumnType, arrow_schema, distinct
from jetbroker.tables.convert import RowDecoder
from jetbroker.tables.json_scan import Column, JsonScanner

if TYPE_CHECKING:
    import pyarrow as pa
    from pydantic import BaseModel

MODES = ("permissive", "dropping", "failing")
FORMS = ("json", "msgpack")
CORRUPT = "_corrupt"
NEEDED = ("seq", "data")  # of each batch: to decode, and to name what fails


class TypedPayloads:
    """How payloads become columns; it can be pickled where the model is given by name.

    Exactly one of `json`, `msgpack` (texts, see docs/TABLES.md) and `model` (`package.module:Class`, or the class) says
    what the columns are. Payloads of a model are in `form`, "json" or "msgpack". Raises StoreReadError for a mistake.
    """

    def __init__(
        self,
        *,
        json: str = "",
        msgpack: str = "",
        model: str | type[BaseModel] = "",
        mode: str = "permissive",
        form: str = "json",
    ) -> None:
        if sum(bool(given) for given in (json, msgpack, model)) != 1:
            raise StoreReadError("typed columns: give exactly one of json, msgpack and model")
        if mode.lower() not in MODES:
            raise StoreReadError(f"mode: {mode!r} is none of {', '.join(MODES)}")
        if form not in FORMS:
            raise StoreReadError(f"form: {form!r} is none of {', '.join(FORMS)}")
        self.mode = mode.lower()
        self.form = "msgpack" if msgpack else "json" if json else form
        self.model = model
        source = "json" if json else "msgpack" if msgpack else "model"
        fields = models.fields_of(self._model()) if model else ddl.parse(json or msgpack, source)
        self.fields = distinct(fields, (*COLUMNS, CORRUPT), source)
        self._decoder: RowDecoder | JsonScanner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_decoder": None}  # made again where it is used

    @property
    def schema(self) -> pa.Schema:
        """The columns that payloads give, `_corrupt` (binary) at the end where the mode is permissive."""
        import pyarrow as pa

        added = arrow_schema(self.fields)
        return added.append(pa.field(CORRUPT, pa.binary())) if self.mode == "permissive" else added

    def needed(self, names: Iterable[str]) -> list[str]:
        """The stream's own columns that have to be read to make these columns."""
        made = {*(field.column for field in self.fields), CORRUPT}
        return list(dict.fromkeys([*(name for name in names if name not in made), *NEEDED]))

    def decode(self, batch: pa.RecordBatch, schema: pa.Schema, stream: str = "") -> pa.RecordBatch:
        """A batch of exactly `schema`: typed columns, `_corrupt`, and columns that `batch` has, in any order.

        `batch` has at least `data`, and `seq` to name the message in an error. Raises StoreReadError in the mode
        failing.
        """
        import pyarrow as pa

        payloads = batch.column("data")
        _, ends, data = payloads.buffers()
        decoder = self._row_decoder()
        found: tuple[Sequence[list[Any] | Column], list[int]] = decoder.decode(
            _octets(ends), _octets(data), payloads.offset, len(payloads)
        )
        values, bad = found
        if bad and self.mode == "failing":
            seq = batch.column("seq")[bad[0]].as_py() if "seq" in batch.schema.names else bad[0] + 1
            raise StoreReadError(
                f"stream {stream!r}, sequence {seq}: the payload does not validate: {reason(decoder.fault)}"
            )
        made = {field.column: column for field, column in zip(self.fields, values, strict=True)}
        arrays = []
        for field in schema:
            if field.name in made:
                arrays.append(_array(made[field.name], field.type, len(payloads)))
            elif field.name == CORRUPT:
                arrays.append(_corrupt(payloads, bad, field.type))
            else:
                arrays.append(batch.column(field.name))
        decoded = pa.RecordBatch.from_arrays(arrays, schema=schema)
        if not bad or self.mode != "dropping":
            return decoded
        kept = bytearray(b"\x01") * len(payloads)
        for row in bad:
            kept[row] = 0
        return decoded.filter(pa.array(list(map(bool, kept))))

    def _row_decoder(self) -> RowDecoder | JsonScanner:
        if self._decoder is None:
            decoder = RowDecoder(self.fields, self._loader(), bool(self.model))
            simple = self.form == "json" and not self.model and json_scan.takes(self.fields)
            self._decoder = json_scan.JsonScanner(self.fields, decoder) if simple else decoder
        return self._decoder

    def _model(self) -> type[BaseModel]:
        return models.load_model(self.model) if isinstance(self.model, str) else models.checked(self.model)

    def _loader(self) -> Callable[[bytes], Any]:
        """What makes an object of a payload, or raises ValueError."""
        unpack = loader(self.form) if self.form == "msgpack" else None
        if self.model:
            model = self._model()
            if unpack is None:
                return model.__pydantic_validator__.validate_json
            validate = model.__pydantic_validator__.validate_python
            return lambda payload: validate(unpack(payload))
        if unpack is not None:
            return unpack
        if any(map(_has_decimal, (field.type for field in self.fields))):
            return _exact_json
        return loader(self.form)


def loader(form: str) -> Callable[[bytes], Any]:
    """What makes an object of a payload of this form, or raises ValueError."""
    if form == "msgpack":
        return _unpacker()
    import orjson

    return orjson.loads


def reason(fault: Exception | None) -> str:
    """What is wrong with a payload, in one line."""
    if fault is not None and hasattr(fault, "errors"):  # pydantic's
        first = fault.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        return f"{place}: {first['msg']}" if place else str(first["msg"])
    if isinstance(fault, RecursionError):
        return "it is nested too deeply"
    return str(fault)


def _array(values: list[Any] | Column, kind: pa.DataType, count: int) -> pa.Array:
    import pyarrow as pa

    if isinstance(values, list):
        return pa.array(values, kind)
    buffers = [None if buffer is None else pa.py_buffer(buffer) for buffer in values.buffers()]
    return pa.Array.from_buffers(kind, count, buffers, values.nulls)


def _corrupt(payloads: pa.Array, bad: list[int], kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if not bad:
        return pa.nulls(len(payloads), kind)
    wrong = set(bad)
    return pa.array([payloads[row].as_py() if row in wrong else None for row in range(len(payloads))], kind)


def _octets(buffer: pa.Buffer | None) -> memoryview:
    return memoryview(buffer or b"").cast("B")


def _has_decimal(of: ColumnType) -> bool:
    return of.name == "decimal" or (of.item is not None and _has_decimal(of.item))


def _exact_json(payload: bytes) -> Any:
    """Numbers with a point as Decimal: a float would lose digits."""
    return standard_json.loads(payload.decode(), parse_float=Decimal, parse_constant=_no_constant)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _unpacker() -> Callable[[bytes], Any]:
    import msgpack

    def unpack(payload: bytes) -> Any:
        try:
            return msgpack.unpackb(payload, timestamp=3)
        except (msgpack.exceptions.UnpackException, OverflowError, TypeError) as error:
            raise ValueError(f"it is no msgpack: {error}") from None

    return unpack
