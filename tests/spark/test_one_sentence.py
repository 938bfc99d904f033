"""What a mistake looks like in a user's own Spark session, and in a job whose cluster is not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jetbroker.errors import JetbrokerError
from spark_jobs import failures, stream_report, workers
from spark_jobs.session import SparkMissingError, check_master, java_version
from tests.conftest import SPARK_GAVE_UP
from tests.support.process import ROOT, free_port
from tests.support.s3 import LOGIN
from tests.support.stores import StreamWriter

pytestmark = pytest.mark.spark

SESSION = """
import json, sys
from spark_jobs.session import local_session

spark = local_session("mistakes")
here, damaged = sys.argv[1:]

def read(path, reader=None, **options):
    return (reader or spark.read).format("jetstream").options(stream="ORDERS", **options).load(path)

def streaming():
    frame = read("s3://bucket/x", spark.readStream)
    query = frame.writeStream.format("noop").option("checkpointLocation", here).start()
    query.awaitTermination()

def of_the_user():
    from pyspark.sql.functions import udf
    read(damaged).select(udf(lambda seq: 1 // 0)("seq")).collect()

texts = {}
for name, action in {
    "option": lambda: read(damaged, colums="seq"),
    "batch": lambda: read("s3://bucket/x").count(),
    "stream": streaming,
    "task": lambda: read(damaged, failOnDataLoss="true").collect(),
    "sink": lambda: read(damaged, columns="subject,data").write.format("jetstream").option("url", "nats://127.0.0.1:1").mode("append").save(),
    "user": of_the_user,
}.items():
    try:
        action()
    except Exception as error:
        texts[name] = str(error)
print(json.dumps(texts))
"""


@pytest.fixture
def java() -> None:
    pytest.importorskip("pyspark")
    try:
        java_version()
    except SparkMissingError as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("java")
def test_a_mistake_reaches_the_users_of_a_session_without_traces(tmp_path: Path) -> None:
    pytest.importorskip("s3fs")
    writer = StreamWriter(tmp_path / "store", "ORDERS")
    for number in range(10):
        writer.append(b"orders", b"number %d" % number)
    path = writer.seal()
    path.write_bytes(path.read_bytes().replace(b"number 4", b"number 5"))
    writer.append(b"orders", b"number 10")
    writer.close()
    endpoint = f"http://127.0.0.1:{free_port()}"
    done = subprocess.run(
        [sys.executable, "-c", SESSION, str(tmp_path / "checkpoint"), str(tmp_path / "store")],
        env={**os.environ, **LOGIN, "AWS_ENDPOINT_URL": endpoint, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=280, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert SPARK_GAVE_UP not in done.stdout, done.stdout
    texts: dict[str, str] = json.loads(done.stdout)
    unreachable = f'.PlaceError: s3://bucket/x/shipped.json: Could not connect to the endpoint URL: "{endpoint}/'
    assert "StoreReadError: unknown option colums; there are account, " in texts["option"]
    assert unreachable in texts["batch"] and unreachable in texts["stream"]
    assert "StoreReadError: stream 'ORDERS': the messages 5 are damaged in " in texts["task"]
    assert "ClientError: nats://127.0.0.1:1 cannot be reached: " in texts["sink"]
    assert "ZeroDivisionError" in texts["user"] and "Traceback" in texts.pop("user")
    assert not [text for text in texts.values() if "Traceback" in text or "\tat " in text]
    assert "\tat " not in done.stderr


def test_traces_are_hidden_in_processes_of_spark_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(workers.NO_TRACE, raising=False)
    source = pytest.importorskip("spark_jobs.source").JetStreamDataSource({"path": str(tmp_path), "stream": "S"})
    with pytest.raises(JetbrokerError):
        source.reader(source.schema()).partitions()
    assert workers.NO_TRACE not in os.environ


@pytest.mark.usefixtures("java")
def test_a_master_that_is_not_there_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    writer = StreamWriter(tmp_path, "BILLS")
    writer.append(b"bills", b"1")
    writer.close()
    url = f"spark://127.0.0.1:{free_port()}"
    assert stream_report.main([str(tmp_path), "BILLS", "--engine", "spark", "--master", url]) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.splitlines() == [
        "1 messages: counted by Spark",
        f"stream_report: Spark's master {url} cannot be reached: Connection refused; see that it runs and that this is "
        "its URL, or leave --master out",
    ]


def test_a_master_that_never_answers_is_told() -> None:
    """Spark's own text, after it has tried for two minutes."""

    class OfPy4J(Exception):
        __module__ = "py4j.protocol"

    told = failures.sentence(
        OfPy4J(
            "An error occurred while calling o1.collect.\n: java.lang.IllegalStateException: "
            "Cannot call methods on a stopped SparkContext.\nThis stopped SparkContext …"
        )
    )
    assert "its master does not answer" in told and "\n" not in told and "java" not in told


@pytest.mark.parametrize("url", ["local[2]", "yarn", "spark://nonsense", ""])
def test_only_what_is_the_address_of_a_master_is_asked(url: str) -> None:
    check_master(url)
