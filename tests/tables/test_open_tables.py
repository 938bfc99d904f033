"""export_table: Parquet, Iceberg and Delta tables that follow a stream, message for message."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.open_tables import named, of_stream, read, rows
from tests.support.process import ROOT
from tests.support.stores import StreamWriter

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")

from pyiceberg.table import StaticTable  # noqa: E402

from spark_jobs import export_table  # noqa: E402
from spark_jobs.open_table import keeper, layout  # noqa: E402

pytestmark = pytest.mark.timeout(300)  # the libraries of tables load slowly on a busy machine
FORMS = ("parquet", "iceberg", "delta")
START_S = 1_772_323_200  # 2026-03-01T00:00:00Z
SUBJECTS = (b"orders.eu.new", b"orders.us", b"returns", b"orders.a/b.=%.x y")
Export = Callable[..., dict[str, Any]]


def fill(writer: StreamWriter, count: int, hours: int = 6) -> None:
    """Each message is `hours` behind the one before."""
    for number in range(writer.last_seq + 1, writer.last_seq + count + 1):
        headers = b"NATS/1.0\r\nA: %d\r\nA: two\r\n\r\n" % number if number % 3 == 0 else b""
        time_ns = (START_S + number * hours * 3600) * 10**9 + number
        writer.append(SUBJECTS[number % 4], b'{"n": %d}' % number, headers, time_ns)
    writer.flush()


@pytest.fixture
def writer(tmp_path: Path) -> Any:
    """30 messages over eight days, in two segments."""
    writer = StreamWriter(tmp_path, "ORDERS")
    fill(writer, 20)
    writer.seal()
    fill(writer, 10)
    yield writer
    writer.close()


@pytest.fixture
def export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Export:
    """Runs the job on the stream ORDERS; what it printed, and the exit code as `code`."""

    def run(dest: object, *words: object) -> dict[str, Any]:
        code = export_table.main([str(tmp_path), "ORDERS", str(dest), "--json", *map(str, words)])
        done = capsys.readouterr()
        return {"code": code, "said": done.err, **json.loads(done.out or "{}")}

    return run


@pytest.mark.parametrize("form", FORMS)
def test_a_table_follows_its_stream(form: str, writer: StreamWriter, export: Export, tmp_path: Path) -> None:
    dest = tmp_path / form
    words = (dest, "--format", form, "--partition-tokens", 2)
    first = export(*words)
    assert (first["code"], first["added"], first["removed"], first["position"]) == (0, 30, 0, 30)
    assert rows(read(form, dest)) == of_stream(tmp_path)
    before = {path.name for path in dest.rglob("jb-*")}
    again = export(*words)
    assert (again["added"], again["removed"], again["position"]) == (0, 0, 30)
    fill(writer, 5)
    assert export(*words)["added"] == 5
    assert before < {path.name for path in dest.rglob("jb-*")}  # what is there is not written again
    assert rows(read(form, dest)) == of_stream(tmp_path)
    writer.delete([(1, 12), (15, 15), (35, 35)])  # a purge, and messages in the middle and at the end
    fill(writer, 3)
    third = export(*words)
    assert (third["added"], third["removed"], third["rows"]) == (3, 14, 24)
    found = read(form, dest)
    assert rows(found) == of_stream(tmp_path)
    if form != "parquet":
        tokens = {(row["subject"], row["token_1"], row["token_2"]) for row in found.to_pylist()}
        assert ("returns", "returns", None) in tokens
        assert ("orders.a/b.=%.x y", "orders", "a/b") in tokens


@pytest.fixture
def hurried_threads() -> Iterator[None]:
    """Threads take turns all the time, as on a busy machine."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hurried_threads")
@pytest.mark.parametrize("form", FORMS)
def test_small_files_become_one_and_old_states_are_let_go(
    form: str, writer: StreamWriter, export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "CHUNK_ROWS", 3)
    dest = tmp_path / form
    days = len({row["time"].date() for row in of_stream(tmp_path)})
    assert export(dest, "--format", form)["files"] == 14 > days
    done = export(dest, "--format", form, "--compact")
    assert done["code"] == 0, done["said"]
    assert (done["files"], done["merged"] > days, done["rows"]) == (days, True, 30)
    assert rows(read(form, dest)) == of_stream(tmp_path)
    assert export(dest, "--format", form, "--compact")["merged"] == 0
    if form == "parquet":
        assert len(list(dest.rglob("*.parquet"))) == days
    if form == "iceberg":
        old = {path.name for path in dest.rglob("*.parquet")}
        words = [str(tmp_path), "ORDERS", str(dest), "--format", form]
        export_table.Export(export_table.arguments(words)).table().forget(datetime.now(UTC))
        assert len(StaticTable.from_metadata(str(dest)).snapshots()) == 1
        assert len(old) > len(list(dest.rglob("*.parquet"))) == days
        assert rows(read(form, dest)) == of_stream(tmp_path)


