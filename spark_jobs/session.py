"""A small local Spark session for the jobs, and what must be there before one can start."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIN_JAVA = 17
STANDALONE = "spark://"
MASTER_S = 5  # to connect
GATEWAY = "PYSPARK_GATEWAY_PORT"  # set by spark-submit for what it starts
SHUFFLE_PARTITIONS = 4  # for two cores; Spark's default of 200 costs more than the jobs themselves
# Arrow's checks of each value that Spark takes out of a batch: what a scan costs in the JVM is a tenth less without
JAVA_OPTIONS = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
# What makes micro-batches quick on one machine. Spark writes checkpoints by an interface of Hadoop that starts twenty
# processes named readlink for each batch; the other one renames files without, and just as atomically on a local disk.
# And it plans each stage of a batch anew, which takes longer than most batches.
MICRO_BATCHES = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
}
# what the Java side says at every start, before its log settings are read
CHATTER = ("WARNING: Using incubator modules", "Setting default log level to", "To adjust logging level use")
# Spark's own messages only when something fails, and without traces of Java: what failed reaches Python as well
LOG4J = """
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%throwable{none}
"""


class SparkMissingError(Exception):
    """Spark cannot run here; the text says what to install."""


def java_version() -> int:
    """The major version of the Java that Spark would use. Raises SparkMissingError when it is none or too old."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    advice = f"Spark needs Java {MIN_JAVA} or later (Debian, Ubuntu: apt-get install openjdk-17-jre-headless)"
    if java is None:
        raise SparkMissingError(f"there is no java on the PATH and JAVA_HOME is not set; {advice}")
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SparkMissingError(f"{java} does not run: {error}; {advice}") from None
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if found is None:
        raise SparkMissingError(f"{java} does not tell its version; {advice}")
    if int(found[1]) < MIN_JAVA:
        raise SparkMissingError(f"{java} is version {found[1]}; {advice}")
    return int(found[1])


def check_master(url: str) -> None:
    """Raises SparkMissingError when the master of a Spark cluster does not listen; Spark would try for a minute."""
    if not url.startswith(STANDALONE):
        return
    reasons = []
    for address in url.removeprefix(STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal():
            return  # Spark says what is wrong with it
        try:
            socket.create_connection((host.strip("[]"), int(port)), MASTER_S).close()
            return
        except (OSError, OverflowError) as error:
            reasons.append(getattr(error, "strerror", None) or str(error))
    raise SparkMissingError(
        f"Spark's master {url} cannot be reached: {reasons[-1]}; see that it runs and that this is its URL, or leave "
        "--master out"
    )


def _submitted_to() -> str:
    """The master that spark-submit was given."""
    if GATEWAY not in os.environ:
        return ""
    from pyspark.java_gateway import launch_gateway

    return str(launch_gateway().jvm.System.getProperty("spark.master"))  # type: ignore[no-untyped-call]


@contextmanager
def _without_chatter() -> Iterator[None]:
    """Processes started inside write their stderr through a filter; everything but CHATTER comes out."""
    read_end, write_end = os.pipe()
    stderr = os.dup(2)
    os.dup2(write_end, 2)
    os.close(write_end)

    def forward() -> None:
        with open(read_end, encoding="utf-8", errors="replace") as lines, open(stderr, "w") as out:
            for line in lines:
                if not line.startswith(CHATTER):
                    out.write(line)
                    out.flush()

    threading.Thread(target=forward, name="spark stderr", daemon=True).start()
    kept = os.dup(stderr)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Set what makes the source "jetstream" quick on the builder of a session; returns it.

    Filters reach the source, Arrow batches take unix sockets and are read without checks of each value, and workers
    run the interpreter that runs this, with what it can import, whether its environment is activated or not.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Spark finds the source in a folder of the path alone, and an editable install has none there
    here = str(Path(__file__).resolve().parent.parent)
    os.environ["PYTHONPATH"] = os.pathsep.join([here, *filter(None, map(os.path.abspath, sys.path))])
    settings = {
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.driver.defaultJavaOptions": JAVA_OPTIONS,  # stand before a user's own extraJavaOptions
        "spark.executor.defaultJavaOptions": JAVA_OPTIONS,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder


def local_session(name: str, settings: Mapping[str, str] | None = None) -> SparkSession:
    """A quiet session on two cores of this machine; raises SparkMissingError when Spark cannot run.

    Under spark-submit it runs where that says (`--master`). `settings` are Spark's own, and stand above the rest.
    """
    java_version()
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise SparkMissingError("pyspark is not installed: pip install 'jetbroker[spark]'") from None
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.NamedTemporaryFile("w", suffix=".properties", delete=False) as file:
        file.write(LOG4J)
    settings = dict(settings or {})
    check_master(settings.get("spark.master") or _submitted_to())
    builder = (
        configure(SparkSession.builder)
        .appName(name)
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile=file:{file.name}")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", str(SHUFFLE_PARTITIONS))
        .config("spark.sql.session.timeZone", "UTC")
    )
    of_its_own = {} if GATEWAY in os.environ else {"spark.master": "local[2]", **MICRO_BATCHES}
    for key, value in (of_its_own | settings).items():
        builder = builder.config(key, value)
    try:
        with _without_chatter():
            return builder.getOrCreate()
    finally:
        os.unlink(file.name)
