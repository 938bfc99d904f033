"""Streaming queries in Spark: how soon a message counts, how fast a backlog is read, how fast rows go out."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator

import nats
import psutil
from pyspark.sql import DataFrame

from benchmarks.tables.batch import Frames, WrongAnswerError
from benchmarks.tables.figures import Figure
from benchmarks.tables.messages import PAYLOAD_BYTES, STREAM, SUBJECTS, payload, subject
from jetbroker.store.offline.reader import open_stream
from jetbroker.testing import Server
from tests.support.stores import StreamWriter

APPENDS = 60
WARM_APPENDS = 20
BACKLOGS = 3
WARM_BACKLOGS = 1
WAIT_SECONDS = 60.0
WARM_ROWS_OUT = 100_000
COLUMNS = "seq,time,subject,data"


def latency(frames: Frames, writer: StreamWriter) -> Iterator[Figure]:
    """From the append of a message until a micro-batch has counted it, in milliseconds; one message at a time."""
    counted = threading.Semaphore(0)

    def count(batch: DataFrame, _: int) -> None:
        for _ in range(batch.count()):
            counted.release()

    source = frames.spark.readStream.format("jetstream").options(stream=STREAM, startingOffsets="latest")
    taken = []
    with tempfile.TemporaryDirectory() as folder:
        query = source.load(str(frames.store)).writeStream.foreachBatch(count)
        running = query.option("checkpointLocation", folder).start()
        until = time.monotonic() + WAIT_SECONDS
        while not running.lastProgress and not running.exception():
            if time.monotonic() > until:
                raise WrongAnswerError(f"no progress within {WAIT_SECONDS:g} s")
            time.sleep(0.01)
        for _ in range(WARM_APPENDS + APPENDS):
            began = time.perf_counter()
            writer.append(subject(writer.last_seq), payload(writer.last_seq))
            writer.flush()
            if not counted.acquire(timeout=WAIT_SECONDS):
                raise WrongAnswerError(f"no micro-batch within {WAIT_SECONDS:g} s: {running.exception()}")
            taken.append((time.perf_counter() - began) * 1000)
        running.stop()
    taken = sorted(taken[WARM_APPENDS:])
    p99 = taken[len(taken) * 99 // 100]
    made_of = f"p99 {p99:.0f} ms, each message an append of its own"
    yield Figure("append to counted micro-batch, p50", statistics.median(taken), "ms", most=120, made_of=made_of)


def backlog(frames: Frames) -> Iterator[Figure]:
    """All of the stream by a query that ends with what is there, against a batch of the same columns: rows a second.

    The stream's time is that of its micro-batches, with their planning and their checkpoint.
    """
    batches, streams = [], []
    for _ in range(WARM_BACKLOGS + BACKLOGS):
        began = time.perf_counter()
        frames.stream(columns=COLUMNS).write.format("noop").mode("overwrite").save()
        batches.append(time.perf_counter() - began)
        streams.append(caught_up(frames))
    ours, theirs = statistics.median(streams[WARM_BACKLOGS:]), statistics.median(batches[WARM_BACKLOGS:])
    made_of = f"{ours:.3f} s, batch {theirs:.3f} s"
    yield Figure("a backlog in a stream, against the batch's rate", theirs / ours, least=0.9, made_of=made_of)


def caught_up(frames: Frames) -> float:
    """Seconds of the micro-batches of one query over everything."""
    source = frames.spark.readStream.format("jetstream").options(stream=STREAM, columns=COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        query = source.load(str(frames.store)).writeStream.format("noop").option("checkpointLocation", folder)
        running = query.trigger(availableNow=True).start()
        running.awaitTermination()
        return sum(float(progress["durationMs"]["triggerExecution"]) for progress in running.recentProgress) / 1000


def rows_out(frames: Frames, rows: int) -> Iterator[Figure]:
    """Rows that `df.write` publishes through a broker on the same cores; once more while a worker is killed."""
    with Server(jetstream=True) as server:
        asyncio.run(_streams(server.url))
        publish(frames, server, "warm", min(rows, WARM_ROWS_OUT))
        began = time.perf_counter()
        publish(frames, server, "out", rows)
        rate = rows / (time.perf_counter() - began)
        killing = threading.Thread(target=kill_a_worker, args=(server, rows // 2), daemon=True)
        killing.start()
        publish(frames, server, "killed", rows)
        killing.join(WAIT_SECONDS)
        if killing.is_alive():
            raise WrongAnswerError("no worker was killed")
        out, killed = (open_stream(server.store_dir, name).messages for name in ("OUT", "KILLED"))
    if out != rows:
        raise WrongAnswerError(f"{out:,} messages instead of {rows:,}")
    wrong = abs(killed - rows)
    yield Figure(f"{rows:,} rows out", rate, "rows/s", least=100_000, made_of="the broker on the same cores")
    title = "the same, a worker killed half-way"
    yield Figure(title, wrong, "too many or few", most=0, made_of=f"{killed:,} stored")


async def _streams(url: str) -> None:
    client = await nats.connect(url)
    for name in ("warm", "out", "killed"):
        await client.jetstream().add_stream(name=name.upper(), subjects=[f"{name}.>"])
    await client.close()


def publish(frames: Frames, server: Server, prefix: str, rows: int) -> None:
    data = f"rpad(concat('{{\"id\":', id, ',\"note\":\"'), {PAYLOAD_BYTES}, 'x')"
    frame = frames.spark.range(0, rows, 1, 2).selectExpr(
        f"concat('{prefix}.', id % {SUBJECTS}) AS subject", f"{data} AS data"
    )
    frame.write.format("jetstream").options(url=server.url).mode("append").save()


def kill_a_worker(server: Server, messages: int) -> None:
    """kill -9 for a process that publishes, once so many messages are stored."""
    while open_stream(server.store_dir, "KILLED").messages < messages:
        time.sleep(0.02)
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = child.parent()
            if parent is not None and all("pyspark.daemon" in process.cmdline() for process in (child, parent)):
                child.kill()  # a worker is a fork of the daemon
                return
