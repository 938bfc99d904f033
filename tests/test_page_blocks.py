"""Every fenced block of the pages is run, read by what reads it in earnest, or stands in a table with a reason."""

from __future__ import annotations

import ast
import asyncio
import configparser
import json
import os
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats
import pytest
import yaml
from pydantic import create_model

import jetbroker
from jetbroker.config import loader
from jetbroker.testing import EmbeddedBroker, embedded
from tests.support import certificates
from tests.support.page_blocks import Block, all_blocks, blocks_of, fault_of, needs_spark, simple_commands, typed
from tests.support.walkthroughs import commands, missing_lines
from tools.links import ROOT

pytestmark = pytest.mark.timeout(300)  # several processes, on a machine that may be busy

# Run as a whole, with what they show, by tests/walkthroughs.
PLAYED = "docs/walkthroughs/"
# Python that other tests run: tests/spark/test_page_blocks.py, and two here.
WAYS = ("run", "spark", "pytest", "plugin")

# What is neither read nor run: the page, how the block begins, and why.
EXEMPT = {
    ("README.md", "any NATS client"): "a picture",
    ("docs/ARCHITECTURE.md", "+-----"): "a picture; test_docs.py compares it with the folders",
    ("docs/ARCHITECTURE.md", "<store_dir>"): "a folder; tests/support/stores.py writes it by these words",
    ("docs/AUTHENTICATION.md", "operator: eyJ"): "tokens are left out; configs/operator.conf is whole, and tested",
    ("docs/DOCKER.md", "[FTL]"): "log lines; tests/packaging/test_image.py and tests/daemon/test_start_failures.py",
    ("docs/JETSTREAM.md", "<inbox>"): "the parts of a subject; tests/jetstream/test_fast_batches.py",
    ("docs/JETSTREAM.md", "[WRN]"): "a log line; tests/jetstream/test_dead_letters.py",
    ("docs/OPERATIONS.md", "[ERR] Failed"): "a log line; tests/daemon/test_reload.py",
    ("docs/OPERATIONS.md", "[INF] Reloaded"): "log lines; tests/differential/test_reload.py",
    ("docs/OPERATIONS.md", "[ERR] JetStream"): "log lines; tests/store/test_storage_faults.py",
    ("docs/SHIPPING.md", "[INF] Shipping"): "log lines; tests/daemon/test_background_shipping.py",
    ("docs/SHIPPING.md", "<URL>"): "a folder; tests/store/test_shipping.py",
    ("docs/SPARK.md", "jetstream: stream"): "a log line; tests/spark/test_plan_and_options.py",
    ("docs/SPARK.md", "python -m spark_jobs"): "a synopsis; tests/spark/test_jobs.py runs the jobs",
}
# Written from the code, and compared with it, by test_reference.py.
WRITTEN = "docs/reference/"

# Blocks of `console` whose outputs are compared: how the page's block begins, and the files that it needs.
SHOWN = {
    ("docs/ARCHITECTURE.md", "$ exec 3<>"): {},
    ("docs/CONFIG.md", "$ jetbroker check"): {"broker.conf": 'listen: "127.0.0.1:4222"\n\nmax_paylod: 1MB\n'},
    ("docs/TABLES.md", "$ jetbroker store infer"): {},
    ("docs/TABLES.md", "$ jetbroker store ls"): {},
    ("docs/differences.md", "$ echo"): {},
}
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
EXPLAINED = re.compile(r" {3,}[a-z]+/ .*$|(?<=PONG) {3,}.*$", re.MULTILINE)


def of_kind(*kinds: str) -> list[Any]:
    found = [block for block in all_blocks() if block.kind in kinds and not exemption(block)]
    return [pytest.param(block, id=str(block)) for block in found if not block.page.startswith(PLAYED)]


def exemption(block: Block) -> tuple[str, str] | None:
    return next((key for key in EXEMPT if block.page == key[0] and block.begin.startswith(key[1])), None)


def shown(block: Block) -> dict[str, str] | None:
    """The files that a block with compared outputs needs; None: it is no such block."""
    key = next((key for key in SHOWN if block.page == key[0] and block.begin.startswith(key[1])), None)
    return None if key is None else SHOWN[key]


def way_of(block: Block) -> str:
    """How a block of Python is run."""
    if block.begin == "# embedded_4222.py":
        return "plugin"
    imported = {
        alias.name for node in ast.walk(ast.parse(block.text)) if isinstance(node, ast.Import) for alias in node.names
    }
    return "pytest" if "pytest" in imported else "spark" if needs_spark(block) else "run"


