"""What Spark's Python processes are spared."""

from __future__ import annotations

import functools
import gc
import os

REUSED = "SPARK_REUSE_WORKER"  # set by Spark for a process that takes one task after the other


@functools.cache
def keep_loaded() -> None:
    """Whatever this process has loaded is no garbage from now on.

    Spark collects garbage after each task and each step of its planning. To walk pyspark, pyarrow and numpy takes tens
    of milliseconds of a core every time: a third of what a scan costs in Python.
    """
    if REUSED in os.environ:
        gc.freeze()
