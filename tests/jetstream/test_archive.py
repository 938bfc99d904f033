"""The reader of archives: the same files however one is cut, and a refusal of what is damaged or hostile."""

from __future__ import annotations

import asyncio
import io
import posixpath
import tarfile
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jetbroker import limits
from jetbroker.jetstream.backup.archive import documents, tar
from jetbroker.jetstream.backup.archive.blocks import ArchiveError
from jetbroker.jetstream.backup.archive.highway import highway_hash
from jetbroker.jetstream.backup.archive.s2 import S2Error, S2Reader
from jetbroker.jetstream.backup.arrival import Arrival
from jetbroker.jetstream.models.config import StreamConfig
from tests.support.backups import packed

KINDS = (tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE)
TOKENS = st.sampled_from(["meta.inf", "msgs", "1.blk", "obs", "..", ".", "", "o.dat", "C", "ü" * 60, "x" * 110, "a b"])
NAMES = st.lists(TOKENS, min_size=1, max_size=4).map("/".join)
FILES = st.lists(st.tuples(NAMES, st.binary(max_size=1100)), max_size=5)
CUTS = st.integers(1, 3000)


def tar_of(files: list[tuple[str, bytes]], kind: bytes = tarfile.REGTYPE) -> bytes:
    """As Python's own module writes it; `kind`: of the last file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for number, (name, content) in enumerate(files, 1):
            info = tarfile.TarInfo(name)
            info.type = kind if number == len(files) else tarfile.REGTYPE
            info.linkname = "" if info.isreg() else "/etc/passwd"
            info.size = len(content) if info.isreg() else 0
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def blocks_of(packed: bytes, cut: int) -> Iterator[bytes]:
    reader = S2Reader()
    for at in range(0, len(packed), cut):
        reader.feed(packed[at : at + cut])
        while (block := reader.next_block()) is not None:
            yield block


def read(packed: bytes, cut: int) -> list[tuple[str, bytes]]:
    """The files that are whole. Raises ArchiveError or S2Error; anything else is a fault."""
    reader = tar.TarReader()
    found: list[tuple[str, bytes]] = []
    begun: tar.Begin | None = None
    content = b""
    for block in blocks_of(packed, cut):
        for part in reader.read(block):
            if isinstance(part, tar.Begin):
                assert begun is None
                begun, content = part, b""
                documents.member_of(part.name)
            elif isinstance(part, tar.Data):
                assert part.data
                content += part.data
            else:
                assert begun is not None
                assert len(content) == begun.size
                found.append((begun.name, content))
                begun = None
    return found


def leads_out(name: str) -> bool:
    return name.startswith("/") or not f"{posixpath.normpath(f'/within/{name}')}/".startswith("/within/")


@given(FILES, CUTS, CUTS)
@example([("../a b", b"")], 1, 1)
@settings(max_examples=40, deadline=None)
def test_an_archive_is_read_alike_however_it_is_cut(files: list[tuple[str, bytes]], cut: int, piece: int) -> None:
    plain = tar_of([(name or "x", content) for name, content in files])
    stream = packed(*(plain[at : at + piece] for at in range(0, len(plain), piece)))
    if any(leads_out(name) for name, _ in files):
        with pytest.raises(ArchiveError, match="unexpected content"):
            read(stream, cut)
    else:
        expected = [(name.rstrip("/") or "x", content) for name, content in files]
        assert [(name.rstrip("/") or "x", content) for name, content in read(stream, cut)] == expected


@given(FILES, st.sampled_from(KINDS), CUTS, st.data())
@settings(max_examples=100, deadline=None)
def test_damage_is_refused_or_harmless(
    files: list[tuple[str, bytes]], kind: bytes, cut: int, data: st.DataObject
) -> None:
    """Bytes changed and cut off, in the tar or in what it is packed in."""
    plain = bytearray(tar_of(files, kind))
    for _ in range(data.draw(st.integers(0, 3))):
        plain[data.draw(st.integers(0, len(plain) - 1))] = data.draw(st.integers(0, 255))
    stream = bytearray(packed(bytes(plain[: data.draw(st.integers(0, len(plain)))])))
    for _ in range(data.draw(st.integers(0, 1))):
        stream[data.draw(st.integers(0, len(stream) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        read(bytes(stream[: data.draw(st.integers(0, len(stream)))]), cut)
    except (ArchiveError, S2Error) as error:
        assert str(error)


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=300))
def test_checksums_are_the_same_on_every_processor(key: bytes, data: bytes) -> None:
    assert highway_hash(key, data) == highway_hash(key, data, wide=False)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_only_files_are_taken(kind: bytes) -> None:
    with pytest.raises(ArchiveError, match="unexpected content"):
        read(packed(tar_of([("msgs/1.blk", b"")], kind)), 4096)


class Counting(Arrival):
    """Counts the files that have begun."""

    files = 0

    async def _begin(self, part: tar.Begin) -> None:
        self.files += 1
        await super()._begin(part)


def arrival() -> Counting:
    account: Any = SimpleNamespace(usage=SimpleNamespace(check_arrival=lambda config, size: None))
    return Counting(account, StreamConfig(name="S"))


async def test_others_have_their_turn_while_very_many_files_arrive() -> None:
    files = 20_000
    chunk = packed(tar.member("something/else", b"", 0) * files)
    taken = arrival()
    longest = seen = 0
    taking = asyncio.create_task(taken.take([chunk]))
    while not taking.done():
        await asyncio.sleep(0)
        longest = max(longest, taken.files - seen)
        seen = taken.files
    await taking
    assert taken.files == files
    assert longest < files / 4  # a few milliseconds' worth, however fast the machine is


async def test_so_many_files_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JS_ARCHIVE_MEMBERS", 1000)
    files = tar.member("something/else", b"", 0) * 1000
    await arrival().take([packed(files)])
    with pytest.raises(ArchiveError, match="more than 1000 files"):
        await arrival().take([packed(files + tar.member("meta.inf", b"", 0))])


async def test_names_of_consumers_count_as_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JS_ARCHIVE_STATES_BYTES", 10_000)
    members = [tar.member(f"obs/{number:0255d}/meta.sum", b"", 0) for number in range(40)]
    await arrival().take([packed(b"".join(members[:39]))])
    with pytest.raises(ArchiveError, match="states of the consumers are too large"):
        await arrival().take([packed(b"".join(members))])