# --- the tables ---


def test_each_block_has_a_kind_that_somebody_looks_at() -> None:
    looked_at = {"conf", "console", "ini", "json", "promql", "python", "sh", "sql", "yaml"}
    left = [
        str(block)
        for block in all_blocks()
        if block.kind not in looked_at and not exemption(block) and not block.page.startswith(WRITTEN)
    ]
    assert left == []


def test_each_exemption_is_needed() -> None:
    used = {exemption(block) for block in all_blocks()}
    assert [key for key in EXEMPT if key not in used] == []
    for key, reason in EXEMPT.items():
        named = [ROOT / name for name in re.findall(r"[\w/]+/\w+\.(?:py|conf)", reason)]
        assert all(path.is_file() for path in named), (key, reason)


def test_each_compared_block_is_there() -> None:
    found = [block for block in all_blocks() if shown(block) is not None]
    assert len(found) == len(SHOWN) and {block.kind for block in found} == {"console"}


def test_these_checks_can_fail() -> None:
    page = "```sh\njetbroker --prot 4222  # a slip\nmake everything\n```\n\n  ```python\n  x = 1\n  ```\n"
    found = list(blocks_of("a.md", page))
    assert [(block.kind, block.line) for block in found] == [("sh", 1), ("python", 6)]
    faults = [fault_of(words) for line in typed(found[0]) for words in simple_commands(line)]
    assert "prot" in faults[0] and faults[1] == "the Makefile has no everything"
    wrong = ("store lst /data", "passwd --nothing", "-c a.conf --cluster_name x", "strat")
    assert [text for text in wrong if not fault_of(["jetbroker", *text.split()])] == []
    others = (
        "python -m spark_jobs.nothing",
        "python -m spark_jobs.stream_report S O --nothing",
        "pip install jetbroker[no]",
    )
    assert [text for text in others if not fault_of(text.split())] == []
    assert simple_commands("A=1 x 'a b' > f && y $(z 1) | w &") == [
        ["z", "1"],
        ["x", "a b"],
        ["y", "SUBSTITUTED"],
        ["w"],
    ]


# --- read by what reads them in earnest ---


@pytest.fixture(scope="module")
def with_certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that configurations on the pages name."""
    folder = tmp_path_factory.mktemp("certificates")
    made = certificates.make(folder)
    for name in ("server", "hub", "edge"):
        (folder / f"{name}.pem").write_bytes(made.server.cert.read_bytes())
        (folder / f"{name}-key.pem").write_bytes(made.server.key.read_bytes())
    (folder / "ca.pem").write_bytes(made.ca.cert.read_bytes())
    return folder


@pytest.mark.parametrize("block", of_kind("conf"))
def test_configurations_are_taken(block: Block, with_certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(with_certificates)
    variables = {"SHOP_PASSWORD": "secret", "APP_PASSWORD": "secret"}
    loader.load_text(block.text, str(with_certificates / "page.conf"), variables)


@pytest.mark.parametrize("block", of_kind("json", "yaml", "ini"))
def test_data_are_well_formed(block: Block) -> None:
    if block.kind == "json":
        assert json.loads(block.text)
    elif block.kind == "yaml":
        assert yaml.safe_load(block.text)
    else:
        parser = configparser.ConfigParser(interpolation=None)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read_string(block.text)
        assert parser.sections()


@pytest.mark.parametrize("block", of_kind("promql"))
def test_queries_ask_for_metrics_that_are_there(block: Block) -> None:
    there = set(re.findall(r"^\| `(\w+)`", (ROOT / "docs" / "reference" / "METRICS.md").read_text(), re.MULTILINE))
    asked = set(re.findall(r"\b(?:gnatsd|jetstream|jetbroker)_\w+", block.text))
    assert asked and asked - there == set()


@pytest.mark.parametrize("block", of_kind("sh", "console"))
def test_commands_would_be_taken(block: Block) -> None:
    lines = typed(block)
    assert lines
    faults = [fault_of(words) for line in lines for words in simple_commands(line)]
    assert [fault for fault in faults if fault] == []


# --- run ---


@dataclass(frozen=True)
class World:
    """A broker with orders, and its store."""

    broker: EmbeddedBroker
    store: str

    def adapted(self, text: str) -> str:
        """A block with this world's places, with less to do, and with patience for a busy machine."""
        for old, new in (
            ("nats://127.0.0.1:4222", self.broker.url),
            ("ws://127.0.0.1:8080", self.broker.urls["websocket"]),
            ("s3://backups/eu-1", self.store),
            ("/var/lib/jetbroker", self.store),
            ('"./data"', f'"{self.store}"'),
            ("range(1, 501)", "range(1, 6)"),
            ("next_msg()", "next_msg(timeout=60)"),
            ("fetch(1)", "fetch(1, timeout=60)"),
            ("fetch(2)", "fetch(2, timeout=60)"),
        ):
            text = text.replace(old, new)
        return text


