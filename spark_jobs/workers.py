"""What Spark's Python processes are spared, and what users are: a trace around each sentence of ours."""

from __future__ import annotations

import functools
import gc
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from jetbroker.errors import JetbrokerError

C = TypeVar("C", bound=type)

NO_TRACE = "SPARK_HIDE_TRACEBACK"  # Spark's own switch; the process that failed ends once it has told
REUSED = "SPARK_REUSE_WORKER"  # set by Spark for a process that takes one task after the other


@functools.cache
def keep_loaded() -> None:
    """Whatever this process has loaded is no garbage from now on.

    Spark collects garbage after each task and each step of its planning. To walk pyspark, pyarrow and numpy takes tens
    of milliseconds of a core every time: a third of what a scan costs in Python.
    """
    if REUSED in os.environ:
        gc.freeze()


def in_one_sentence(source: C) -> C:
    """What this class's methods raise with a text for users reaches them without the trace of this process."""
    for name, method in list(vars(source).items()):
        if inspect.isfunction(method) and (name == "__init__" or not name.startswith("_")):
            setattr(source, name, (_told_by_rows if inspect.isgeneratorfunction(method) else _told)(method))
    return source


def _told(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return method(*args, **named)
        except JetbrokerError:
            _without_trace()
            raise

    return call


def _told_by_rows(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def rows(*args: Any, **named: Any) -> Any:
        try:
            yield from method(*args, **named)
        except JetbrokerError:
            _without_trace()
            raise

    return rows


def _without_trace() -> None:
    """Elsewhere than in a process that Spark started, the variable would reach all workers of a later session."""
    program = getattr(sys.modules["__main__"], "__spec__", None)
    if program is not None and program.name.startswith("pyspark."):
        os.environ[NO_TRACE] = "1"
