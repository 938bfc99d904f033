"""Which columns a table has, and how its rows are parted: by day and by the first tokens of the subject."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from jetbroker.errors import StoreReadError
from spark_jobs.open_table.files import Partition

MOST_TOKENS = 8
MOST_PARTITIONS = 5_000  # of one commit: each is a file


@dataclass(frozen=True)
class Layout:
    """`rows` are the columns that are read from the stream; `tokens` how many of the subject's first part the table."""

    rows: pa.Schema
    tokens: int = 0

    def __post_init__(self) -> None:
        for name in ("day", "time_day", *self.token_names):
            if name in self.rows.names:
                raise StoreReadError(
                    f"a column is named {name!r}, and so is one that parts the table: name it otherwise"
                )

    @property
    def token_names(self) -> list[str]:
        return [f"token_{number}" for number in range(1, self.tokens + 1)]

    @property
    def with_tokens(self) -> pa.Schema:
        """The rows' columns, and those of the tokens."""
        return pa.schema([*self.rows, *(pa.field(name, pa.string()) for name in self.token_names)])

    def split(self, table: pa.Table) -> Iterator[tuple[Partition, pa.Table]]:
        """The rows of each partition, with the columns of `with_tokens`, in their order."""
        for name, tokens in zip(self.token_names, self._tokens_of(table), strict=True):
            table = table.append_column(name, tokens)
        days = table.column("time").cast(pa.date32()).cast(pa.int32())
        keys = table.select(self.token_names).add_column(0, "day", days)
        found = _runs(keys)
        if found.num_rows > 1:
            order = pc.sort_indices(keys.append_column("seq", table.column("seq")), [(name, "ascending") for name in (
                *keys.column_names, "seq")])  # fmt: skip
            table, keys = table.take(order), keys.take(order)
            found = _runs(keys)
        if found.num_rows > MOST_PARTITIONS:
            raise StoreReadError(
                f"--partition-tokens {self.tokens} makes {found.num_rows:,} files of {table.num_rows:,} messages: "
                f"take fewer tokens (at most {MOST_PARTITIONS:,} files at once)"
            )
        start = 0
        for row in found.to_pylist():
            rows = row.pop("count_all")
            yield Partition(row.pop("day"), tuple(row.values())), table.slice(start, rows)
            start += rows

    def _tokens_of(self, table: pa.Table) -> list[pa.ChunkedArray]:
        """The first tokens of each subject; null where it has no more."""
        if not self.tokens:
            return []
        subjects = table.column("subject").combine_chunks().dictionary_encode()
        pattern = "^" + "".join(
            rf"(?:{'.' if number else ''}(?P<t{number}>[^.]+))?".replace("(?:.", r"(?:\.")
            for number in range(self.tokens)
        )
        parts = pc.extract_regex(subjects.dictionary, pattern)
        tokens = [pc.struct_field(parts, f"t{number}") for number in range(self.tokens)]
        return [
            pa.chunked_array([pc.if_else(pc.equal(token, ""), None, token).take(subjects.indices)]) for token in tokens
        ]


def _runs(keys: pa.Table) -> pa.Table:
    """Each key with the number of its rows, in the order of their first ones."""
    return keys.group_by(keys.column_names, use_threads=False).aggregate([([], "count_all")])