async def published(url: str, count: int, *, without: int = 0) -> None:
    """Orders, as the pages have them."""
    client = await nats.connect(url)
    js = client.jetstream()
    await js.add_stream(name="ORDERS", subjects=["orders.>"])
    for number in range(1, count + 1):
        place = ("eu", "us", "jp", "br")[(number - 1) % 4]
        await js.publish(f"orders.{place}", b'{"amount": %d}' % number)
    if without:
        await js.delete_msg("ORDERS", without)
    await client.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    store = tmp_path_factory.mktemp("store")
    with embedded(config='websocket { listen: "127.0.0.1:-1", no_tls: true }', store_dir=store) as broker:
        asyncio.run(published(broker.url, 3))
        yield World(broker, str(store))


@pytest.fixture(scope="module")
def eleven(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The store that TABLES.md shows."""
    store = tmp_path_factory.mktemp("eleven")
    with embedded(store_dir=store) as broker:
        asyncio.run(published(broker.url, 12, without=2))
    return str(store)


def python_blocks(way: str) -> list[Block]:
    found = [block for block in all_blocks() if block.kind == "python" and not block.page.startswith(PLAYED)]
    return [block for block in found if way_of(block) == way]


@pytest.mark.parametrize("block", python_blocks("run"), ids=str)
def test_programs_run(block: Block, world: World) -> None:
    called: list[str] = []
    names = {"__name__": "__main__", "store": world.store, "jetbroker": jetbroker, "run_my_program": called.append}
    events = types.ModuleType("shop.events")
    sys.modules["shop"], sys.modules["shop.events"] = types.ModuleType("shop"), events
    events.Order = create_model("Order", amount=int)  # type: ignore[attr-defined]
    try:
        exec(compile(world.adapted(block.text), str(block), "exec", dont_inherit=True), names)
    finally:
        del sys.modules["shop"], sys.modules["shop.events"]
    assert len(called) == block.text.count("run_my_program(")


def test_the_plugin_in_place_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = python_blocks("plugin")
    names: dict[str, Any] = {}
    exec(compile(block.text.replace("port=4222", "port=0"), str(block), "exec", dont_inherit=True), names)
    session = types.SimpleNamespace(config=types.SimpleNamespace())
    names["pytest_sessionstart"](session)
    assert session.config.broker.running
    names["pytest_sessionfinish"](session)
    assert not session.config.broker.running


def test_the_tests_of_the_pages_pass(tmp_path: Path) -> None:
    """A test, and the fixtures that another block overrides for it."""
    blocks = python_blocks("pytest")
    assert {block.page for block in blocks} == {"docs/TESTING.md"}
    for block in blocks:
        name = "test_orders.py" if "def test_" in block.text else "conftest.py"
        (tmp_path / name).write_text(block.text)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["conftest.py", "test_orders.py"]
    without = [word for name in ("cacheprovider", "xdist", "timeout") for word in ("-p", f"no:{name}")]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *without],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_no_way_of_python_is_forgotten() -> None:
    assert {way_of(block) for block in all_blocks() if block.kind == "python"} == set(WAYS)


@pytest.mark.parametrize("block", [block for block in all_blocks() if shown(block) is not None], ids=str)
def test_commands_show_what_the_page_shows(block: Block, world: World, eleven: str, tmp_path: Path) -> None:
    for name, text in (shown(block) or {}).items():
        (tmp_path / name).write_text(text)
    port = world.broker.url.rpartition(":")[2]
    text = block.text.replace("/var/lib/jetbroker", eleven).replace("127.0.0.1/4222", f"127.0.0.1/{port}")
    text = text.replace("timeout 1 cat", "timeout 60 head -n 4")  # a busy machine may take longer than a second
    asked = commands(f"```console\n{text}```\n")
    script = "\n".join(command.text for command in asked)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(tmp_path), "LANG": "C.UTF-8", "COLUMNS": "200"}
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240, check=False,
    )  # fmt: skip
    expected = [TIME.sub("...", EXPLAINED.sub("", line)) for command in asked for line in command.expected]
    expected = [re.sub(r"\d\.\d\d KB", "...", line) for line in expected]
    assert expected and missing_lines(expected, done.stdout.splitlines()) == [], done.stdout
