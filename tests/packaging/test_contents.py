"""What goes into the sdist and the wheel, without compiling; `make test-wheel` compiles, and tries the wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable
from email.parser import Parser
from pathlib import Path

import pytest

import jetbroker

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("jetbroker", "spark_jobs", "pyspark_jetstream")
SHIPPED = (".py", ".pyi", ".pxd", ".typed", ".html", ".css", ".js", ".svg")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def files(root: Path, folders: Iterable[str], *suffixes: str) -> set[str]:
    """Files of some folders, as seen from `root`."""
    found = (path for folder in folders for path in (root / folder).rglob("*") if path.is_file())
    return {str(path.relative_to(root)) for path in found if not suffixes or path.suffix in suffixes}


def setup(folder: Path, *command: str) -> None:
    """Run setup.py, without compiling."""
    environment = {**os.environ, "JETBROKER_LINK_ONLY": "1"}
    words = [sys.executable, "-W", "ignore", "setup.py", "--quiet", *command]
    subprocess.run(words, cwd=folder, env=environment, check=True, timeout=50, capture_output=True)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked sdist, made of a copy that no version control knows."""
    folder = tmp_path_factory.mktemp("sources")
    leave_out = shutil.ignore_patterns("__pycache__")  # what was compiled in place stays: it may not get in
    for name in (*PACKAGES, "configs"):
        shutil.copytree(ROOT / name, folder / name, ignore=leave_out)
    for name in ("setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, folder)
    setup(folder, "sdist")
    (archive,) = (folder / "dist").iterdir()
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "unpacked")  # our own; Python 3.11.2 knows no filters
    return folder / "unpacked" / f"jetbroker-{jetbroker.__version__}"


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> zipfile.ZipFile:
    """The wheel that is built from it, but for what is compiled."""
    setup(sdist, "bdist_wheel")
    (built,) = (sdist / "dist").iterdir()
    return zipfile.ZipFile(built)


def test_the_sdist_has_all_that_a_build_reads_and_nothing_that_was_built(sdist: Path) -> None:
    assert files(ROOT, PACKAGES, *SHIPPED, ".pyx") <= files(sdist, PACKAGES)
    assert files(sdist, ["configs"]) == files(ROOT, ["configs"])
    assert files(sdist, PACKAGES, ".so", ".c", ".pyc") == set()


def test_the_wheel_has_each_module_with_its_types(wheel: zipfile.ZipFile) -> None:
    found = {name for name in wheel.namelist() if name.startswith(PACKAGES) and ".dist-info/" not in name}
    assert found == files(ROOT, PACKAGES, *SHIPPED) | {"jetbroker/BUILD"}
    assert {"jetbroker/py.typed", "jetbroker/testing/pytest_plugin.py", "spark_jobs/source.py"} <= found


def test_the_wheel_tells_what_it_is(wheel: zipfile.ZipFile) -> None:
    info = f"jetbroker-{jetbroker.__version__}.dist-info"
    told = Parser().parsestr(wheel.read(f"{info}/METADATA").decode())
    assert told["Version"] == jetbroker.__version__ == PROJECT["project"]["version"]
    assert told["Requires-Python"] == ">=3.11"
    assert {"arrow", "spark", "test"} <= set(told.get_all("Provides-Extra", []))
    entries = wheel.read(f"{info}/entry_points.txt").decode()
    assert "jetbroker = jetbroker.daemon.cli:main" in entries
    assert "[pytest11]\njetbroker = jetbroker.testing.pytest_plugin" in entries


def test_wheels_are_built_for_the_versions_that_the_project_names() -> None:
    named = [line.rsplit(" ", 1)[1] for line in PROJECT["project"]["classifiers"] if "Python :: 3." in line]
    built = PROJECT["tool"]["cibuildwheel"]["build"]
    assert built == [f"cp{version.replace('.', '')}-*" for version in named]
    assert PROJECT["project"]["requires-python"] == f">={named[0]}"
