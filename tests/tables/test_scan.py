"""`jetbroker.scan`: streams as Arrow readers, for pandas, Polars and DuckDB."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import jetbroker
from jetbroker.errors import StoreReadError
from tests.support.stores import StreamWriter

pa = pytest.importorskip("pyarrow")

BEGIN = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)  # of StreamWriter's clock; message n is n ms later
SUBJECTS = [b"orders.eu", b"orders.us", b"returns.eu"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """30 messages in three segments, of which 5 and 6 are deleted; the last segment is not sealed."""
    writer = StreamWriter(tmp_path, "ORDERS")
    for number in range(1, 31):
        writer.append(SUBJECTS[number % 3], b'{"n": %d, "item": {"name": "i%d"}}' % (number, number))
        if number in (10, 20):
            writer.seal()
    writer.delete([(5, 6)])
    writer.close()
    return tmp_path


def seqs(reader: Any) -> list[int]:
    return [seq for batch in reader for seq in batch.column("seq").to_pylist()]


def test_a_scan_is_a_reader_of_all_columns(store: Path) -> None:
    reader = jetbroker.scan(store, "ORDERS")
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema.names == ["stream", "seq", "time", "subject", "headers", "data", "size", "domain"]
    assert seqs(reader) == [*range(1, 5), *range(7, 31)]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"start_seq": 9, "end_seq": 12}, [9, 10, 11, 12]),
        ({"subject": "returns.*", "end_seq": 12}, [2, 8, 11]),
        ({"start_time": BEGIN + timedelta(milliseconds=28)}, [28, 29, 30]),
        ({"end_time": BEGIN + timedelta(milliseconds=3)}, [1, 2]),
        ({"start_time": "2023-11-14T22:13:20.029Z"}, [29, 30]),
        ({"start_time": 1_700_000_000_029, "end_time": "1700000000030"}, [29]),
        ({"start_time": BEGIN.replace(tzinfo=None) + timedelta(milliseconds=30)}, [30]),
        ({"start_time": 10**30}, []),
        ({"start_seq": -5, "end_seq": 2**70, "end_time": BEGIN}, []),
    ],
)
def test_rows_are_chosen_by_sequence_time_and_subject(store: Path, asked: dict[str, Any], expected: list[int]) -> None:
    assert seqs(jetbroker.scan(store, "ORDERS", columns="seq", **asked)) == expected


def test_columns_come_in_the_order_asked_for(store: Path) -> None:
    reader = jetbroker.scan(store, "ORDERS", columns="item_name, seq", json="n long, item.name string", end_seq=1)
    assert reader.read_all().to_pylist() == [{"item_name": "i1", "seq": 1}]


def test_typed_columns_stand_for_the_payload(store: Path) -> None:
    reader = jetbroker.scan(store, "ORDERS", json="n long", mode="failing")
    assert reader.schema.names == ["stream", "seq", "time", "subject", "headers", "size", "domain", "n"]
    table = reader.read_all()
    assert table.column("n") == table.column("seq")


def test_dropped_rows_leave_no_empty_batches(store: Path) -> None:
    assert [batch.num_rows for batch in jetbroker.scan(store, "ORDERS", json="n string", mode="dropping")] == []


def test_batches_are_read_one_by_one_and_no_larger_than_asked(store: Path) -> None:
    """A scan that is left after its first batch has not looked at later segments."""
    reader = jetbroker.scan(store, "ORDERS", columns=["seq"], batch_rows=4)
    assert reader.read_next_batch().num_rows == 4
    for path in sorted((store / "jetstream").rglob("*.seg"))[1:]:
        path.unlink()
    assert reader.read_next_batch().num_rows == 4
    with pytest.raises(StoreReadError, match="removed after this read was planned"):
        reader.read_all()


def test_a_payload_that_does_not_validate_ends_a_failing_scan(store: Path) -> None:
    with pytest.raises(StoreReadError, match=r"stream 'ORDERS', sequence 1: .* n: 1 is no string"):
        jetbroker.scan(store, "ORDERS", json="n string", mode="failing").read_all()


def test_damage_is_skipped_or_an_error(store: Path) -> None:
    path = sorted((store / "jetstream").rglob("*.seg"))[1]
    path.write_bytes(path.read_bytes().replace(b'"n": 15', b'"n": 75'))
    assert 15 not in seqs(jetbroker.scan(store, "ORDERS", columns="seq,data"))
    with pytest.raises(StoreReadError, match="the messages 15 cannot be read; fail_on_data_loss=False reads on"):
        jetbroker.scan(store, "ORDERS", columns="seq,data", fail_on_data_loss=True).read_all()
    assert seqs(jetbroker.scan(store, "ORDERS", columns="seq,data", end_seq=10, fail_on_data_loss=True))


@pytest.mark.parametrize(
    ("stream", "asked", "said"),
    [
        ("NONE", {}, r"no stream 'NONE' .*there is ORDERS"),
        ("ORDERS", {"columns": "seq,sequence"}, r"no column 'sequence'; there are stream, seq"),
        ("ORDERS", {"columns": "seq,seq"}, r"named twice"),
        ("ORDERS", {"columns": "n"}, r"no column 'n'"),
        ("ORDERS", {"subject": "a..b"}, r"not a valid subject pattern"),
        ("ORDERS", {"start_time": "yesterday"}, r"start_time: 'yesterday' is neither"),
        ("ORDERS", {"end_seq": "5"}, r"end_seq: '5' is not a sequence number"),
        ("ORDERS", {"batch_rows": 0}, r"batch_rows: 0"),
        ("ORDERS", {"json": "n log"}, r"'log' is no type"),
        ("ORDERS", {"domain": "hub"}, r"names no domain"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(store: Path, stream: str, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(StoreReadError, match=said):
        jetbroker.scan(store, stream, **asked)


def test_pandas_takes_a_scan(store: Path) -> None:
    pytest.importorskip("pandas")
    frame = jetbroker.scan(store, "ORDERS", columns="subject,size").read_pandas()
    assert frame.groupby("subject")["size"].count().to_dict() == {"orders.eu": 9, "orders.us": 10, "returns.eu": 9}


def test_polars_takes_a_scan(store: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.from_arrow(jetbroker.scan(store, "ORDERS", columns="subject,n", json="n long"))
    assert frame.filter(polars.col("subject") == "orders.us")["n"].sum() == sum(range(1, 31, 3))


def test_duckdb_takes_a_scan(store: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    orders = jetbroker.scan(store, "ORDERS", json="n long, item.name string")
    with duckdb.connect() as connection:
        connection.register("orders", orders)
        assert connection.sql("SELECT count(*), max(n), min(item_name) FROM orders").fetchall() == [(28, 30, "i1")]


def test_what_is_missing_is_named_and_the_package_itself_needs_no_arrow() -> None:
    script = (
        "import sys; sys.modules['pyarrow'] = None; import jetbroker\n"
        "assert 'jetbroker.tables.scanning' not in sys.modules\n"
        "try: jetbroker.scan('x', 'y')\n"
        "except jetbroker.errors.StoreReadError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=50)
    assert (done.stdout, done.stderr) == ("jetbroker.scan: this needs pyarrow: pip install 'jetbroker[arrow]'\n", "")