def test_files_that_go_are_found_by_one_thread_whatever_pyiceberg_did_before() -> None:
    program = """
from pyiceberg.utils.concurrent import ExecutorFactory
ExecutorFactory.get_or_create()
import spark_jobs.open_table.iceberg_table
print(ExecutorFactory.get_or_create()._max_workers)
"""
    assert subprocess.check_output([sys.executable, "-c", program], cwd=ROOT, text=True) == "1\n"


def test_payloads_become_typed_columns(writer: StreamWriter, export: Export, tmp_path: Path) -> None:
    words = ("--format", "iceberg", "--decode", "n short, m decimal(9,2)", "--columns", "subject,n,m,_corrupt")
    assert export(tmp_path / "table", *words)["code"] == 0
    table = read("iceberg", tmp_path / "table")
    assert table.schema.names == ["seq", "time", "subject", "n", "m", "_corrupt"]
    assert table.sort_by("seq").column("n").to_pylist() == list(range(1, 31))


def test_only_subjects_that_match_come(writer: StreamWriter, export: Export, tmp_path: Path) -> None:
    done = export(tmp_path / "table", "--subject", "orders.>")
    assert (done["rows"], done["position"]) == (22, 30)
    assert rows(read("parquet", tmp_path / "table")) == of_stream(tmp_path, subject="orders.>")


