"""Spark imports every top-level package named `pyspark_*` by itself and registers its DefaultSource: with this package
installed, `spark.read.format("jetstream")` works without a call to register anything.

Spark fails with every Python source when one package cannot be imported. So a jetbroker that is not built, or lacks
what it needs, is told by the source itself, and only to those who use it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql.datasource import DataSource

_REASON = ""
_SOURCE: type[DataSource] | None = None
try:
    from spark_jobs import source as _module

    _SOURCE = _module.JetStreamDataSource
except ImportError as _error:
    _REASON = str(_error)


def why_not(reason: str, here: Path, interpreter: str) -> str:
    """One sentence: what to do when the source cannot be imported."""
    if (here / "setup.py").is_file() and not list((here / "jetbroker" / "store").glob("*.so")):
        return (
            f"jetbroker in {str(here)!r} is a source checkout that is not built: run `make build` there, or start from "
            "another folder with jetbroker installed"
        )
    return (
        f"{interpreter} cannot load jetbroker's Spark source ({reason}): run pip install 'jetbroker[spark]' in its "
        "environment, or name the environment that has it by PYSPARK_PYTHON"
    )


class UnusableSource(DataSource):
    """Stands in for the source where it cannot be imported."""

    @classmethod
    def name(cls) -> str:
        return "jetstream"

    def __init__(self, options: object) -> None:
        raise RuntimeError(why_not(_REASON, Path(__file__).resolve().parent.parent, sys.executable))


DefaultSource: type[DataSource] = _SOURCE or UnusableSource

__all__ = ["DefaultSource"]
