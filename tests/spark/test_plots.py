"""--plot: pictures of what jobs found, as PNG and as HTML that needs nothing else."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nats
import pytest
from nats.js.api import ConsumerConfig, StreamConfig

from spark_jobs import consumer_lag, latency_report, plots, stream_report, windowed_counts
from tests.support import process
from tests.support.stores import StreamWriter

pytest.importorskip("matplotlib")
START_S = 1_772_323_200  # 2026-03-01T00:00:00Z
ODD = "$KV.<b>&.x$"  # neither a formula nor HTML
JOBS: list[tuple[Any, list[str]]] = [
    (stream_report, ["--interval", "1m"]),
    (windowed_counts, ["--window", "1m", "--depth", "3"]),
    (latency_report, ["--field", "at", "--window", "1m"]),
    (latency_report, ["--field", "at", "--by", "subject", "--depth", "3"]),
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """200 messages, one a second, each two seconds behind its event."""
    writer = StreamWriter(tmp_path, "ORDERS")
    for i in range(200):
        subject = (b"orders.eu", ODD.encode())[i % 2]
        writer.append(subject, b'{"at": %d}' % ((START_S + i - 2) * 1000), time_ns=(START_S + i) * 10**9)
    writer.close()
    return tmp_path


def svgs(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, re.DOTALL)]


@pytest.mark.parametrize(("job", "more"), JOBS)
def test_a_page_holds_its_pictures_and_numbers(
    job: Any, more: list[str], store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "found.html"
    words = [str(store), "ORDERS", *more]
    assert job.main(words) == 0
    without = capsys.readouterr().out
    assert job.main([*words, "--plot", str(page)]) == 0
    shown = capsys.readouterr().out
    assert re.sub(r"read in .*", "", shown) == re.sub(r"read in .*", "", without)  # the table stays
    text = page.read_text()
    assert len(svgs(text)) == (3 if job is stream_report else 1)
    assert not re.search(r"(src|href)=[\"'](?!#)|url\((?!#)|@import", text)  # nothing is loaded
    assert "<b>" not in text
    if "subject" in more or job is not latency_report:
        assert "$KV.&lt;b&gt;&amp;.x$" in text


def test_the_numbers_are_those_of_the_report(store: Path, tmp_path: Path) -> None:
    page = tmp_path / "found.html"
    windowed_counts.main([str(store), "ORDERS", "--window", "1m", "--plot", str(page)])
    rows = re.findall(r"<tr>(<td>.*?)</tr>", page.read_text())
    cells = [re.findall(r"<td>(.*?)</td>", row) for row in rows]
    assert cells == [
        [f"2026-03-01 00:0{minute}:00", *(["30"] * 2 if minute < 3 else ["10"] * 2)] for minute in range(4)
    ]


@pytest.mark.parametrize(("job", "more"), JOBS[:2])
def test_a_picture_is_a_png(job: Any, more: list[str], store: Path, tmp_path: Path) -> None:
    picture = tmp_path / "found.png"
    assert job.main([str(store), "ORDERS", *more, "--plot", str(picture)]) == 0
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(content[16:20], "big") == 1200  # pixels wide


async def test_the_lag_of_consumers(tmp_path: Path) -> None:
    with process.jetbroker("-js", "-sd", str(tmp_path)) as server:
        client = await nats.connect(server.url)
        stream = client.jetstream(timeout=60)
        await stream.add_stream(StreamConfig("ORDERS", subjects=["orders.>"]))
        for name in ("near", "far"):
            await stream.add_consumer("ORDERS", ConsumerConfig(durable_name=name))
        await stream.publish("orders.new", b"")
        await client.close()
    page = tmp_path / "lag.html"
    assert consumer_lag.main([str(tmp_path), "ORDERS", "--plot", str(page)]) == 0
    assert "<tr><td>far</td><td>0</td><td>1</td></tr>" in page.read_text()


def test_nothing_to_show_is_shown(tmp_path: Path) -> None:
    StreamWriter(tmp_path, "EMPTY").close()
    page = tmp_path / "found.html"
    for job, more in JOBS:
        assert job.main([str(tmp_path), "EMPTY", *more, "--plot", str(page)]) == 0
        assert "there is nothing to show" in page.read_text()


def test_many_subjects_are_put_together() -> None:
    found = plots.most({f"s{number:02}": [number, 1] for number in range(15)})
    assert list(found) == [*(f"s{number:02}" for number in range(5, 15)), "others"]
    assert found["others"] == [0 + 1 + 2 + 3 + 4, 5]


def test_what_is_too_much_for_a_picture_is_cut_and_told(tmp_path: Path) -> None:
    rates = plots.OverTime("Rate", "1/s", range(2500), {"rate": list(range(2500))}, 1)
    sizes = plots.ByName("Sizes", "bytes", [f"n{number}" for number in range(25)], {"bytes": list(range(25))})
    plots.save(str(tmp_path / "found.html"), "", [rates, sizes])
    text = (tmp_path / "found.html").read_text()
    assert "Rate (the last 2,000 of 2,500 lines)" in text and "Sizes (the first 20 of 25)" in text
    assert text.count("<tr><td>") == 2020


@pytest.mark.parametrize(
    ("name", "said"), [("found.pdf", "has to end in .png or .html"), ("none/found.png", "there is no folder")]
)
def test_a_name_that_makes_no_sense(
    name: str, said: str, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert windowed_counts.main([str(store), "ORDERS", "--plot", str(tmp_path / name)]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert said in told.err


def test_a_missing_library_is_named(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert stream_report.main([str(store), "ORDERS", "--plot", str(tmp_path / "found.png")]) == 2
    assert capsys.readouterr().err == "stream_report: --plot needs matplotlib: pip install 'jetbroker[plot]'\n"
