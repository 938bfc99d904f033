"""Batches in Spark, local[2]: each query over the stream and over the same messages as Parquet, in turn, medians.

What is compared has to give the same answer.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.tables.figures import Figure, Taken, ratio
from benchmarks.tables.messages import STREAM
from benchmarks.tables.row_source import RowSource
from spark_jobs.session import local_session

ROUNDS = 5
WARM_ROUNDS = 2  # the JVM compiles what runs often
RANGE = 1000
Queries = Mapping[str, Callable[[], Any]]


class WrongAnswerError(Exception):
    """Two queries that should agree do not, or messages are missing."""


class Frames:
    """The messages as Spark reads them: each call plans anew, as a user's query does."""

    def __init__(self, spark: SparkSession, store: Path, parquet: Path) -> None:
        self.spark = spark
        self.store = store
        self.folder = parquet
        spark.dataSource.register(RowSource)

    def stream(self, **options: str) -> DataFrame:
        return self.spark.read.format("jetstream").options(stream=STREAM, **options).load(str(self.store))

    def parquet(self) -> DataFrame:
        return self.spark.read.parquet(str(self.folder))

    def rows(self) -> DataFrame:
        return self.spark.read.format("rows").load(str(self.store))


def four_columns(frame: DataFrame) -> Any:
    length = f.sum(f.length("subject")), f.sum(f.length("data"))
    return frame.agg(f.sum("seq"), f.max("time"), *length).collect()


def all_columns(frame: DataFrame) -> Any:
    length = f.sum(f.length("subject")), f.sum(f.length("data")), f.sum(f.size("headers"))
    return frame.agg(
        f.sum("seq"), f.max("time"), *length, f.sum("size"), f.sum(f.length("stream")), f.count("domain")
    ).collect()


def by_subject(frame: DataFrame) -> Any:
    return sorted(map(tuple, frame.groupBy("subject").count().collect()))


def narrow(frame: DataFrame, first: int) -> Any:
    return frame.where(f.col("seq").between(first, first + RANGE - 1)).agg(f.sum("seq"), f.count("data")).collect()


def cpu_seconds() -> float:
    """Of Spark and its workers, up to now; those that ended count in their parents."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def medians(queries: Queries, rounds: int = ROUNDS, warm: int = WARM_ROUNDS) -> dict[str, Taken]:
    """What each takes, all in turn. Raises WrongAnswerError when their answers differ."""
    taken: dict[str, list[Taken]] = {name: [] for name in queries}
    for _ in range(warm + rounds):
        answers = set()
        for name, query in queries.items():
            cpu, began = cpu_seconds(), time.perf_counter()
            answers.add(str(query()))
            wall = time.perf_counter() - began
            taken[name].append(Taken(wall, cpu_seconds() - cpu))
        if len(answers) != 1:
            raise WrongAnswerError(f"the answers of {', '.join(queries)} differ: {answers}")
    return {name: median(found[warm:]) for name, found in taken.items()}


def median(found: Sequence[Taken]) -> Taken:
    return Taken(statistics.median(one.wall for one in found), statistics.median(one.cpu for one in found))


def by_default(store: Path, parquet: Path, settings: Mapping[str, str]) -> list[Figure]:
    """The first row alone, in a session with these settings."""
    spark = local_session("benchmark with Spark's defaults", settings)
    try:
        frames = Frames(spark, store, parquet)
        found = medians({
            "stream": lambda: all_columns(frames.stream()),
            "parquet": lambda: all_columns(frames.parquet()),
        })  # fmt: skip
    finally:
        spark.stop()
    return [ratio("all columns, Spark's defaults", found["stream"], found["parquet"], "Parquet", 2.1)]


def measured(frames: Frames, messages: int) -> Iterator[Figure]:
    """With the session helper's settings."""
    found = medians({"stream": lambda: all_columns(frames.stream()), "parquet": lambda: all_columns(frames.parquet())})
    yield ratio("all columns, settings of the session helper", found["stream"], found["parquet"], "Parquet", 1.6)
    found = medians({
        "one column": lambda: by_subject(frames.stream(columns="subject")),
        "view": lambda: sorted(map(tuple, frames.stream(view="subjects", columns="subject,messages").collect())),
        "parquet": lambda: by_subject(frames.parquet()),
    })  # fmt: skip
    yield ratio("group by subject, columns=subject", found["one column"], found["parquet"], "Parquet", 3)
    yield ratio("group by subject, view=subjects", found["view"], found["parquet"], "Parquet", 1)
    first = messages // 2
    found = medians({
        "stream": lambda: narrow(frames.stream(columns="seq,data"), first),
        "parquet": lambda: narrow(frames.parquet(), first),
    })  # fmt: skip
    yield ratio(f"a range of {RANGE:,} messages", found["stream"], found["parquet"], "Parquet", 2)
    field = f.get_json_object(f.col("data").cast("string"), "$.amount").cast("double")
    found = medians({
        "stream": lambda: frames.stream(json="amount double", columns="amount").agg(f.sum("amount")).collect()[0][0],
        "parquet": lambda: frames.parquet().select(f.sum(field)).collect()[0][0],
    }, rounds=3, warm=1)  # fmt: skip
    yield ratio("sum of a typed JSON field", found["stream"], found["parquet"], "get_json_object", 0.3)
    found = medians({
        "stream": lambda: four_columns(frames.stream(columns="seq,time,subject,data")),
        "rows": lambda: four_columns(frames.rows()),
    }, rounds=3, warm=1)  # fmt: skip
    ours, rows = found["stream"], found["rows"]
    made_of = f"{ours}, rows {rows}"
    yield Figure("times as fast as a row-by-row Python source", rows.wall / ours.wall, least=5, made_of=made_of)
