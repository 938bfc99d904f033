"""The jobs on a cluster of Spark's own: a master and two workers, over a shared folder and over a store in S3."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jetbroker.store.offline import segment_cache
from jetbroker.store.offline.places import place_of
from jetbroker.store.shipping.shipper import Shipper
from spark_jobs.session import SparkMissingError, java_version
from tests.support.process import ROOT, free_port
from tests.support.s3 import BUCKET, s3_server
from tests.support.stores import StreamWriter

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

SMALL = ("--conf", "spark.executor.memory=512m", "--conf", "spark.driver.memory=512m")


@dataclass(frozen=True)
class Cluster:
    """Its address, the variables that its processes have, and the folder with their logs."""

    url: str
    environment: dict[str, str]
    logs: Path

    def submit(self, job: str, *words: str) -> Any:
        """What a job prints as JSON."""
        script = str(ROOT / "spark_jobs" / f"{job}.py")
        done = subprocess.run(
            [spark_home() / "bin" / "spark-submit", "--master", self.url, *SMALL, script, *words, "--json"],
            env=self.environment, capture_output=True, text=True, timeout=600, cwd=self.logs,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        # spark-submit mixes in what a job says on stderr
        return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))

    def executors(self) -> int:
        """How many the master has started so far."""
        return (self.logs / "master").read_text(errors="replace").count("Launching executor")


def spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


@contextlib.contextmanager
def spark_class(log: Path, environment: dict[str, str], said: str, *words: str) -> Iterator[None]:
    """A process of Spark, once it has said that it is there."""
    with log.open("wb") as file:
        started = subprocess.Popen(
            [spark_home() / "bin" / "spark-class", *words], env=environment, stdout=file, stderr=file, cwd=log.parent
        )
        try:
            while said not in log.read_text(errors="replace"):
                assert started.poll() is None, log.read_text(errors="replace")
                time.sleep(0.1)
            yield
        finally:
            started.terminate()
            started.wait()


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if request.config.getoption("--hypothesis-profile", None) != "nightly":
        pytest.skip("it takes minutes of Java processes: make test-deep runs it")
    try:
        java_version()
    except SparkMissingError as error:
        pytest.skip(str(error))
    logs = tmp_path_factory.mktemp("cluster")
    url = f"spark://127.0.0.1:{free_port()}"
    with s3_server() as aws, contextlib.ExitStack() as stack:
        environment = {
            **os.environ,
            **aws,
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            segment_cache.FOLDER: str(logs / "cache"),
        }
        master = ("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", url.rpartition(":")[2])
        with spark_class(logs / "master", environment, "I have been elected leader", *master, "--webui-port", "0"):
            for name in ("one", "two"):
                worker = ("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0")
                limits = ("-c", "1", "-m", "700m", "-d", str(logs / name), url)
                said = "Successfully registered with master"
                stack.enter_context(spark_class(logs / f"{name}.log", environment, said, *worker, *limits))
            yield Cluster(url, environment, logs)
            stack.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shared")
    writer = StreamWriter(folder, "ORDERS")
    for number in range(1, 12_001):
        writer.append(b"orders.%d" % (number % 7), b"x" * (number % 90))
        if number % 3000 == 0:
            writer.seal()
    writer.delete([(5, 6), (6001, 6003)])
    writer.close()
    return folder


def test_jobs_run_unchanged_on_a_cluster(cluster: Cluster, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    url = f"s3a://{BUCKET}/shipped"
    list(Shipper(store, place_of(url), unsealed=True).ship())
    for job, words, executors in (
        ("stream_report", ("--interval", "1s", "--engine", "spark"), 2),
        ("subject_report", (), 0),
    ):
        here = [*words[:-1], "local"] if words else []
        done = subprocess.run(
            [sys.executable, "-m", f"spark_jobs.{job}", str(store), "ORDERS", *here, "--json"],
            env=cluster.environment, capture_output=True, text=True, timeout=100,
        )  # fmt: skip
        expected = json.loads(done.stdout)
        for place in (str(store), url):
            before = cluster.executors()
            assert cluster.submit(job, place, "ORDERS", *words) == expected
            assert cluster.executors() == before + executors  # both workers had a part in it
    assert len(list((cluster.logs / "cache").glob("??/*"))) == 4
