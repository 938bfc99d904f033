"""What typed columns are: names, places in a payload, types. Arrow's form of them is made where pyarrow is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jetbroker.errors import StoreReadError

if TYPE_CHECKING:
    import pyarrow as pa

INTEGER_BITS = {"byte": 8, "short": 16, "int": 32, "long": 64}
SIMPLE = ("string", "boolean", *INTEGER_BITS, "float", "double", "timestamp", "date", "binary")
MAX_PRECISION = 38  # digits of a decimal: what Spark and Arrow's decimal128 have


@dataclass(frozen=True)
class ColumnType:
    """`name`: one of SIMPLE, or decimal (`precision`, `scale`), array (`item`), map (`item`), struct (`fields`)."""

    name: str
    precision: int = 0
    scale: int = 0
    item: ColumnType | None = None
    fields: tuple[Field, ...] = ()

    def __str__(self) -> str:
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.name == "array":
            return f"array<{self.item}>"
        if self.name == "map":
            return f"map<string,{self.item}>"
        if self.name == "struct":
            return f"struct<{','.join(f'{field.column}:{field.type}' for field in self.fields)}>"
        return self.name


@dataclass(frozen=True)
class Field:
    """A value of a payload: the keys that lead to it, its type, and the column that it goes to."""

    path: tuple[str, ...]
    type: ColumnType
    column: str

    @property
    def place(self) -> str:
        """The keys as they are written."""
        return ".".join(self.path)


def arrow_schema(fields: tuple[Field, ...]) -> pa.Schema:
    """Arrow's schema of these columns; every one may be null."""
    import pyarrow as pa

    return pa.schema([(field.column, arrow_type(field.type)) for field in fields])


def arrow_type(of: ColumnType) -> pa.DataType:
    """The Arrow type; the one that Spark takes for the same name."""
    import pyarrow as pa

    if of.name == "decimal":
        return pa.decimal128(of.precision, of.scale)
    if of.name == "array" and of.item is not None:
        return pa.list_(arrow_type(of.item))
    if of.name == "map" and of.item is not None:
        return pa.map_(pa.string(), arrow_type(of.item))
    if of.name == "struct":
        return pa.struct([(field.column, arrow_type(field.type)) for field in of.fields])
    simple = {
        "string": pa.string(),
        "boolean": pa.bool_(),
        "float": pa.float32(),
        "double": pa.float64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "date": pa.date32(),
        "binary": pa.binary(),
        **{name: getattr(pa, f"int{bits}")() for name, bits in INTEGER_BITS.items()},
    }
    return simple[of.name]


def distinct(fields: tuple[Field, ...], taken: tuple[str, ...], source: str) -> tuple[Field, ...]:
    """The fields, a column that bears a name in `taken` with `data_` in front. Raises StoreReadError for twins."""
    named: dict[str, Field] = {}
    for field in fields:
        column = f"data_{field.column}" if field.column in taken else field.column
        if column in named:
            raise StoreReadError(
                f"{source}: {named[column].place!r} and {field.place!r} would both be column {column!r}"
            )
        named[column] = Field(field.path, field.type, column)
    return tuple(named.values())
