"""The wheel in an environment that has nothing else: `make test-wheel` builds it and runs this."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest

import jetbroker
from tests.support.process import ServerProcess

ROOT = Path(__file__).resolve().parent.parent.parent
DIST = os.environ.get("JETBROKER_DIST", "")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not DIST, reason="it takes minutes to build a wheel: make test-wheel does"),
]


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints; it must succeed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PY")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    (wheel,) = Path(DIST).resolve().glob(f"jetbroker-{jetbroker.__version__}-{tag}-*manylinux*.whl")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    found = folder / "venv" / "bin" / "python"
    run(found, "-m", "pip", "install", "--quiet", f"jetbroker[test] @ {wheel.as_uri()}", cwd=folder)
    return found


@pytest.fixture
def server(python: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess([str(python.with_name("jetbroker"))], ("-js", "-sd", str(tmp_path)), cwd=tmp_path) as started:
        yield started


def test_only_the_wheel_is_imported(python: Path, tmp_path: Path) -> None:
    program = "import jetbroker.wire.parser as found; print(found.__file__)"
    assert Path(run(python, "-c", program, cwd=tmp_path)).is_relative_to(python.parent.parent)
    version = run(python.with_name("jetbroker"), "--version", cwd=tmp_path)
    assert version.startswith(f"jetbroker: v{jetbroker.__version__} ")


def test_nothing_is_left_for_a_debugger(python: Path, tmp_path: Path) -> None:
    module = run(python, "-c", "import jetbroker.wire.parser as found; print(found.__file__)", cwd=tmp_path).strip()
    sections = run("readelf", "--sections", "--wide", module, cwd=tmp_path)
    assert ".dynsym" in sections
    assert ".symtab" not in sections and ".debug" not in sections


async def test_the_broker_stores_messages(server: ServerProcess) -> None:
    client = await nats.connect(server.url)
    await client.jetstream().add_stream(name="S", subjects=["s"])
    assert (await client.jetstream().publish("s", b"x")).seq == 1
    await client.close()


def test_a_pytest_project_finds_its_fixtures(python: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(ROOT / "examples" / "pytest_project", project)
    assert "3 passed" in run(python, "-m", "pytest", "-q", cwd=project)
