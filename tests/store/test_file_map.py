"""Segments that are read here and there are mapped: every answer stays what reading the file would give."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jetbroker.store.log.segmented import SegmentedLog
from tests.store.support import ACCOUNT, open_store, run

MESSAGES = 3000
SEGMENT_BYTES = 256 * 1024
READ_OK, READ_MISSING, READ_DAMAGED = 0, 1, 2

linux = pytest.mark.skipif(sys.platform != "linux", reason="maps of a process are listed in Linux's /proc")


def payload_of(seq: int) -> bytes:
    return random.Random(seq).randbytes(200 + seq % 100)


def append(log: SegmentedLog) -> None:
    seq = log.last_seq + 1
    assert log.append_message(b"key.%d" % seq, payload_of(seq)) == seq


def mapped_segments(path: Path) -> list[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line.split(maxsplit=5)[5] for line in lines if str(path) in line and ".seg" in line]


async def filled(path: Path, **options: Any) -> tuple[Any, Any]:
    store = open_store(str(path), segment_bytes=SEGMENT_BYTES)
    log = await store.create_stream(ACCOUNT, "S", options, "file", 1)
    for _ in range(MESSAGES):
        append(log)
    await log.commit()
    return store, log


@linux
def test_reads_here_and_there_see_what_comes_goes_and_is_overwritten(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, log = await filled(tmp_path)
        choice = random.Random(7)
        gone: set[int] = set()
        mapped: set[str] = set()
        for number in range(6000):
            seq = choice.randint(1, log.last_seq)
            result, _, _, payload, _ = log.get(seq)
            assert result == (READ_MISSING if seq in gone else READ_OK), seq
            assert payload == (b"" if seq in gone else payload_of(seq)), seq
            if number % 3 == 0:
                append(log)
            if number % 20 == 0 and seq not in gone:
                assert log.remove(seq, True)
                gone.add(seq)
            if number % 100 == 0:
                mapped.update(mapped_segments(tmp_path))
                await log.commit()
        assert len(mapped) > 3
        await store.close()
        assert mapped_segments(tmp_path) == []

    run(scenario())


@linux
def test_a_dropped_segment_is_no_longer_mapped(tmp_path: Path) -> None:
    async def scenario() -> None:
        store, log = await filled(tmp_path)
        for seq in range(MESSAGES, 0, -1):
            assert log.get(seq)[3] == payload_of(seq)
        assert mapped_segments(tmp_path)
        log.purge(b"", 0, 0)
        await log.commit()
        assert mapped_segments(tmp_path) == []
        await store.close()

    run(scenario())


@linux
def test_a_file_that_is_cut_under_its_map_costs_the_messages_behind_the_cut(tmp_path: Path) -> None:
    async def scenario() -> None:
        _, log = await filled(tmp_path)
        for seq in range(MESSAGES, 0, -1):
            assert log.get(seq)[0] == READ_OK
        first = min(mapped_segments(tmp_path))
        os.truncate(first, 64 * 1024)
        results = {seq: log.get(seq)[0] for seq in range(MESSAGES, 0, -1)}
        damaged = [seq for seq, result in sorted(results.items()) if result == READ_DAMAGED]
        assert damaged == list(range(damaged[0], damaged[-1] + 1))
        assert damaged[0] > 1 and damaged[-1] < MESSAGES
        assert all(result == READ_OK for seq, result in results.items() if seq not in damaged)
        log.abandon()

    run(scenario())


BUS_ERROR = """
import asyncio, mmap, os, pathlib, sys
sys.path.insert(0, os.getcwd())
from tests.store.test_file_map import MESSAGES, filled, mapped_segments

async def main(path):
    _, log = await filled(path)
    for seq in range(MESSAGES, 0, -1):
        log.get(seq)
    print(len(mapped_segments(path)) > 0, flush=True)
    with open(path / "other", "w+b") as file:
        file.write(bytes(8192))
        file.flush()
        other = mmap.mmap(file.fileno(), 8192)
        os.truncate(file.name, 0)
        print(other[0])

asyncio.run(main(pathlib.Path(sys.argv[1])))
"""


@linux
@pytest.mark.parametrize("options", [(), ("-X", "faulthandler")], ids=["alone", "faulthandler"])
def test_a_bus_error_elsewhere_ends_the_process_as_ever(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, *options, "-c", BUS_ERROR, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (-signal.SIGBUS, "True\n"), done.stderr
    assert ("Bus error" in done.stderr) == bool(options)
