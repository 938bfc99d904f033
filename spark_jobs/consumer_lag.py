"""How far the consumers of streams are behind, from their logs on disk. Needs no Spark.

python -m spark_jobs.consumer_lag STORE STREAM
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from spark_jobs import jobs, plots
from spark_jobs.view_rows import consumer_rows

# of a row of the view
NAMES = ("stream", "consumer", "ack_policy", "deliver_policy", "filters", "created", "delivered_seq", "ack_floor_seq",
         "deliveries", "ack_pending", "redelivered", "pending", "given_up", "waiting_since")  # fmt: skip
COLUMNS = ("stream", "consumer", "lag", "ack_pending", "pending", "redelivered", "given_up", "ack_floor_seq",
           "waiting_since")  # fmt: skip


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = jobs.parser_of(
        "consumer_lag",
        "Lists the consumers of a stream with their lag: what they have not acked yet, delivered or still ahead. "
        "Exit code 0: none is too far behind, 1: one is, 2: it could not be told. Consumers with memory storage are "
        "not on disk.",
        "/var/lib/jetbroker 'ORDERS_*' --max-lag 10000",
        "the name of the stream, several with commas, or a pattern as 'ORDERS_*'",
    )
    parser.add_argument(
        "--max-lag", type=int, metavar="N", help="exit with 1 when a consumer has not acked more than N"
    )
    plots.add_plot(parser)
    return parser.parse_args(argv)


def lags(args: argparse.Namespace) -> list[jobs.Row]:
    """One row for each consumer, the largest lag first."""
    streams = jobs.streams_of(args)
    found = []
    for snapshot in streams.open_all():
        for values in consumer_rows(snapshot, streams.consumer_logs(snapshot)):
            row = dict(zip(NAMES, values, strict=True))
            row["lag"] = row["ack_pending"] + row["pending"]
            found.append({**row, **{key: jobs.utc(row[key]) for key in ("created", "waiting_since")}})
    return sorted(found, key=lambda row: (-row["lag"], row["stream"], row["consumer"]))


def chart(rows: Sequence[jobs.Row]) -> plots.Chart:
    """What each consumer has not acked: delivered, and still ahead."""
    names = [row["consumer"] if len({row["stream"] for row in rows}) == 1 else f"{row['stream']} {row['consumer']}"
             for row in rows]  # fmt: skip
    return plots.ByName("Lag", "messages", names, {
        "delivered, not acked": [row["ack_pending"] for row in rows],
        "not delivered": [row["pending"] for row in rows],
    })  # fmt: skip


def report(args: argparse.Namespace) -> int:
    plots.check(args.plot)
    rows = lags(args)
    plots.save(args.plot, f"Consumers of {args.stream}", [chart(rows)])
    jobs.show(args, f"{args.stream}: {len(rows):,} consumers on disk", rows, COLUMNS)
    jobs.say("read from consumers' logs and footers; this needs no Spark")
    late = [row["consumer"] for row in rows if args.max_lag is not None and row["lag"] > args.max_lag]
    return jobs.FOUND if late else jobs.OK


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code; see --help."""
    args = arguments(argv)
    return jobs.run("consumer_lag", lambda: report(args))


if __name__ == "__main__":
    sys.exit(main())
