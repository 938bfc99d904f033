"""What Spark's Python processes are spared; no Spark runs here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs.workers import REUSED
from tests.support.stores import StreamWriter

pytest.importorskip("pyspark")
READ = """
import gc, sys
from spark_jobs.source import JetStreamDataSource
source = JetStreamDataSource({"path": sys.argv[1], "stream": "ORDERS"})
reader = source.reader(source.schema())
for partition in reader.partitions():
    kept = [(gc.get_freeze_count(), batch.num_rows) for batch in reader.read(partition)]
print(*kept[0])
"""


@pytest.mark.parametrize("reused", [True, False])
def test_a_process_that_spark_uses_again_walks_no_modules_after_each_task(tmp_path: Path, reused: bool) -> None:
    writer = StreamWriter(tmp_path, "ORDERS")
    writer.append(b"orders.1", b"x")
    writer.close()
    environment = {name: value for name, value in os.environ.items() if name != REUSED}
    if reused:
        environment[REUSED] = "1"
    done = subprocess.run([sys.executable, "-c", READ, str(tmp_path)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    frozen, rows = map(int, done.stdout.split())
    assert (frozen > 10_000, rows) == (reused, 1)
