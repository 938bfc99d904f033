"""One real Spark session for the tests of a process; they are skipped, with the reason, where Spark cannot run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.session import SparkMissingError, local_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    here = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("anywhere"))  # nothing may depend on where a job is started
    try:
        session = local_session("tests")
    except SparkMissingError as error:
        pytest.skip(str(error))
    finally:
        os.chdir(here)
    yield session
    session.stop()
