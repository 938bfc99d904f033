"""The store names JetStream's domain to those who read it without the broker."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from jetbroker.errors import StoreOpenError
from jetbroker.store.disk import Disk
from jetbroker.store.format.documents import is_domain
from jetbroker.store.offline.reader import open_stream
from jetbroker.store.recovery.decisions import read_checked_json, write_checked_json
from tests.store.support import ACCOUNT, FaultyDisk, open_store, run, walk


def marker(path: Path) -> dict[str, Any]:
    found = read_checked_json(Disk(), f"{path}/jetbroker.json")
    assert found is not None
    return found


async def opened(path: Path, **options: Any) -> None:
    """Open the store, find or make its stream of one message, close it."""
    store = open_store(str(path), **options)
    streams = store.recover(ACCOUNT)
    if not streams:
        log = await store.create_stream(ACCOUNT, "S", {"subjects": ["a"]}, "file", 1)
        log.append_message(b"a", b"payload", b"", 1)
        await log.commit()
    else:
        assert walk(streams[0].log) == [1]
    await store.close()


def test_it_names_the_domain_and_follows_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        await opened(tmp_path)
        first = marker(tmp_path)
        assert first.keys() == {"format", "epoch"}
        for domain in ("edge", "hub", "hub-2", "Größe"):
            await opened(tmp_path, domain=domain)
            assert marker(tmp_path) == {**first, "domain": domain}
            assert open_stream(tmp_path, "S").domain == domain
        await opened(tmp_path)
        assert marker(tmp_path) == first
        assert open_stream(tmp_path, "S").domain is None

    run(scenario())


def test_the_same_domain_is_not_written_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        await opened(tmp_path, domain="edge")
        before = (tmp_path / "jetbroker.json").stat()
        await opened(tmp_path, domain="edge")
        after = (tmp_path / "jetbroker.json").stat()
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)

    run(scenario())


def test_what_else_the_marker_holds_stays(tmp_path: Path) -> None:
    """So does the domain with a release that knows nothing of it."""

    async def scenario() -> None:
        await opened(tmp_path, domain="edge")
        write_checked_json(Disk(), f"{tmp_path}/jetbroker.json", {**marker(tmp_path), "of_another_release": [1]})
        await opened(tmp_path, domain="hub")
        assert marker(tmp_path)["of_another_release"] == [1]
        assert marker(tmp_path)["domain"] == "hub"

    run(scenario())


FOREIGN = [
    17,
    None,
    True,
    "",
    ["edge"],
    {"name": "edge"},
    "a.b",
    "a b",
    "*",
    ">",
    "a\tb",
    "\x1b[31m",
    "\ud800",
    "x" * 256,
]


@pytest.mark.parametrize("value", FOREIGN, ids=range(len(FOREIGN)))
def test_a_foreign_value_is_no_domain_and_keeps_nobody_out(tmp_path: Path, value: Any) -> None:
    assert not is_domain(value)

    async def scenario() -> None:
        await opened(tmp_path)
        first = marker(tmp_path)
        for domain in ("", "edge"):
            write_checked_json(Disk(), f"{tmp_path}/jetbroker.json", {**first, "domain": value})
            assert open_stream(tmp_path, "S").domain is None
            assert open_stream(tmp_path, "S").messages == 1
            await opened(tmp_path, domain=domain)
            assert open_stream(tmp_path, "S").domain == (domain or None)

    run(scenario())


def test_a_name_that_no_reader_would_take_is_not_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        await opened(tmp_path, domain="x" * 255)
        assert open_stream(tmp_path, "S").domain == "x" * 255
        await opened(tmp_path, domain="x" * 256)
        assert "domain" not in marker(tmp_path)

    run(scenario())


def test_a_damaged_marker_keeps_nobody_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        await opened(tmp_path, domain="edge")
        file = tmp_path / "jetbroker.json"
        data = file.read_bytes()
        for damaged in (data.replace(b"edge", b"hub2"), data[:-3], b"", json.dumps({"domain": "hub2"}).encode()):
            file.write_bytes(damaged)
            assert open_stream(tmp_path, "S").domain is None
            await opened(tmp_path, domain="edge")
            assert open_stream(tmp_path, "S").messages == 1

    run(scenario())


def test_a_start_that_cannot_write_it_says_so_and_leaves_the_store(tmp_path: Path) -> None:
    def full(call: str, name: str, size: int) -> int | None:
        if call == "write" and "jetbroker.json" in name:
            raise OSError(errno.ENOSPC, "No space left on device")
        return None

    async def scenario() -> None:
        await opened(tmp_path, domain="edge")
        with pytest.raises(StoreOpenError, match=r"jetbroker.json: No space left on device"):
            open_store(str(tmp_path), domain="hub", disk=FaultyDisk(full))
        assert marker(tmp_path)["domain"] == "edge"
        await opened(tmp_path, domain="edge")

    run(scenario())
