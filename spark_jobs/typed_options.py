"""Payloads as typed columns: the options json, msgpack, model, form and mode of the source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.types import DataType, StructType

from jetbroker.errors import StoreReadError
from jetbroker.store.offline.arrow import schema_of
from jetbroker.store.offline.reader import COLUMNS
from jetbroker.tables.typed import NEEDED, TypedPayloads
from spark_jobs.columns import SPARK_TYPES

if TYPE_CHECKING:
    import pyarrow as pa

WHAT = ("json", "msgpack", "model")
HOW = ("mode", "form")


class TypedColumns:
    """What the options say of payloads. `types` are all columns that there are, `defaults` those that come unasked."""

    def __init__(self, options: Mapping[str, str]) -> None:
        given = {name: options[name] for name in (*WHAT, *HOW) if name in options}
        self.payloads: TypedPayloads | None = None
        self.types: dict[str, DataType] = dict(SPARK_TYPES)
        self.defaults: tuple[str, ...] = COLUMNS
        self.names: frozenset[str] = frozenset()
        if not given:
            return
        if not any(name in given for name in WHAT):
            raise StoreReadError(f"option {next(iter(given))} is for typed columns: give json, msgpack or model, too")
        self.payloads = TypedPayloads(**given)
        added = _spark_types(self.payloads.schema)
        self.names = frozenset(added)
        self.types |= added
        self.defaults = (*(name for name in COLUMNS if name != "data"), *added)

    def check(self, schema: StructType) -> None:
        """Raises StoreReadError for a schema that forbids a null which may come."""
        for field in schema.fields:
            if field.name in self.names and not field.nullable:
                raise StoreReadError(f"column {field.name!r} is NOT NULL, but what payloads give may be null")

    def stored(self, schema: pa.Schema) -> pa.Schema:
        """What has to be read for these columns."""
        import pyarrow as pa

        if self.payloads is None:
            return schema
        fields = [field for field in schema if field.name not in self.names]
        there = {field.name for field in fields}
        return pa.schema([*fields, *(field for field in schema_of(NEEDED) if field.name not in there)])

    def decoded(self, batch: pa.RecordBatch, schema: pa.Schema, stream: str) -> pa.RecordBatch:
        """A batch of `stored` columns as one of these. Raises StoreReadError in the mode failing."""
        return batch if self.payloads is None else self.payloads.decode(batch, schema, stream)


def _spark_types(schema: pa.Schema) -> dict[str, DataType]:
    from pyspark.sql.pandas.types import from_arrow_type

    return {field.name: from_arrow_type(field.type) for field in schema}
