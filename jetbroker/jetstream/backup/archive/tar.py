"""The tar in a backup: written in one go, read in pieces.

Python's own reader wants a file, and reads what it says of itself without bounds.
"""

import tarfile
from collections.abc import Iterator
from typing import NamedTuple

from jetbroker import limits
from jetbroker.jetstream.backup.archive.blocks import ArchiveError
from jetbroker.jetstream.backup.archive.documents import ForeignContentError

BLOCK = tarfile.BLOCKSIZE
END = bytes(2 * BLOCK)
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)


def header(name: str, size: int, time_s: int) -> bytes:
    """What stands in front of a file of `size` bytes."""
    info = tarfile.TarInfo(name)
    info.mode, info.uname, info.gname = 0o600, "nats", "nats"
    info.mtime, info.size = time_s, size
    return info.tobuf(tarfile.PAX_FORMAT)


def padding(size: int) -> bytes:
    """What stands behind it."""
    return bytes(-size % BLOCK)


def member(name: str, content: bytes, time_s: int) -> bytes:
    """A file in an archive."""
    return b"".join((header(name, len(content), time_s), content, padding(len(content))))


class Begin(NamedTuple):
    """A file begins."""

    name: str
    size: int


class Data(NamedTuple):
    """More of its bytes."""

    data: memoryview


class End(NamedTuple):
    """It is whole."""


class TarReader:
    """The files of an archive as they come. `done` is True behind the last one."""

    def __init__(self) -> None:
        self.done = False
        self._head = bytearray()  # of a header, or of what describes the next file
        self._wanted = BLOCK  # bytes of it
        self._describes = False
        self._path = ""
        self._size: int | None = None
        self._left = 0  # bytes of the file at hand
        self._padding = 0
        self._members = 0
        self._zeros = 0

    @property
    def between_files(self) -> bool:
        """May an archive end here, by nats-server's reader?"""
        return not (self._left or self._padding or self._head or self._describes or self._path)

    def read(self, block: bytes) -> Iterator[Begin | Data | End]:
        """What stands in the next piece of the archive. Raises ArchiveError."""
        at, view = 0, memoryview(block)
        while at < len(block) and not self.done:
            if self._left:
                piece = view[at : at + self._left]
                at += len(piece)
                self._left -= len(piece)
                yield Data(piece)
                if not self._left:
                    yield End()
            elif self._padding:
                step = min(self._padding, len(block) - at)
                at += step
                self._padding -= step
            else:
                step = min(self._wanted - len(self._head), len(block) - at)
                self._head += block[at : at + step]
                at += step
                if len(self._head) == self._wanted:
                    yield from self._headed()

    def _headed(self) -> Iterator[Begin | End]:
        head, self._head = bytes(self._head), bytearray()
        if self._describes:
            self._describes = False
            self._wanted = BLOCK
            self._take_description(head)
            return
        if not any(head):
            self._zeros += 1
            self.done = self._zeros == 2
            return
        self._zeros = 0
        self._members += 1
        if self._members > limits.JS_ARCHIVE_MEMBERS:
            raise ArchiveError(f"more than {limits.JS_ARCHIVE_MEMBERS} files")
        info = _header(head)
        if info.type == tarfile.XHDTYPE:
            if not 0 < info.size <= limits.JS_ARCHIVE_HEADER_BYTES:
                raise ArchiveError("archive/tar: header field too long")
            self._describes = True
            self._wanted = info.size + -info.size % BLOCK
            return
        if info.type not in _PLAIN:
            raise ForeignContentError
        yield from self._begun(info)

    def _begun(self, info: tarfile.TarInfo) -> Iterator[Begin | End]:
        size = info.size if self._size is None else self._size
        name = self._path or info.name
        self._path, self._size = "", None
        if size < 0:
            raise ArchiveError("archive/tar: invalid tar header")
        self._left = size
        self._padding = -size % BLOCK
        yield Begin(name, size)
        if not size:
            yield End()

    def _take_description(self, text: bytes) -> None:
        """Records `length name=value\\n` of the next file."""
        at = 0
        while at < len(text) and text[at]:
            space = text.find(b" ", at, at + 20)
            length = text[at:space]
            end = at + int(length) if space > 0 and length.isdigit() else 0
            record = text[space + 1 : end]
            if end <= space + 1 or end > len(text) or not record.endswith(b"\n") or b"=" not in record:
                raise ArchiveError("archive/tar: invalid tar header")
            name, value = record[:-1].split(b"=", 1)
            if name == b"path":
                self._path = value.decode("utf-8", "surrogateescape")
            elif name == b"size":
                self._size = int(value) if value.isdigit() and len(value) < 19 else -1
            at = end


def _header(head: bytes) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise ArchiveError("archive/tar: invalid tar header") from error
