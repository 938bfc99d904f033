"""Publishes a stream's messages again, from the files of its store through a broker. Needs no Spark.

python -m spark_jobs.replay STORE STREAM --url nats://localhost:4222 --into COPY
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from jetbroker.client.server import ClientError, Server
from jetbroker.errors import StoreReadError
from jetbroker.store.offline.reader import MAX_SEQ, MAX_TIME_NS, MIN_TIME_NS, Query, StreamSnapshot, is_literal
from jetbroker.tables.asked import since_ns
from spark_jobs import jobs
from spark_jobs.publisher import Publisher, PublishError

COLUMNS = ("seq", "subject", "headers", "data")
MOST_IN_FLIGHT = 65_536
ACK_SECONDS = 30.0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = jobs.parser_of(
        "replay",
        "Publishes a range of a stream again, through a broker, in order. Each message has a Nats-Msg-Id of the "
        "stream's id and its sequence, so that a run which was cut short may be repeated: within the duplicate window "
        "of the stream that takes them no message is stored twice. Headers that begin with Nats- are left out. Needs "
        "no Spark.",
        "/var/lib/jetbroker ORDERS --url nats://localhost:4222 --into ORDERS_TEST --prefix test. --since 2h",
    )
    parser.add_argument("--url", required=True, help="where the broker is: nats://host:4222, several with commas")
    parser.add_argument(
        "--into", required=True, metavar="STREAM", help="the stream that takes them; another one refuses them"
    )
    parser.add_argument("--prefix", default="", help="put in front of each subject, as test.")
    parser.add_argument(
        "--name",
        default="replay",
        help="begins the ids: another name stores the messages once more (default: %(default)s)",
    )
    chosen = parser.add_argument_group("messages")
    chosen.add_argument("--subject", default="", metavar="PATTERN", help="only subjects that match, as orders.*.new")
    chosen.add_argument("--start-seq", type=int, default=0, metavar="SEQ", help="from this sequence on")
    chosen.add_argument("--end-seq", type=int, default=MAX_SEQ, metavar="SEQ", help="up to this sequence")
    when = "ISO 8601 (UTC unless it says otherwise), or a duration before now (90s, 2h, 7d)"
    chosen.add_argument("--since", default="", metavar="TIME", help=f"from this time on: {when}")
    chosen.add_argument("--until", default="", metavar="TIME", help="before this time")
    pace = parser.add_argument_group("pace")
    pace.add_argument(
        "--in-flight", type=_count(MOST_IN_FLIGHT), default=4096, metavar="N",
        help="messages that may wait for their ack (default: %(default)s, never more than 16 MiB)",
    )  # fmt: skip
    pace.add_argument("--rate", type=_count(10**7), metavar="N", help="at most N messages a second")
    login = parser.add_argument_group("login")
    for name in ("user", "password", "token"):
        login.add_argument(f"--{name}", default="")
    login.add_argument("--creds", default="", metavar="FILE", help="a credentials file")
    login.add_argument("--nkey", default="", metavar="FILE", help="a file that holds a user's seed")
    login.add_argument("--tlsca", default="", metavar="FILE", help="whom to trust (PEM)")
    login.add_argument("--tlscert", default="", metavar="FILE", help="the certificate to show (PEM)")
    login.add_argument("--tlskey", default="", metavar="FILE", help="its key (PEM)")
    return parser.parse_args(argv)


def _count(most: int) -> Callable[[str], int]:
    """For argparse: a number from 1 to so many."""

    def count(text: str) -> int:
        if not text.isdecimal() or not 0 < int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {most:,}")
        return int(text)

    return count


def query_of(args: argparse.Namespace) -> Query:
    """Raises StoreReadError for what makes no sense."""
    return Query(
        start_seq=min(max(args.start_seq, 0), MAX_SEQ),
        end_seq=min(max(args.end_seq, 0), MAX_SEQ),
        start_ns=since_ns(args.since, "--since") if args.since else MIN_TIME_NS,
        end_ns=since_ns(args.until, "--until") - 1 if args.until else MAX_TIME_NS,
        subject=args.subject,
    )


def server_of(args: argparse.Namespace) -> Server:
    """Raises ClientError for a URL that is none."""
    urls = tuple(url if "://" in url else f"nats://{url}" for url in args.url.split(",") if url)
    return Server(
        urls, args.user, args.password, args.token, args.creds, args.nkey, args.tlsca, args.tlscert, args.tlskey
    )


def messages(
    snapshot: StreamSnapshot, query: Query, prefix: str
) -> Iterator[tuple[int, str, list[tuple[str, str]], bytes]]:
    """(sequence, subject to publish to, headers, payload) of what the query takes, in order."""
    chosen = {name: getattr(query, name) for name in ("start_seq", "end_seq", "start_ns", "end_ns", "subject")}
    for batch in snapshot.batches(COLUMNS, **chosen):
        for seq, subject, headers, data in zip(*(batch.column(name).to_pylist() for name in COLUMNS), strict=True):
            pairs = [(name, value) for name, values in headers for value in values if not name.startswith("Nats-")]
            yield seq, prefix + subject, pairs, data


def block(message_id: str, into: str, headers: list[tuple[str, str]]) -> bytes:
    """The headers that a message is published with."""
    own = [("Nats-Msg-Id", message_id), ("Nats-Expected-Stream", into)]
    lines = "".join(f"{key}: {value}\r\n" for key, value in [*own, *headers])
    return f"NATS/1.0\r\n{lines}\r\n".encode()


class Pace:
    """No more than so many a second, by waiting; None: as fast as may be."""

    def __init__(self, rate: int | None) -> None:
        self._rate = rate
        self._begun = time.monotonic()
        self._passed = 0

    def step(self) -> None:
        """One more."""
        self._passed += 1
        if self._rate is not None:
            ahead = self._passed / self._rate - (time.monotonic() - self._begun)
            if ahead > 0.01:
                time.sleep(ahead)


def replay(args: argparse.Namespace) -> int:
    for name, text in (("into", args.into), ("name", args.name)):
        if not text.isascii() or not text.isprintable() or " " in text:
            raise StoreReadError(f"--{name}: {text!r} cannot stand in a header")
    if args.prefix and not is_literal(args.prefix + "x"):
        raise StoreReadError(f"--prefix: {args.prefix!r} does not begin a subject: test. does")
    snapshot = jobs.streams_of(args).open()
    query, server = query_of(args), server_of(args)
    position = 0
    started = time.perf_counter()
    try:
        with Publisher(server, args.in_flight, ACK_SECONDS) as publisher:
            for seq in published(args, snapshot, query, publisher):
                position = seq
            publisher.flush()
    except ClientError as error:
        again = f"; it was at sequence {position}: run it again, and nothing is stored twice" if position else ""
        raise PublishError(f"{error}{again}") from None
    row = {"stream": args.stream, "into": args.into, "stored": publisher.stored, "repeated": publisher.repeated}
    row["last_seq"] = position
    damaged = sum(last - first + 1 for first, last in snapshot.damaged)
    if args.json:
        print(json.dumps({**row, "damaged": damaged}))
    else:
        jobs.show(args, f"{args.stream} into {args.into}", [row], list(row)[2:])
    jobs.say(f"took {time.perf_counter() - started:.1f} s; this needs no Spark")
    if damaged:
        jobs.say(f"replay: {damaged:,} messages of the stream cannot be read and were left out")
    return jobs.FOUND if damaged else jobs.OK


def published(args: argparse.Namespace, snapshot: StreamSnapshot, query: Query, publisher: Publisher) -> Iterator[int]:
    """The sequence of each message that was handed over."""
    origin, pace = f"{snapshot.stream}.{snapshot.stream_id:x}", Pace(args.rate)
    for seq, subject, headers, data in messages(snapshot, query, args.prefix):
        head = block(f"{args.name}:{origin}:{seq}", args.into, headers)
        if len(head) + len(data) > publisher.max_payload:
            raise PublishError(
                f"sequence {seq} is larger than the {publisher.max_payload:,} bytes that the broker takes"
            )
        publisher.publish(subject, head, data)
        pace.step()
        yield seq


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0, 1 when messages could not be read, or 2 after saying on stderr what is wrong."""
    args = arguments(argv)
    return jobs.run("replay", lambda: replay(args))


if __name__ == "__main__":
    sys.exit(main())
