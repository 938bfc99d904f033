from collections.abc import Iterable, Sequence
from typing import Any, final

from jetbroker.tables.column_types import ColumnType, Field
from jetbroker.tables.convert import RowDecoder

def takes(fields: Iterable[Field]) -> bool: ...

@final
class Column:
    nulls: int
    def __init__(self, of: ColumnType, count: int) -> None: ...
    def buffers(self) -> list[Any]: ...

@final
class Node:
    def __init__(self, paths: Sequence[tuple[tuple[str, ...], int]]) -> None: ...

@final
class JsonScanner:
    fault: Exception | None
    def __init__(self, fields: Sequence[Field], decoder: RowDecoder) -> None: ...
    def decode(self, ends: Any, data: Any, first: int, count: int) -> tuple[list[Column], list[int]]: ...
