"""Figures as Prometheus reads them. The lines are written by its own client library, in turns."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from math import isinf
from typing import TypeAlias

from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from jetbroker.turns import Turn

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_LINES_AT_ONCE = 64
_HEAD_LINES = 2  # HELP and TYPE

Row: TypeAlias = tuple[tuple[str, ...], tuple[float, ...]]
"""The values of the labels, and one value for each metric."""


@dataclass
class Table:
    """Metrics that have their labels in common: a row for each stream, say."""

    metrics: tuple[tuple[str, str], ...]  # name and help
    labels: tuple[str, ...]
    rows: list[Row] = field(default_factory=list)
    counts: bool = False  # counters, whose names get `_total`

    def size_of(self, row: Row) -> int:
        """About how many bytes its lines have."""
        labels = sum(len(name) + 4 for name in self.labels) + sum(len(value.encode()) for value in row[0])
        return sum(len(name) + labels + 24 for name, _ in self.metrics)


@dataclass
class Histogram:
    """How many values were at most how large."""

    metric: tuple[str, str]  # name and help
    labels: dict[str, str]
    cumulated: list[tuple[float, int]]  # (bound, how many were at most that); the last bound is infinite
    sum: float

    def family(self) -> Metric:
        """As the client library has it."""
        family = HistogramMetricFamily(*self.metric, labels=list(self.labels))
        buckets = [("+Inf" if isinf(bound) else str(bound), count) for bound, count in self.cumulated]
        family.add_metric(list(self.labels.values()), buckets, self.sum)
        return family


class _One(Collector):
    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return [self._metric]


async def text_of(tables: Iterable[Table], histograms: Iterable[Histogram] = ()) -> bytes:
    """The text of these tables, with turns of the event loop in between, and behind it that of the histograms."""
    turn = Turn()
    parts: list[bytes] = []
    for table in tables:
        for column in range(len(table.metrics)):
            for part in _parts(table, column):
                parts.append(part)
                await turn.rest()
    parts.extend(generate_latest(_One(histogram.family())) for histogram in histograms)
    return b"".join(parts)


def _parts(table: Table, column: int) -> Iterator[bytes]:
    """The lines of one metric, some at a time; what stands at its head stands there once."""
    family = CounterMetricFamily if table.counts else GaugeMetricFamily
    name, text = table.metrics[column]
    rows = iter(table.rows)
    head = b""
    while some := list(islice(rows, _LINES_AT_ONCE)):
        metric = family(name, text, labels=table.labels)
        for labels, values in some:
            metric.add_metric(labels, values[column])
        part = generate_latest(_One(metric))
        if not head:
            head = b"".join(part.splitlines(keepends=True)[:_HEAD_LINES])
            yield part
        else:
            yield part.removeprefix(head)
