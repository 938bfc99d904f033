"""Opening crafted stores: the broker's recovery and the offline reader, twice, with a message appended between."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fuzz.checks import Target, require
from fuzz.store_crafting import craft, generate, touches_marker, write_crafted
from fuzz.store_samples import (
    ACCOUNT,
    BYSTANDER,
    BYSTANDER_MESSAGES,
    SEGMENT_BYTES,
    VICTIM,
    SampleDisk,
    temporary_folder,
)
from jetbroker.errors import StorageError, StoreReadError, StoreVersionError
from jetbroker.jetstream.consumers.state import replay
from jetbroker.jetstream.consumers.tracker import AckTracker
from jetbroker.limits import SEGMENT_FOOTER_BYTES, SEGMENT_PLAIN_BYTES
from jetbroker.store.log.segmented import SegmentedLog
from jetbroker.store.log.stream_log import SubjectFilter
from jetbroker.store.offline.reader import list_streams, open_stream
from jetbroker.store.store import Store
from jetbroker.tick import Tick

# What one crafted store may cost besides its size: a packed segment and its footer unpacked, and copied.
MEMORY_BYTES = 2 * (SEGMENT_PLAIN_BYTES + SEGMENT_FOOTER_BYTES)
SECONDS = 30.0  # of the processor for one input, with a sanitizer, too
LISTED = 100_000  # sequences in a row that are looked at one by one
STATUS = Path("/proc/self/status")


def _kilobytes(name: str) -> int:
    for line in STATUS.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    return 0


@contextmanager
def bounded() -> Iterator[None]:
    """What happens inside takes no more memory and time than it may."""
    if STATUS.exists():
        Path("/proc/self/clear_refs").write_text("5")  # the highest use of memory is counted anew
    before, began = _kilobytes("VmRSS"), time.process_time()
    yield
    used, took = (_kilobytes("VmHWM") - before) * 1024, time.process_time() - began
    require(used < MEMORY_BYTES, "memory", used)
    require(took < SECONDS, "seconds", took)


def walk(log: SegmentedLog, start: int = 1) -> list[int]:
    """Every message of a log, by its filter."""
    found, start = [], max(start, 1)
    for _ in range(LISTED):
        result, seq, *_ = log.read_next(SubjectFilter(b"*.*"), start)
        if result == 1 or seq < start:
            break
        if result == 0:
            found.append(seq)
        start = seq + 1
    return found


def ask(log: SegmentedLog) -> None:
    """What the engine asks a log."""
    found = walk(log)
    for state in log.matching_subjects(b">"):
        require(log.first_of(state) <= state.last, "first", state.subject)
    require(len(found) <= log.messages or log.messages == 0, "messages", len(found), log.messages)
    log.count_from(SubjectFilter(b"v.1"), log.first_seq + 1)
    for time_ns in (-(2**63), 0, 5000, 2**63 - 1):
        log.seq_at_time(time_ns)
    if log.last_seq - log.first_seq < LISTED:
        log.deleted()
    log.deleted_count()
    log.last_by_subject(b"v.*")
    for seq in (0, 1, 5, log.first_seq, log.last_seq, 2**63, 2**64 - 1):
        log.get(seq)
        log.time_of(seq)


def restore_consumers(recovered: Any) -> None:
    """The state of each, if its records are a consumer's."""
    for consumer in recovered.consumers:
        log = recovered.log
        if consumer.name == ".origins":
            continue
        try:
            state = replay(consumer.state_log.recovered, log.first_seq, log.last_seq, log.slots_held())
        except ValueError:
            continue
        tracker: Any = AckTracker(*[1])  # explicit acks
        tracker.configure(30_000_000_000, [], -1)
        tracker.restore(state, 10**12, 1_700_000_000_000_000_000)


def change(log: SegmentedLog) -> bytes:
    """Remove and append; returns what was appended, b"" when the log refuses."""
    if log.messages:
        log.remove(log.first_seq)
        log.remove(log.last_seq, True)
        log.purge(b"v.2", 0, 1)
    payload = b"appended at %d" % log.last_seq
    try:
        log.append_message(b"v.1", payload, b"", 1)
    except StorageError:
        return b""
    return payload


async def play_store(folder: str, appended: bytes, problems: list[dict[str, Any]]) -> bytes:
    """Open, ask everything, append, close; returns what was appended."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: problems.append(context))
    store = Store.open(folder, Tick(loop), sync=3600.0, disk=SampleDisk(), segment_bytes=SEGMENT_BYTES, domain="edge")
    if not store._cache.exists():
        store._cache.given_up = "no sample but one has a cache: to make one takes a quarter of the time"
    try:
        require(ACCOUNT in store.accounts(), "account")
        logs = {recovered.name: recovered for recovered in store.recover(ACCOUNT)}
        require(BYSTANDER in logs, "bystander", [offline.reason for offline in store.offline(ACCOUNT)])
        require(logs[BYSTANDER].log.messages == BYSTANDER_MESSAGES, "bystander")
        victim = logs.get(VICTIM)
        if victim is None:
            return b""
        ask(victim.log)
        restore_consumers(victim)
        if appended and not any("left alone" in line for line in victim.damage):
            require(victim.log.get(victim.log.last_seq)[3] == appended, "the message appended before")
        payload = change(victim.log)
        await victim.log.commit()
        ask(victim.log)
        return payload
    finally:
        await store.close()


def read_offline(folder: str, subject: str) -> None:
    """Every stream by the offline reader."""
    for account, stream in list_streams(folder):
        try:
            snapshot = open_stream(folder, stream, account)
            rows = sum(batch.num_rows for batch in snapshot.batches(subject=subject))
        except StoreReadError:
            require(stream != BYSTANDER, "bystander")
            continue
        require(stream != BYSTANDER or subject != "" or rows == BYSTANDER_MESSAGES, "bystander", rows)


def check_files(data: bytes) -> None:
    """The broker starts and every stream that is whole is as it was; what is wrong is an error that says so."""
    kind, files = craft(data)
    folder = temporary_folder()
    problems: list[dict[str, Any]] = []
    logging.disable(logging.WARNING)  # the reader's lines about what is damaged
    try:
        write_crafted(folder, files)
        with bounded():
            try:
                read_offline(folder, "v.1" if data[:1] < b"\x40" else "")
                appended = asyncio.run(play_store(folder, b"", problems))
                asyncio.run(play_store(folder, appended, problems))
                if data[:1] < b"\x40":
                    read_offline(folder, "")
            except StoreVersionError as error:
                require(touches_marker(files, kind) or "format version" in str(error), error)
    finally:
        logging.disable(logging.NOTSET)
        shutil.rmtree(folder)
    for problem in problems:
        cause = problem.get("exception")
        if not isinstance(cause, (StorageError, OSError)):
            raise RuntimeError(problem.get("message")) from cause


TARGET = Target("files", generate, check_files, may_end_the_process=True)
