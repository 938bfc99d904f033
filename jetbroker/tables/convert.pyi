from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from jetbroker.tables.column_types import ColumnType, Field

def microseconds(moment: datetime) -> int: ...

class Converter:
    def __init__(self, of: ColumnType) -> None: ...

class Place:
    def __init__(self, field: Field) -> None: ...

class RowDecoder:
    fault: Exception | None
    def __init__(self, fields: Sequence[Field], load: Callable[[bytes], Any], models: bool) -> None: ...
    def decode(self, ends: Any, data: Any, first: int, count: int) -> tuple[list[list[Any]], list[int]]: ...
