"""How long messages took from an event to the disk: the time of storing against a time that the message holds itself.

python -m spark_jobs.latency_report STORE STREAM --field created
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from jetbroker.errors import StoreReadError
from jetbroker.store.offline.reader import MIN_TIME_NS, StreamSnapshot
from jetbroker.tables.asked import since_ns
from spark_jobs import jobs, plots
from spark_jobs.events import UNITS, event_us, field_of
from spark_jobs.stream_report import fitting_interval
from spark_jobs.subject_report import beginning

if TYPE_CHECKING:
    import pyarrow as pa

PERCENTILES = (50, 90, 99, 99.9)
NAMES = tuple(f"p{str(percent).replace('.', '_')}_ms" for percent in PERCENTILES)
COLUMNS = ("start", "messages", "min_ms", *NAMES, "max_ms")
FAR_US = 10 * 365 * 86_400 * 1_000_000  # an event so far from its storing was in another unit


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = jobs.parser_of(
        "latency_report",
        "Percentiles of the time between an event and the storing of its message. The event's time is a header or a "
        "field of a JSON payload: ISO 8601, or a number since 1970. (A store does not know when consumers acked: "
        "consumer_lag tells what waits, and since when.) Percentiles are right to 0.5 percent. Needs no Spark.",
        "/var/lib/jetbroker ORDERS --field order.created --window 5m",
    )
    parser.add_argument("--field", default="", metavar="FIELD", help="of a JSON payload, as created or order.created")
    parser.add_argument("--header", default="", metavar="NAME", help="the name of a header")
    parser.add_argument("--unit", choices=UNITS, default="ms", help="of numbers since 1970 (default: %(default)s)")
    parser.add_argument(
        "--by", choices=("time", "subject"), default="time", help="what a line is about (default: %(default)s)"
    )
    fits = "what one line covers: 30s, 5m, 1h, 1d (default: fits the stream)"
    parser.add_argument("--window", type=jobs.seconds, metavar="TIME", help=fits)
    parser.add_argument(
        "--depth", type=int, default=1, metavar="N", help="tokens that tell subjects apart (default: 1)"
    )
    parser.add_argument("--subject", default="", metavar="PATTERN", help="only subjects that match, as orders.*.new")
    parser.add_argument(
        "--since", default="", metavar="TIME", help="from this time on: ISO 8601, or 90s, 2h, 7d before now"
    )
    parser.add_argument("--max-p99", type=int, metavar="MS", help="exit with 1 when the p99 of all is more than MS")
    plots.add_plot(parser)
    return parser.parse_args(argv)


class Latencies:
    """Microseconds, as many as there are, in bounded memory: the least and the most exactly, the others to 0.5 %."""

    def __init__(self) -> None:
        self.count = 0
        self.least = self.most = 0
        self._near: Counter[int] = Counter()

    def add(self, latency_us: int) -> None:
        self.least = min(self.least, latency_us) if self.count else latency_us
        self.most = max(self.most, latency_us) if self.count else latency_us
        self.count += 1
        unit = 10 ** max(len(str(abs(latency_us))) - 3, 0)
        self._near[(latency_us + unit // 2) // unit * unit] += 1

    def merge(self, other: Latencies) -> None:
        """With those of another."""
        if other.count:
            self.least = min(self.least, other.least) if self.count else other.least
            self.most = max(self.most, other.most) if self.count else other.most
            self.count += other.count
            self._near += other._near

    def percentile(self, percent: float) -> int:
        """The smallest latency that so many percent do not go beyond."""
        wanted = max(math.ceil(self.count * percent / 100), 1)
        for latency, count in sorted(self._near.items()):
            wanted -= count
            if wanted <= 0:
                return min(max(latency, self.least), self.most)
        return self.most

    def row(self) -> jobs.Row:
        """In milliseconds."""
        values = [self.least, *map(self.percentile, PERCENTILES), self.most]
        return {"messages": self.count, **dict(zip(COLUMNS[2:], (value / 1000 for value in values), strict=True))}


Found = dict[int | str, Latencies]


def latencies(args: argparse.Namespace, snapshot: StreamSnapshot, window: int) -> tuple[Found, int]:
    """Of each window (its start in s) or beginning of subjects; and how many messages name no time."""
    found: Found = {}
    without = 0
    source = "data" if args.field else "headers"
    start_ns = since_ns(args.since, "--since") if args.since else MIN_TIME_NS
    for batch in snapshot.batches([source, "time", "subject"], start_ns=start_ns, subject=args.subject):
        times = batch.column("time").cast("int64").to_pylist()
        for value, stored, subject in zip(
            _values(args, batch), times, batch.column("subject").to_pylist(), strict=True
        ):
            event = event_us(value, args.unit)
            if event is None:
                without += 1
                continue
            key = beginning(subject, args.depth) if args.by == "subject" else stored // 10**6 // window * window
            if key not in found:
                found[key] = Latencies()
            found[key].add(stored - event)
    return found, without


def _values(args: argparse.Namespace, batch: pa.RecordBatch) -> Iterable[object]:
    """What each message says of the time of its event."""
    if args.field:
        return (field_of(payload, args.field) for payload in batch.column("data").to_pylist())
    from jetbroker.store.offline.arrow import header_values

    return list(header_values(batch.column("headers"), args.header).to_pylist())


def chart(found: Found, window: int) -> plots.Chart:
    """The percentiles of each line of the report."""
    keys = sorted(found, key=str)
    series = {f"p{percent}": [found[key].percentile(percent) / 1000 for key in keys] for percent in PERCENTILES}
    title = "From event to disk"
    starts = sorted(key for key in found if isinstance(key, int))
    if starts:
        series = {name: [found[start].percentile(float(name[1:])) / 1000 for start in starts] for name in series}
        return plots.OverTime(title, "ms", starts, series, window, lines=True)
    p99 = {"p99": series["p99"]}
    return plots.ByName(title + ", p99", "ms", [str(key) for key in keys], p99)


def report(args: argparse.Namespace) -> int:
    plots.check(args.plot)
    if bool(args.field) == bool(args.header):
        raise StoreReadError("give --field or --header: where a message says when its event was")
    started = time.perf_counter()
    snapshot = jobs.streams_of(args).open()
    window = args.window or (
        fitting_interval(snapshot.parts[0].first_ns, snapshot.parts[-1].last_ns) if snapshot.parts else 1
    )
    found, without = latencies(args, snapshot, window)
    whole = Latencies()
    for each in found.values():
        whole.merge(each)
    plots.save(args.plot, args.stream, [chart(found, window)])
    first = "subject" if args.by == "subject" else "start"
    rows = [
        {first: key if isinstance(key, str) else jobs.utc(key * 10**9), **each.row()}
        for key, each in sorted(found.items())
    ]
    total = whole.row() if whole.count else {"messages": 0}
    more = {"all": total, "without_time": without, "window_s": None if args.by == "subject" else window}
    told = f"{whole.count:,} messages" + (f", {without:,} others name no time" if without else "")
    shown = rows if args.json else [*rows, {first: "all", **total}] if rows else []
    jobs.show(args, f"{args.stream}: from event to disk, {told}", shown, (first, *COLUMNS[1:]), more)
    jobs.say(f"took {time.perf_counter() - started:.1f} s; this needs no Spark")
    if whole.count and abs(whole.percentile(50)) > FAR_US:
        jobs.say(
            "latency_report: most events are years away from the storing of their messages; numbers were taken for "
            f"{args.unit} since 1970: --unit says otherwise"
        )
    late = args.max_p99 is not None and whole.count > 0 and whole.percentile(99) > args.max_p99 * 1000
    return jobs.FOUND if late else jobs.OK


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0, 1 for a p99 above --max-p99, or 2 after saying on stderr why there is no report."""
    args = arguments(argv)
    return jobs.run("latency_report", lambda: report(args))


if __name__ == "__main__":
    sys.exit(main())
