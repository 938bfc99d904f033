"""Small real stores, as files in memory: what crafted files are made of."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random

from jetbroker.store.disk import Disk
from jetbroker.store.log.segmented import SegmentedLog
from jetbroker.store.store import Store
from jetbroker.tick import Tick

ACCOUNT = "$G"
VICTIM = "V"  # whose files are crafted
BYSTANDER = "B"  # whose files nobody touches
BYSTANDER_MESSAGES = 3
SEGMENT_BYTES = 700
KINDS = ("plain", "killed", "packed", "cached")
MSG_ID, TTL, BATCH, BATCH_FIRST, BATCH_LAST = 1, 2, 8, 16, 32  # flags of records
HEAD, OP, ENTRY = (struct.Struct(shape) for shape in ("<IIqQQQQ", "<QQII", "<QQqII"))  # of a consumer's records
MEMORY_FOLDER = Path("/dev/shm")


class SampleDisk(Disk):
    """The same ids and times at each run, so that an input means the same; and no reserve."""

    def __init__(self) -> None:
        self.random = Random(5)
        self.clock = 1_700_000_000_000_000_000

    def random_bytes(self, n: int) -> bytes:
        return self.random.randbytes(n)

    def time_ns(self) -> int:
        self.clock += 1_000_000
        return self.clock

    def allocate(self, fd: int, size: int) -> None:
        pass


@dataclass(frozen=True)
class Sample:
    """A store's files by their path in it, and the victim's id."""

    files: dict[str, bytes]
    stream_id: int


def temporary_folder() -> str:
    """A new folder, in memory where there is such a place."""
    return tempfile.mkdtemp(prefix="jetbroker-files-", dir=MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None)


def fill(log: SegmentedLog, messages: int) -> None:
    """Messages with and without headers, on a few subjects, some of them removed."""
    for number in range(1, messages + 1):
        headers = b"NATS/1.0\r\nNats-Msg-Id: %d\r\nA: b\r\n\r\n" % number if number % 3 == 0 else b""
        flags = MSG_ID if headers else 0
        log.append_message(
            b"v.%d" % (number % 4), b"payload %d " % number * (number % 5), headers, number * 1000, flags
        )
    for seq in (2, 3, 7):
        log.remove(seq)


def state_entries() -> list[bytes]:
    """What consumers have recorded: a snapshot, and batches with every operation."""
    head = (1_700_000_000_000_000_000, 9, 9, 0, 0)
    entries = [(seq, seq, 1_600_000_000_000_000_000, 1 + seq % 2, seq == 4) for seq in range(1, 6)]
    batch = HEAD.pack(0x42, 6, *head)
    batch += OP.pack(6, 6, 4, 1) + OP.pack(6, 0, 2, 2) + OP.pack(1, 1, 0, 3) + OP.pack(4, 4, 0, 4)
    batch += OP.pack(5, 0, 0, 5) + OP.pack(6, 5_000_000_000, 0, 8)
    lists = HEAD.pack(0x42, 2, *head) + OP.pack(10, 10, 3, 6) + b"\x02\x03" + bytes(6)
    lists += OP.pack(12, 0, 2, 7) + b"\x01" + bytes(7)
    snapshot = HEAD.pack(0x53, len(entries), *head) + bytes(8) + b"".join(ENTRY.pack(*entry) for entry in entries)
    return [snapshot + OP.pack(2, 7, 0, 8), batch, lists]


async def _make(path: str, kind: str) -> int:
    tick = Tick(asyncio.get_running_loop())
    store = Store.open(path, tick, sync=3600.0, disk=SampleDisk(), segment_bytes=SEGMENT_BYTES, domain="edge")
    config = {"subjects": ["v.*"], "compression": "s2" if kind == "packed" else "none"}
    bystander = await store.create_stream(ACCOUNT, BYSTANDER, {"subjects": ["b"]}, "file", 1)
    for number in range(BYSTANDER_MESSAGES):
        bystander.append_message(b"b", b"bystander %d" % number, b"", 1)
    log = await store.create_stream(ACCOUNT, VICTIM, config, "file", 1)
    fill(log, 30)
    if kind == "killed":
        log.append_message(b"v.batch", b"1", b"", 0, BATCH | BATCH_FIRST)
        log.append_message(b"v.batch", b"2", b"", 0, BATCH | BATCH_LAST)
        log.append_message(b"v.ttl", b"3", b"NATS/1.0\r\nNats-TTL: 1h\r\n\r\n", 0, TTL)
        log.skip_to(log.last_seq + 20)
    await store.update_stream(ACCOUNT, VICTIM, {**config, "max_msgs": 100})
    consumer = await store.create_consumer(ACCOUNT, VICTIM, "C", {"durable_name": "C"}, 1, False)
    for entry in state_entries():
        consumer.append_entry(entry)
    origins = await store.create_consumer(ACCOUNT, VICTIM, ".origins", {}, 1, False)
    origins.append_entry(b'{"at":3,"of":{"S":7}}')
    await log.commit()
    await store.close()
    return int(log.stream_id)


@functools.cache
def sample(kind: str) -> Sample:
    """A store of one of KINDS."""
    folder = temporary_folder()
    try:
        stream_id = asyncio.run(_make(folder, kind))
        if kind == "killed":
            os.unlink(f"{folder}/clean.json")
        if kind != "cached":
            shutil.rmtree(f"{folder}/cache.mdb")
        found = {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(Path(folder).rglob("*"))
            if path.is_file() and path.name not in ("lock", "reserve", "lock.mdb")
        }
    finally:
        shutil.rmtree(folder)
    return Sample(found, stream_id)


def write(folder: str, files: dict[str, bytes]) -> None:
    """Put files into an empty folder."""
    for name, data in files.items():
        path = f"{folder}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
