"""Whatever happened to a stream of a running broker: every reader gives what a consumer gets, message for message."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark")
pytest.importorskip("pyiceberg")
pytest.importorskip("deltalake")

from tests.support.depth import IS_DEEP
from tests.support.every_reader import FORMS, SEGMENT_BYTES, Step, compare
from tests.support.process import ServerProcess, small_segments

pytestmark = pytest.mark.timeout(300)

HISTORY: list[Step] = [
    ("publish", 25, 3), ("batch", 6, 1), ("read", 0, 0), ("expire", 2, 0), ("delete", 20, 4), ("publish", 30, 5),
    ("read", 0, 0), ("purge", 1, 3), ("publish", 30, 1), ("batch", 3, 0), ("delete", 5, 2), ("publish", 29, 9),
    ("read", 0, 0), ("purge", 2, 0),
]  # fmt: skip

steps = st.one_of(
    st.tuples(st.just("publish"), st.integers(1, 30), st.integers(0, 9)),
    st.tuples(st.just("publish"), st.integers(1, 30), st.integers(0, 9)),
    st.tuples(st.just("batch"), st.integers(1, 8), st.integers(0, 9)),
    st.tuples(st.just("expire"), st.integers(1, 4), st.just(0)),
    st.tuples(st.just("delete"), st.integers(0, 60), st.integers(1, 5)),
    st.tuples(st.just("purge"), st.integers(0, 3), st.integers(0, 5)),
    st.tuples(st.just("read"), st.just(0), st.just(0)),
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def broker(store: Path) -> Iterator[ServerProcess]:
    with small_segments(store, SEGMENT_BYTES) as running:
        yield running


@pytest.mark.parametrize(("packed", "form"), [(False, "parquet"), (True, "iceberg"), (False, "delta")])
def test_every_reader_gives_what_a_consumer_gets_of_one_history(
    broker: ServerProcess, store: Path, tmp_path: Path, packed: bool, form: str
) -> None:
    segments = asyncio.run(compare(broker, store, tmp_path, HISTORY, packed, form))
    assert len(segments) > 1 and set(segments) == {packed}


@pytest.mark.skipif(not IS_DEEP, reason="for make test-deep; the history above is played by every run")
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(history=st.lists(steps, min_size=4, max_size=10), packed=st.booleans(), form=st.sampled_from(FORMS))
def test_every_reader_gives_what_a_consumer_gets(
    broker: ServerProcess, store: Path, tmp_path_factory: pytest.TempPathFactory, history: list[Any], packed: bool,
    form: str,
) -> None:  # fmt: skip
    asyncio.run(compare(broker, store, tmp_path_factory.mktemp("readers"), history, packed, form))
