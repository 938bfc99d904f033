"""The benchmark of tables: its verdicts, and that what is compared is the same."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import jetbroker
from benchmarks.tables import messages, one_core
from benchmarks.tables.figures import Figure, Figures, Taken, ratio


def test_bounds_from_above_and_below() -> None:
    assert [Figure("x", value, most=2).reached for value in (1.9, 2, 2.1)] == [True, True, False]
    assert [Figure("x", value, least=2).reached for value in (1.9, 2, 2.1)] == [False, True, True]
    assert (Figure("x", 2).reached, Figure("x", 2).bound) == (None, "")
    assert ratio("x", Taken(3, 1), Taken(2, 9), "Parquet", 1.6).value == 1.5


def test_what_misses_its_bound_or_fails_is_told_beside_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    def failing() -> Iterator[Figure]:
        yield Figure("slow", 1, least=2)
        raise OSError("no disk\nat all")

    figures = Figures()
    figures.add_all(failing())
    figures.add_all([Figure("quick", 3, least=2)])
    figures.print("all")
    assert figures.missed == ["slow", "failed: no disk"]
    assert "not reached: slow; failed: no disk" in capsys.readouterr().out


def test_stream_parquet_and_row_source_hold_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    from benchmarks.tables.row_source import RowReader

    monkeypatch.setattr(messages, "SEGMENT_MESSAGES", 300)
    messages.write(tmp_path / "store", 700).close()
    messages.write_parquet(tmp_path / "store", tmp_path / "parquet")
    table = jetbroker.scan(tmp_path / "store", messages.STREAM).read_all()
    assert set(table.column("size").to_pylist()) == {messages.PAYLOAD_BYTES}
    assert pq.read_table(tmp_path / "parquet").sort_by("seq").equals(table)  # pyarrow writes the batches in any order
    reader = RowReader(str(tmp_path / "store"))
    rows = [row for partition in reader.partitions() for row in reader.read(partition)]
    columns = [table.column(name).to_pylist() for name in ("seq", "time", "subject", "data")]
    assert rows == [(seq, time.astimezone(UTC), *rest) for seq, time, *rest in zip(*columns, strict=True)]
    assert one_core.group_by_subject(tmp_path / "store") == one_core.in_pandas(tmp_path / "store", "BENCH") == 700
