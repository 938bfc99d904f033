"""export_table is killed by kill -9 at many points; its table stays one that readers can trust."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import open_tables
from tests.support.open_tables import Children, of_stream
from tests.support.stores import StreamWriter

pytest.importorskip("pyarrow")
START_S = 1_772_323_200  # 2026-03-01T00:00:00Z
KILLED = -9


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    pytest.importorskip("pyiceberg")
    pytest.importorskip("deltalake")
    with Children() as children:
        yield children


def fill(writer: StreamWriter, count: int) -> None:
    for number in range(writer.last_seq + 1, writer.last_seq + count + 1):
        time_ns = (START_S + number * 3600) * 10**9
        writer.append(b"orders.%d" % (number % 3), b'{"n": %d}' % number, time_ns=time_ns)
    writer.flush()


@pytest.mark.parametrize(("form", "step"), [("parquet", 16), ("delta", 9), ("iceberg", 60)])
def test_a_table_survives_kills_at_any_point(form: str, step: int, children: Children, tmp_path: Path) -> None:
    """Some kills leave nothing done, others commits that the next run builds on; what is committed is right."""
    writer = StreamWriter(tmp_path, "ORDERS")
    fill(writer, 16)
    dest = tmp_path / "table"
    words = (tmp_path, "ORDERS", dest, "--format", form, "--partition-tokens", "2", "--compact", "--keep", "1s")
    assert children.run(*words) == 0
    before = of_stream(tmp_path)
    writer.delete([(1, 9), (12, 12), (15, 16)])
    fill(writer, 16)
    after = of_stream(tmp_path)
    kills = 0
    while code := children.run(*words, die_at=step * (kills + 1) ** 2):
        assert code == KILLED
        kills += 1
        found = open_tables.rows(open_tables.read(form, dest))
        # what was there or is to be, each message once, and nothing between that is missing
        assert [row["seq"] for row in found] == sorted({row["seq"] for row in found})
        assert all(row in before or row in after for row in found)
        last = found[-1]["seq"]
        assert [row for row in after if row["seq"] <= last] == [row for row in found if row in after]
    assert kills >= 3
    assert open_tables.rows(open_tables.read(form, dest)) == after
    if form == "parquet":  # who reads the folder reads what the manifest names
        assert {path.name for path in dest.rglob("*.parquet*")} == open_tables.named(dest)
    writer.close()
