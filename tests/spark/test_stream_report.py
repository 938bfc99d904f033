"""The report job as a user starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.session import SparkMissingError, java_version
from spark_jobs.stream_report import fitting_interval
from tests.support.process import ROOT
from tests.support.stores import StreamWriter, write_store_marker

pytestmark = pytest.mark.spark


def report(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "spark_jobs.stream_report", *arguments],
        capture_output=True, text=True, cwd=cwd, timeout=280,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Path:
    writer = StreamWriter(tmp_path / "store", "ORDERS")
    for i in range(1200):
        # the report's library would take these brackets for markup
        writer.append(b"orders.[/%d]" % (i % 3), b"x" * (10 + i % 3))
    writer.close()
    return tmp_path / "store"


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_it_reports_messages_bytes_subjects_and_rates(store: Path, tmp_path: Path, engine: str) -> None:
    if engine == "spark":
        try:
            java_version()
        except SparkMissingError as error:
            pytest.skip(str(error))
    write_store_marker(store, domain="edge")
    options = ("--domain", "edge", "--interval", "1s", "--top", "2", "--engine", engine)
    done = report(str(store), "ORDERS", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["domain", "edge"] in lines
    assert ["messages", "1,200"] in lines
    assert ["headers", "and", "payload", "13,200", "bytes"] in lines
    assert ["subjects", "3"] in lines
    assert ["2023-11-14", "22:13:20", "999", "999.0", "10,989", "#" * 30] in lines
    assert ["orders.[/2]", "400", "4,800", "2023-11-14", "22:13:21"] in lines
    assert not any("orders.[/0]" in line for line in lines)  # only the two largest
    # Spark's own Python daemon may meet a broken pipe when Spark ends on a busy machine
    assert not any(word in done.stderr for word in ("WARN", "ERROR", "spark_jobs")), done.stderr


def test_what_is_small_is_counted_without_spark_and_printed_as_json(store: Path, tmp_path: Path) -> None:
    done = report(str(store), "ORDERS", "--json", "--subject", "*.[/1]", cwd=tmp_path, PATH=str(tmp_path), JAVA_HOME="")
    assert done.returncode == 0, done.stderr
    assert "Spark is not started" in done.stderr
    found = json.loads(done.stdout)
    assert (found["messages"], found["bytes"], found["subjects"], found["interval_seconds"]) == (400, 4400, 1, 1)
    assert found["largest"] == [
        {"subject": "orders.[/1]", "messages": 400, "bytes": 4400, "last": "2023-11-14 22:13:21"}
    ]
    assert sum(row["messages"] for row in found["rates"]) == 400


def test_an_empty_stream_has_a_summary(tmp_path: Path) -> None:
    StreamWriter(tmp_path / "store", "EMPTY").close()
    done = report(str(tmp_path / "store"), "EMPTY", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert ["messages", "0"] in [line.split() for line in done.stdout.splitlines()]


def test_missing_stores_and_streams_end_it_with_one_line(store: Path, tmp_path: Path) -> None:
    done = report(str(store), "NOPE", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("stream_report: no stream 'NOPE'")
    assert "ORDERS" in done.stderr
    done = report(str(store), "ORDERS", "--domain", "edge", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "names no domain, so it is not that of 'edge'" in done.stderr
    done = report(str(tmp_path / "nowhere"), "ORDERS", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no such directory" in done.stderr


def test_without_a_usable_java_it_says_what_to_install(store: Path, tmp_path: Path) -> None:
    done = report(str(store), "ORDERS", "--engine", "spark", cwd=tmp_path, PATH=str(tmp_path), JAVA_HOME="")
    assert done.returncode == 2
    assert "no java on the PATH" in done.stderr
    assert "Java 17" in done.stderr
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    done = report(str(store), "ORDERS", "--engine", "spark", cwd=tmp_path, JAVA_HOME=str(tmp_path))
    assert done.returncode == 2
    assert "is version 11" in done.stderr


def test_intervals_fit_the_span() -> None:
    assert fitting_interval(0, 5_000_000_000) == 1
    assert fitting_interval(0, 3600 * 10**9) == 300
    assert fitting_interval(0, 400 * 86_400 * 10**9) > 7 * 86_400
