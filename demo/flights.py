"""Flights through a stream into Spark, with the broker killed half-way.

Starts a broker, publishes every flight that left New York in 2013, lets two workers consume them, kills the broker
with -9 in the middle of both and starts it again; then compares what Spark reads from the stream with the source.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import shlex
import signal
import sys
import tempfile
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import clients
import data
import tables
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from server import Broker

from spark_jobs.session import SparkMissingError, java_version

PUBLISHERS = 2
WORKERS = 2
POLL_SECONDS = 0.05
LIMIT_SECONDS = 600.0  # for publishing and consuming everything


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flights", type=int, default=0, metavar="N", help="only the first N flights (default: all)")
    parser.add_argument("--keep", metavar="DIR", help="keep the store here (default: a temporary directory)")
    parser.add_argument("--broker", default=shlex.join([sys.executable, "-m", "jetbroker"]), metavar="COMMAND",
                        help="what starts the broker (default: this installation's)")  # fmt: skip
    return parser.parse_args()


class Run:
    """Publishing and consuming with one kill in between."""

    def __init__(self, console: Console, broker: Broker, subjects: list[str], payloads: list[bytes]) -> None:
        self.console = console
        self.broker = broker
        self.count = len(payloads)
        self.counters = clients.Progress(self.count, PUBLISHERS, WORKERS)
        fork = multiprocessing.get_context("fork")  # the children share the messages instead of copying them
        self.publishers: list[BaseProcess] = [
            fork.Process(
                target=clients.publish,
                args=(broker.url, number, self.counters, subjects, payloads, range(number, self.count, PUBLISHERS)),
                daemon=True,
            )
            for number in range(PUBLISHERS)
        ]
        self.workers: list[BaseProcess] = [
            fork.Process(target=clients.consume, args=(broker.url, number, self.counters), daemon=True)
            for number in range(WORKERS)
        ]
        self.down_seconds = 0.0
        self.publish_seconds = 0.0
        self.consume_seconds = 0.0

    def go(self) -> None:
        for process in self.publishers + self.workers:
            process.start()
        try:
            with self.bars() as bars:
                self.watch(bars)
        finally:
            for process in self.publishers + self.workers:
                process.kill()
                process.join()

    def bars(self) -> Progress:
        return Progress(
            TextColumn("{task.description:<20}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"),
            TimeElapsedColumn(), console=self.console,
        )  # fmt: skip

    def watch(self, bars: Progress) -> None:
        started = time.perf_counter()
        publishing = bars.add_task("published, acked", total=self.count, rate="")
        consuming = bars.add_task("consumed, acked", total=self.count, rate="")
        killed = False
        while any(process.is_alive() for process in self.workers):
            elapsed = time.perf_counter() - started
            acked, handled = clients.total(self.counters.acked), clients.total(self.counters.handled)
            bars.update(publishing, completed=acked, rate=rate(acked, self.publish_seconds or elapsed))
            bars.update(consuming, completed=min(handled, self.count), rate=rate(handled, elapsed))
            if not killed and acked >= self.count // 2 and handled > 0:
                killed = True
                self.kill_and_restart(acked, handled)
            if not self.publish_seconds and not any(process.is_alive() for process in self.publishers):
                self.publish_seconds = time.perf_counter() - started
                self.check_publishers()
                self.counters.published_all.value = 1
            if elapsed > LIMIT_SECONDS:
                raise SystemExit(f"not done after {LIMIT_SECONDS:.0f} s, see {self.broker.log}")
            time.sleep(POLL_SECONDS)
        self.consume_seconds = time.perf_counter() - started
        bars.update(consuming, completed=sum(self.seen()))

    def kill_and_restart(self, acked: int, handled: int) -> None:
        self.console.print(f"kill -9 after {acked:,} acked publishes and {handled:,} consumed messages")
        self.broker.kill()
        seconds = self.broker.start()
        self.down_seconds = seconds
        self.console.print(f"the broker listens again after {seconds:.2f} s, same store, same port")

    def check_publishers(self) -> None:
        if any(process.exitcode for process in self.publishers):
            raise SystemExit("a publisher failed, its error stands above")

    def seen(self) -> list[bool]:
        """By sequence: did any worker get it?"""
        return [any(counts) for counts in zip(*map(bytes, self.counters.deliveries), strict=True)]

    def summary(self) -> bool:
        """Prints the rates and what was delivered; whether everything was stored once and delivered."""
        stored = asyncio.run(clients.stored_messages(self.broker.url))
        acked, handled = clients.total(self.counters.acked), clients.total(self.counters.handled)
        seen = sum(self.seen())
        self.console.print(
            f"published {acked:,} flights in {self.publish_seconds:.1f} s ({rate(acked, self.publish_seconds)}), "
            f"{clients.total(self.counters.resent):,} of them sent twice; the stream holds {stored:,}"
        )
        self.console.print(
            f"consumed {seen:,} different messages in {self.consume_seconds:.1f} s "
            f"({rate(handled, self.consume_seconds)}), {handled - seen:,} of them delivered again after the kill"
        )
        return stored == seen == acked == self.count


def rate(messages: int, seconds: float) -> str:
    return f"{messages / seconds:,.0f}/s" if seconds > 0 else ""


def demo(args: argparse.Namespace, console: Console, directory: Path) -> int:
    console.print("reading the flights")
    flights = data.load_flights()
    if args.flights:
        flights = flights.head(args.flights)
    subjects, payloads = data.messages(flights)
    console.print(f"{len(payloads):,} flights, {sum(map(len, payloads)) / 1e6:.0f} MB of JSON")
    broker = Broker(shlex.split(args.broker), directory)
    console.print(f"the broker listens after {broker.start():.2f} s on {broker.url}, store {broker.store}")
    try:
        asyncio.run(clients.create_stream(broker.url))
        run = Run(console, broker, subjects, payloads)
        run.go()
        once = run.summary()
        started = time.perf_counter()
        spark = tables.spark_delays(broker.store, clients.STREAM)  # while the broker runs
        seconds = time.perf_counter() - started
    finally:
        broker.stop()
    differing = tables.show(console, spark, data.delays(flights))
    counted = sum(count for count, _ in spark.values())
    console.print(f"Spark started, read and grouped {counted:,} messages in {seconds:.1f} s")
    if differing or not once:
        console.print(f"FAILED: {differing} rows differ" if differing else "FAILED: not every flight is there once")
        return 1
    console.print(f"The stream and the source agree to the last row: {len(spark)} of {len(spark)}.")
    return 0


def main() -> int:
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the broker is stopped too
    console = Console(width=None if sys.stdout.isatty() else 120)
    try:
        java_version()
    except SparkMissingError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    if args.keep:
        Path(args.keep).mkdir(parents=True, exist_ok=True)
        return demo(args, console, Path(args.keep))
    with tempfile.TemporaryDirectory(prefix="jetbroker-demo-") as directory:
        return demo(args, console, Path(directory))


if __name__ == "__main__":
    sys.exit(main())
