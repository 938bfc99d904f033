"""Through the JVM as well: what Spark reads equals what a consumer reads (see tests/tables/test_equality.py)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.every_reader import SEGMENT_BYTES, Step, compare
from tests.support.process import small_segments

pytestmark = pytest.mark.spark
HISTORY: list[Step] = [
    ("publish", 30, 4), ("batch", 5, 1), ("read", 0, 0), ("expire", 2, 0), ("delete", 15, 3), ("publish", 30, 1),
    ("purge", 1, 3), ("publish", 30, 2), ("batch", 3, 0), ("publish", 30, 9), ("delete", 40, 5),
]  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
def test_batches_streams_and_shipped_stores_give_what_a_consumer_gets(spark: Any, tmp_path: Path, packed: bool) -> None:
    with small_segments(tmp_path / "store", SEGMENT_BYTES) as broker:
        segments = asyncio.run(compare(broker, tmp_path / "store", tmp_path, HISTORY, packed, "parquet", spark))
    assert segments and set(segments) == {packed}
