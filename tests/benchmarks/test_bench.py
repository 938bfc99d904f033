"""The benchmarks measure what they say: the report's arithmetic, and the load generator against a real broker."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks import embedded
from benchmarks.cases import Case, Row, all_cases
from benchmarks.report import Results, earlier, headings, machine_facts, table_rows, write_markdown
from benchmarks.run import select_cases, with_before
from benchmarks.servers import JETBROKER, NATS_SERVER, BenchmarkError, build_loadgen, run_loadgen
from tests.support.process import ServerProcess


def case(figure: str, must: float | None = None, at_most: float | None = None) -> Case:
    return Case("some", lambda *_: {}, (Row(figure, "title", must=must, at_most=at_most),))


def cells(some: Case, ours: list[float], theirs: list[float]) -> tuple[str, ...]:
    results = Results()
    for variant, samples in ((JETBROKER, ours), (NATS_SERVER, theirs)):
        for sample in samples:
            results.add(some, variant, {some.rows[0].figure: sample})
    return table_rows([some], results)[0]


def test_medians_and_the_ratio_to_reach() -> None:
    assert cells(case("rate", must=2.0), [1000, 9000, 4000], [2000]) == (
        "title", "4,000 msg/s", "2,000 msg/s", "2.00", "2", "yes"
    )  # fmt: skip
    assert cells(case("rate", must=2.5), [4000], [2000])[-1] == "NO"


def test_where_less_is_better_the_ratio_is_turned_round() -> None:
    assert cells(case("median_us"), [50.0], [100.0])[1:4] == ("50.0 µs", "100.0 µs", "2.00")


def test_a_bound_for_our_own_figure_needs_no_second_server() -> None:
    assert cells(case("ready_s", at_most=1.0), [0.4], [])[1:] == ("0.400 s", "-", "-", "<= 1.000 s", "yes")
    assert cells(case("ready_s", at_most=1.0), [1.4], [])[-1] == "NO"


def test_another_checkout_is_compared(tmp_path: Path) -> None:
    some, results = case("rate", must=2.0), Results()
    for variant, sample in ((JETBROKER, 4000.0), (NATS_SERVER, 2000.0), (earlier(JETBROKER, tmp_path), 3200.0)):
        if variant is not None:
            results.add(some, variant, {"rate": sample})
    lines = table_rows([some], results, tmp_path)
    assert lines[0][1:] == ("4,000 msg/s", "2,000 msg/s", "2.00", "3,200 msg/s", "1.25", "2", "yes")
    assert headings(lines) == ("case", "jetbroker", "nats-server", "ratio", "before", "to before", "must reach", "")
    assert earlier(NATS_SERVER, tmp_path) is None
    assert with_before([JETBROKER, NATS_SERVER], tmp_path) == [earlier(JETBROKER, tmp_path), JETBROKER, NATS_SERVER]


def test_a_failure_is_shown_not_hidden(tmp_path: Path) -> None:
    some, results = case("rate", must=2.0), Results()
    results.failures[some.name, JETBROKER] = "fell over"
    lines = table_rows([some], results)
    assert lines[0][1:] == ("failed", "-", "-", "2", "")
    write_markdown(tmp_path / "R.md", lines, results, machine_facts(None), 3)
    assert "- some on jetbroker: fell over" in (tmp_path / "R.md").read_text()


def test_cases_are_chosen_by_name_or_part_of_it() -> None:
    assert [found.name for found in select_cases(["memory"])] == ["memory"]
    assert {found.name for found in select_cases(["core-1"])} == {
        found.name for found in all_cases() if found.name.startswith("core-1")
    }
    assert len(select_cases(None)) == len(all_cases())


@pytest.fixture(scope="module")
def loadgen() -> Path:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    return build_loadgen()


def test_core_load_delivers_everything(loadgen: Path, broker: ServerProcess) -> None:
    arguments = ["core", "--pubs", "3", "--subs", "2", "--subjects", "10", "--size", "100", "--msgs", "50001"]
    arguments += ["--pid", str(broker.pid)]
    result = run_loadgen(loadgen, broker.port, arguments, timeout_s=30)
    assert result["delivered"] == 100_002
    assert result["cpu_ns"] > 0
    assert result["rate"] > 0


@pytest.mark.parametrize("inflight", ["1", "100"])
@pytest.mark.parametrize("storage", ["file", "memory"])
def test_every_publish_is_acknowledged(loadgen: Path, broker: ServerProcess, storage: str, inflight: str) -> None:
    arguments = ["jspub", "--storage", storage, "--inflight", inflight, "--size", "50", "--msgs", "300"]
    assert run_loadgen(loadgen, broker.port, arguments, timeout_s=30)["msgs"] == 300


@pytest.mark.parametrize("ack", ["explicit", "none"])
def test_every_stored_message_is_pulled_once(loadgen: Path, broker: ServerProcess, ack: str) -> None:
    arguments = ["jspull", "--ack", ack, "--batch", "50", "--size", "50", "--msgs", "1234"]
    assert run_loadgen(loadgen, broker.port, arguments, timeout_s=30)["msgs"] == 1234


def test_round_trips_are_sampled(loadgen: Path, broker: ServerProcess) -> None:
    result = run_loadgen(loadgen, broker.port, ["reqrep", "--msgs", "200", "--size", "10"], timeout_s=30)
    assert 0 < result["median_us"] <= result["p99_us"]


def test_idle_connections_are_weighed(loadgen: Path, broker: ServerProcess) -> None:
    result = run_loadgen(loadgen, broker.port, ["idle", "--conns", "50", "--pid", str(broker.pid)], timeout_s=30)
    assert result["rss_before"] > 1_000_000
    assert result["conns"] == 50


def test_a_server_that_is_not_there_is_an_error(loadgen: Path) -> None:
    with pytest.raises(BenchmarkError, match="connect to"):
        run_loadgen(loadgen, 1, ["core"], timeout_s=5)


def test_every_key_is_put_got_and_watched(loadgen: Path, broker: ServerProcess) -> None:
    arguments = ["kv", "--subjects", "500", "--msgs", "300", "--conns", "3", "--inflight", "50", "--size", "20"]
    result = run_loadgen(loadgen, broker.port, arguments, timeout_s=30)
    assert min(result["puts"], result["gets"], result["watched"]) > 0


def test_a_fast_batch_is_committed(loadgen: Path, broker: ServerProcess) -> None:
    arguments = ["fastbatch", "--msgs", "2000", "--inflight", "500", "--batch", "250", "--size", "20"]
    assert run_loadgen(loadgen, broker.port, arguments, timeout_s=30)["msgs"] == 2000


def test_starts_within_a_test_are_measured_in_new_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert embedded.main(["--processes", "1"]) in (0, 1)  # the bound may break on a busy machine
    lines = capsys.readouterr().out.splitlines()
    steps = ["ms,", "import", "first", "reset", "kill", "next", "first"]
    assert [line.split()[0] for line in lines] == steps