def test_duckdb_and_arrow_read_the_folders(writer: StreamWriter, export: Export, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    dest = tmp_path / "table"
    export(dest, "--partition-tokens", 2)
    query = "SELECT day::VARCHAR, token_2, count(*) FROM read_parquet(?, hive_partitioning = true) GROUP BY ALL"
    counted = duckdb.execute(query, [f"{dest}/day=*/**/*.parquet"]).fetchall()
    assert sum(count for *_, count in counted) == 30
    assert ("2026-03-02", "eu", 1) in counted and {token for _, token, _ in counted} == {"eu", "us", "a/b", None}
    dataset = pytest.importorskip("pyarrow.dataset")
    assert dataset.dataset(dest, partitioning="hive").count_rows() == 30


def test_iceberg_readers_open_only_the_days_they_need(writer: StreamWriter, export: Export, tmp_path: Path) -> None:
    export(tmp_path / "table", "--format", "iceberg", "--partition-tokens", 1)
    table = StaticTable.from_metadata(str(tmp_path / "table"))
    scan = table.scan("time >= '2026-03-08T00:00:00+00:00' and token_1 = 'orders'")
    assert {task.file.partition[0] for task in scan.plan_files()} == {20520}
    assert scan.to_arrow().column("seq").to_pylist() == [28, 29]
    assert [str(snapshot.summary["jetbroker.position"]) for snapshot in table.snapshots() if snapshot.summary] == ["30"]


def test_a_damaged_message_is_told_and_a_copy_of_it_is_kept(
    writer: StreamWriter, export: Export, tmp_path: Path
) -> None:
    export(tmp_path / "before")
    segment = sorted((tmp_path / "jetstream").rglob("*.seg"))[0]
    segment.write_bytes(segment.read_bytes().replace(b'{"n": 7}', b'{"n": 8}'))
    done = export(tmp_path / "after")
    assert (done["code"], done["rows"], done["damaged"]) == (1, 29, [[7, 7]])
    assert "these messages cannot be read, and are not in the table: 7" in done["said"]
    assert export(tmp_path / "strict", "--fail-on-data-loss")["code"] == 2
    writer.delete([(9, 9)])
    writer.flush()
    kept = export(tmp_path / "before")
    assert (kept["code"], kept["removed"], kept["rows"]) == (0, 1, 29)
    segment.unlink()  # the whole segment is lost
    assert export(tmp_path / "before")["rows"] == 29


def test_what_an_interrupted_run_left_goes_and_nothing_else(
    writer: StreamWriter, export: Export, tmp_path: Path
) -> None:
    dest = tmp_path / "table"
    export(dest)
    folder = next(dest.glob("day=*"))
    left = folder / f"jb-{1:020d}-0123456789ab.parquet"
    others = [folder / "theirs.parquet", folder / ".theirs.parquet.part"]
    for path in (left, folder / f".{left.name}.part", *others):
        path.write_bytes(b"")
    export(dest)
    assert left.exists()  # the run before came to its end: nothing is looked for
    (dest / "_jetbroker" / "lock").write_text("at work\n")
    assert export(dest)["code"] == 0
    assert {path.name for path in folder.iterdir()} - named(dest) == {path.name for path in others}


def test_retention_that_overtakes_a_run_does_not_end_it(
    writer: StreamWriter, export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = export_table.Export._opened
    stale = [opened(export_table.Export(export_table.arguments([str(tmp_path), "ORDERS", str(tmp_path / "table")])))]
    writer.delete([(1, 20)])
    writer.flush()
    sorted((tmp_path / "jetstream").rglob("*.seg"))[0].unlink()
    monkeypatch.setattr(export_table.Export, "_opened", lambda self: stale.pop() if stale else opened(self))
    assert export(tmp_path / "table")["rows"] == 10
    assert rows(read("parquet", tmp_path / "table")) == of_stream(tmp_path)
    assert not stale


def test_another_catalog_is_another_table(writer: StreamWriter, export: Export, tmp_path: Path) -> None:
    words = (tmp_path / "table", "--format", "iceberg", "--table", "lake.orders", "--catalog")
    catalog = f"sqlite:////{tmp_path}/lake.db"
    assert export(*words, catalog)["rows"] == 30
    assert rows(read("iceberg", tmp_path / "table")) == of_stream(tmp_path)
    refused = export(*words, "")
    assert (refused["code"], "was begun with --catalog" in refused["said"]) == (2, True)
    assert export(*words, catalog)["added"] == 0


def test_two_do_not_write_at_once(writer: StreamWriter, export: Export, tmp_path: Path) -> None:
    from spark_jobs.open_table.identity import only_writer

    with only_writer(tmp_path / "table"):
        refused = export(tmp_path / "table")
    assert (refused["code"], refused["said"].count("\n")) == (2, 1)
    assert "another export_table is writing into" in refused["said"]


def mistaken(kind: str, store: Path) -> list[object]:
    """Words of a run that makes no sense."""
    dest = store / "table"
    if kind == "options":
        return [dest, "--partition-tokens", 1]
    if kind == "format":
        return [dest, "--format", "iceberg"]
    if kind == "file":
        (store / "file").write_text("")
        return [store / "file" / "table"]
    if kind == "foreign":
        (store / "foreign").mkdir()
        (store / "foreign" / "a.txt").write_text("")
        return [store / "foreign"]
    words: dict[str, list[object]] = {
        "url": ["s3://bucket/table"],
        "token": [store / "long", "--partition-tokens", 1],
        "many": [store / "many", "--partition-tokens", 2],
        "column": [store / "new", "--decode", "token_1 long", "--partition-tokens", 1],
        "catalog": [store / "new", "--format", "iceberg", "--catalog", "sqlite:////nowhere/at/all.db"],
        "unknown catalog": [store / "new", "--format", "iceberg", "--catalog", "none"],
        "question": [store / "a?b", "--format", "iceberg"],
        "both": [store / "new", "--decode", "n long", "--model", "a:B"],
    }
    return words[kind]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("options", "was begun with --partition-tokens 0, not 1: say the same, or name another folder"),
        ("format", "is a table of the format parquet"),
        ("file", "cannot be written to: Not a directory"),
        ("foreign", "is not empty and no table of export_table"),
        ("url", "DEST is a folder of this machine"),
        ("token", "a subject's token is too long for the name of a folder"),
        ("many", "take fewer tokens (at most 3 files at once)"),
        ("column", "a column is named 'token_1'"),
        ("catalog", "the catalog cannot be used"),
        ("unknown catalog", "the catalog cannot be used"),
        ("question", "cannot have ?, # or % in its name"),
        ("both", "give --decode or --model, not both"),
    ],
)
def test_a_mistake_is_one_sentence(
    kind: str, said: str, writer: StreamWriter, export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(tmp_path / "table")
    if kind == "token":
        writer.append(b"x" * 300, b"")
        writer.flush()
    if kind == "many":
        monkeypatch.setattr(layout, "MOST_PARTITIONS", 3)
    done = export(*mistaken(kind, tmp_path))
    assert (done["code"], done["said"].count("\n")) == (2, 1), done["said"]
    assert said in done["said"]
    assert "Traceback" not in done["said"]


@pytest.mark.parametrize(("form", "library"), [("iceberg", "pyiceberg"), ("delta", "deltalake")])
def test_a_missing_library_is_named(
    form: str, library: str, writer: StreamWriter, export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"spark_jobs.open_table.{form}_table", raising=False)
    done = export(tmp_path / "table", "--format", form)
    assert done["said"] == f"export_table: --format {form} needs {library}: pip install 'jetbroker[{form}]'\n"


def test_a_stream_that_is_another_now_is_refused(tmp_path: Path, export: Export) -> None:
    def made(count: int, stream_id: int, name: str = "ORDERS") -> None:
        writer = StreamWriter(tmp_path, name, stream_id=stream_id)
        fill(writer, count)
        writer.close()

    made(5, 1)
    dest = tmp_path / "table"
    assert export(dest)["code"] == 0
    made(3, 1)
    shorter = export(dest)
    assert (shorter["code"], "up to sequence 5, and the stream ends at 3" in shorter["said"]) == (2, True)
    made(9, 2)
    anew = export(dest)
    assert (anew["code"], "was made anew since" in anew["said"]) == (2, True)
    made(5, 3, "OTHER")
    assert export_table.main([str(tmp_path), "OTHER", str(dest)]) == 2


def test_unknown_stores_and_streams_are_named(
    writer: StreamWriter, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export_table.main([str(tmp_path / "none"), "ORDERS", str(tmp_path / "table")]) == 2
    assert export_table.main([str(tmp_path), "NONE", str(tmp_path / "table")]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert "no such directory" in first and "there is ORDERS" in second
    assert not (tmp_path / "table").exists()


def test_it_runs_again_and_again_until_it_is_ended(writer: StreamWriter, tmp_path: Path) -> None:
    """As a process of its own, which starts no Spark."""
    command = [sys.executable, "-m", "spark_jobs.export_table", str(tmp_path), "ORDERS", str(tmp_path / "table")]
    with subprocess.Popen(
        [*command, "--json", "--every", "1s"], cwd=tmp_path, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PATH": str(tmp_path), "JAVA_HOME": ""},
    ) as process:  # fmt: skip
        assert process.stdout
        assert json.loads(process.stdout.readline())["position"] == 30
        fill(writer, 2)
        while json.loads(process.stdout.readline())["position"] < 32:
            pass
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
    assert process.returncode == 0
    assert rows(read("parquet", tmp_path / "table")) == of_stream(tmp_path)


STEP = st.one_of(
    st.tuples(st.just("fill"), st.integers(1, 9)),
    st.tuples(st.just("delete"), st.integers(1, 40), st.integers(0, 6)),
    st.tuples(st.just("purge"), st.integers(1, 40), st.just(0)),
    st.tuples(st.just("seal")),
    st.tuples(st.just("export"), st.booleans()),
    st.tuples(st.just("die"), st.integers(1, 12)),
)


class Died(BaseException):
    """Stands for a kill."""


@settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEP, min_size=3, max_size=10))
def test_whatever_happened_the_table_is_the_stream(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[Any, ...]]
) -> None:
    store = tmp_path_factory.mktemp("store")
    writer = StreamWriter(store, "ORDERS")
    fill(writer, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keeper, "CHUNK_ROWS", 4)
        patch.setattr(keeper, "COMMIT_FILES", 1)
        for step in [*history, ("export", True)]:
            play(writer, store, *step)
    assert rows(read("parquet", store / "table")) == of_stream(store)
    assert {path.name for path in (store / "table").rglob("*.parquet*")} == named(store / "table")
    writer.close()


def play(writer: StreamWriter, store: Path, what: str, *values: Any) -> None:
    """One step of a history."""
    words = [str(store), "ORDERS", str(store / "table"), "--partition-tokens", "1", "--json"]
    if what == "fill":
        fill(writer, values[0])
    elif what in ("delete", "purge"):
        first = 1 if what == "purge" else min(values[0], writer.last_seq)
        writer.delete([(first, min(values[0] + values[1], writer.last_seq))])
        writer.flush()
    elif what == "seal" and writer.slots:  # one without a message would have the name of the next
        writer.seal()
    elif what == "export":
        assert export_table.main([*words, "--compact"] if values[0] else words) == 0
    elif what == "die":
        left = values[0]

        def die(*_: object) -> None:
            nonlocal left
            left -= 1
            if not left:
                raise Died

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("spark_jobs.open_table.files.sync_folder", die)
            try:
                export_table.main([*words, "--compact"])
            except Died:
                pass
