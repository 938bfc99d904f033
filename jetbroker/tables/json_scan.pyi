from collections.abc import Iterable, Sequence
from typing import Any

from jetbroker.tables.column_types import ColumnType, Field
from jetbroker.tables.convert import RowDecoder

def takes(fields: Iterable[Field]) -> bool: ...

class Column:
    nulls: int
    def __init__(self, of: ColumnType, count: int) -> None: ...
    def buffers(self) -> list[Any]: ...

class Node:
    def __init__(self, paths: Sequence[tuple[tuple[str, ...], int]]) -> None: ...

class JsonScanner:
    fault: Exception | None
    def __init__(self, fields: Sequence[Field], decoder: RowDecoder) -> None: ...
    def decode(self, ends: Any, data: Any, first: int, count: int) -> tuple[list[Column], list[int]]: ...
