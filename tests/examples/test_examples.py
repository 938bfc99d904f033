"""Each program of examples/ does what it says, against a real broker. The one for Spark is in tests/spark."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import nats
import pytest

from jetbroker.testing import EmbeddedBroker, embedded
from tests.support.examples import EXAMPLES, example

pytestmark = pytest.mark.timeout(300)  # a pytest within a pytest, on a machine that may be busy
DEAD = [("jobs.print.1", "max_deliver")]


@pytest.fixture(scope="module")
def shared() -> Iterator[EmbeddedBroker]:
    with embedded() as broker:
        yield broker


@pytest.fixture
def url(shared: EmbeddedBroker) -> Iterator[str]:
    yield shared.url
    shared.reset()


def test_each_example_is_in_the_list() -> None:
    listed = set(re.findall(r"^\| \[[^]]+\]\(([^)]+)\)", (EXAMPLES / "README.md").read_text(), re.MULTILINE))
    there = {path.name for path in EXAMPLES.iterdir() if path.name not in ("README.md", "__pycache__")}
    assert listed == there


async def test_request_reply(url: str) -> None:
    program = example("request_reply")
    client = await nats.connect(url)
    with pytest.raises(nats.errors.NoRespondersError):
        await program.ask(client, 1)
    for name in ("ann", "bob"):
        await program.work(client, name)
    answers = [await program.ask(client, count) for count in range(40)]
    assert [answer["price"] for answer in answers] == [2.5 * count for count in range(40)]
    assert {answer["worker"] for answer in answers} == {"ann", "bob"}
    assert "TypeError" in (await program.ask(client, "many"))["error"]
    await client.close()
    await program.main(url)


async def test_work_queue(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = example("work_queue")
    await program.main(url)
    said = capsys.readouterr().out
    assert f"2 jobs done; dead: {DEAD}" in said
    assert said.count("jobs.print.1, try") == program.TRIES
    client = await nats.connect(url)
    assert (await client.jetstream().stream_info("JOBS")).state.messages == 0
    await client.close()


async def test_kv_settings(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    await example("kv_settings").main(url)
    assert capsys.readouterr().out.startswith("{'workers': '13'} after [b'2', ")


async def test_fastapi_service(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_URL", url)
    app = example("fastapi_service").app
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://test") as http:
        for seq, count in enumerate((1, 2), 1):
            answer = await http.put("/orders/7", json={"item": "book", "count": count})
            assert (answer.status_code, answer.json()) == (201, {"seq": seq})
        assert (await http.get("/orders/7")).json() == {"item": "book", "count": 2}
        assert (await http.get("/orders/8")).status_code == 404
        assert (await http.put("/orders/7", json={"item": "book", "count": 0})).status_code == 422


async def test_analysis(tmp_path: Path) -> None:
    program = example("analysis")
    async with embedded(store_dir=tmp_path) as broker:
        client = await nats.connect(broker.url)
        context = client.jetstream()
        await context.add_stream(name="ORDERS", subjects=["orders.>"])
        for subject, item, price in (("eu.1", "book", 12.5), ("us.1", "book", 10), ("eu.2", "pen", 2)):
            await context.publish(f"orders.{subject}", json.dumps({"item": item, "price": price}).encode())
        await client.close()
    store = str(tmp_path)
    assert program.turnover_with_pandas(store).to_dict() == {"book": 22.5, "pen": 2.0}
    assert program.turnover_with_polars(store).rows() == [("book", 12.5), ("pen", 2.0)]
    assert program.dearest_with_duckdb(store, 2) == [(1, "book", 12.5), (2, "book", 10.0)]


def configured(text: str, replaced: dict[str, str]) -> str:
    """An example's configuration with places of the test's."""
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    return text


async def test_hub_and_leaf(capsys: pytest.CaptureFixture[str]) -> None:
    folder = EXAMPLES / "hub_and_leaf"
    hub_text = configured((folder / "hub.conf").read_text(), {"127.0.0.1:7422": "127.0.0.1:-1"})
    async with embedded(config=hub_text) as hub:
        (place,) = re.findall(r"Listening for leafnode connections on (\S+)", "\n".join(hub.log))
        leaf_text = configured((folder / "leaf.conf").read_text(), {"127.0.0.1:7422": place})
        async with embedded(config=leaf_text) as leaf:
            await example("hub_and_leaf/copy_readings").main(hub.url, leaf.url)
    assert capsys.readouterr().out == "the hub has readings.0 b'21.5'\n"


def test_pytest_project(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(EXAMPLES / "pytest_project", project, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache"))
    without = [word for name in ("cacheprovider", "xdist", "timeout") for word in ("-p", f"no:{name}")]
    command = [sys.executable, "-m", "pytest", "-q", *without]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=240)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


async def run_notebook(name: str) -> tuple[dict[str, Any], list[Any]]:
    """The names that a notebook leaves, and what its code cells show; the cells run as Jupyter runs them."""
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = []
    for cell in json.loads((EXAMPLES / name).read_text())["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == [] and cell["execution_count"] is None  # no results of who knows when
        tree = ast.parse("".join(cell["source"]))
        shows = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        result = eval(compile(tree, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True), names)
        if inspect.iscoroutine(result):
            await result
        if isinstance(shows, ast.Expr):
            shown.append(eval(compile(ast.Expression(shows.value), name, "eval", dont_inherit=True), names))
    return names, shown


async def test_notebook(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.delenv("STORE", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names, shown = await run_notebook("orders.ipynb")
    texts = [each for each in shown if isinstance(each, str)]
    assert texts[0] == "2994 orders, 6 payloads that are none" and texts[1].startswith("6 payloads are no Order, ")
    assert set(names["hourly"]) == {"asia", "eu", "us"}
    by_region = names["by_region"]
    assert int(by_region["orders"].sum()) == 2994
    assert float(by_region["turnover"].sum()) == pytest.approx(float(names["hourly"].to_numpy().sum()))
    assert names["european"].height == by_region[by_region["region"] == "eu"]["orders"].sum()
    titles = [axes.get_title() for number in names["plt"].get_fignums() for axes in names["plt"].figure(number).axes]
    names["plt"].close("all")
    assert titles == ["Turnover per hour", "Prices"]
