"""Columns as Spark knows them, and Spark's own Arrow schema of them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from jetbroker.errors import StoreReadError
from jetbroker.store.offline.reader import COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa

# of a stream's messages: COLUMNS, and what only comes when it is asked for
SPARK_TYPES: dict[str, DataType] = {
    "stream": StringType(),
    "seq": LongType(),
    "time": TimestampType(),
    "subject": StringType(),
    "headers": MapType(StringType(), ArrayType(StringType())),
    "data": BinaryType(),
    "size": IntegerType(),
    "domain": StringType(),
    "account": StringType(),
    "segment": StringType(),
    "deleted": BooleanType(),
    "source_stream": StringType(),
    "source_seq": LongType(),
}
OF_COPIES = ("source_stream", "source_seq")  # null in most streams
ALL_DEFAULTS = "*"


def chosen_schema(asked: str, types: Mapping[str, DataType], defaults: tuple[str, ...] = COLUMNS) -> StructType:
    """The schema of the columns that the option `columns` names, in their order; `*` and "" are the defaults."""
    chosen: list[str] = []
    for name in [word.strip() for word in asked.split(",") if word.strip()] or [ALL_DEFAULTS]:
        chosen += defaults if name == ALL_DEFAULTS else [name]
    for name in chosen:
        check_column(name, types)
    return StructType([StructField(name, types[name]) for name in chosen])


def check_column(name: str, types: Mapping[str, DataType]) -> None:
    """Raises StoreReadError for a column that there is not."""
    if name not in types:
        raise StoreReadError(f"no column {name!r}; there are {', '.join(types)}")


def arrow_schema(schema: StructType, types: Mapping[str, DataType]) -> pa.Schema:
    """Spark's own Arrow schema of these columns: batches have to equal it to the last detail.

    Raises StoreReadError for a column or a type that there is not.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    for field in schema.fields:
        check_column(field.name, types)
        if field.name in OF_COPIES and not field.nullable:
            raise StoreReadError(f"column {field.name!r} is NOT NULL, but only messages that a source copied have it")
        expected, given = types[field.name].simpleString(), field.dataType.simpleString()
        if expected != given:
            raise StoreReadError(f"column {field.name!r} is {expected}, not {given}")
    if "timezone" in inspect.signature(to_arrow_schema).parameters:  # since Spark 4.2; before, UTC was the default
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)
