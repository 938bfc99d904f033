"""The LMDB cache: what start-up would otherwise read from the footers of sealed segments.

Nothing here is the truth.  LMDB has no checksums of its own and kills the process on a truncated file, so the data file
is mapped only after its size, its meta pages and a CRC-32C of all its bytes (noted beside it after each checkpoint)
have been checked; each value carries a CRC of its own on top, for other readers.  Whatever is in doubt is thrown away
and made anew from the segments.  The environment is open only while it is read or written.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from jetbroker.bounds import decimal
from jetbroker.errors import StorageError
from jetbroker.store.cache.pages import pages_are_sound
from jetbroker.store.cache.summary import Summary, check_summary
from jetbroker.store.disk import Disk
from jetbroker.store.format import records as store_format

CACHE_FORMAT = 1
DATA_FILE = "data.mdb"
LOCK_FILE = "lock.mdb"
CHECK_FILE = "checked.json"
SEGMENTS = b"segments"
SUBJECTS = b"subjects"
DELETIONS = b"deletions"
CATALOGUE = b"catalogue"
PARTS = (SEGMENTS, SUBJECTS, DELETIONS)
EPOCH_KEY = b"epoch"

FIRST_MAP_BYTES = 64 * 1024 * 1024
LAST_MAP_BYTES = 16 * 1024 * 1024 * 1024
CHUNK_BYTES = 256 * 1024
# Stale readers (killed tools) are looked for once in this many checkpoints.
READER_CHECKS = 16

# An LMDB meta page: the page header, then magic, version, address, map size, two table heads (the first one's first
# field is the page size), last page used, transaction.
META_PAGE = struct.Struct("<QHHI II QQ I44x 48x QQ")
META_MAGIC = 0xBEEFC0DE
META_VERSION = 1
META_FLAG = 0x08


class CacheError(StorageError):
    """The cache cannot be used; the text says why. Never an error for a client."""


@dataclass
class Changes:
    """What one checkpoint writes. A stream is `<account folder>/<stream folder>`."""

    summaries: dict[tuple[str, int], Summary] = field(default_factory=dict)
    removed: set[tuple[str, int]] = field(default_factory=set)
    streams: dict[str, dict[str, Any]] = field(default_factory=dict)
    removed_streams: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.summaries or self.removed or self.streams or self.removed_streams)


def frame(database: bytes, key: bytes, value: object) -> bytes:
    """A value as stored: CRC-32C (little-endian, started from that of database and key), msgpack."""
    import msgpack

    data: bytes = msgpack.packb(value, use_bin_type=True)
    return store_format.crc32c(data, store_format.crc32c(database + b"/" + key)).to_bytes(4, "little") + data


def unframe(database: bytes, key: bytes, stored: bytes) -> Any:
    """The value of a frame. Raises CacheError when its checksum fails."""
    import msgpack

    data = stored[4:]
    seed = store_format.crc32c(database + b"/" + key)
    if len(stored) < 5 or store_format.crc32c(data, seed) != int.from_bytes(stored[:4], "little"):
        raise CacheError(f"a value of {database.decode()} is damaged")
    try:
        return msgpack.unpackb(data, raw=False, strict_map_key=False)
    except (ValueError, TypeError, RecursionError, msgpack.exceptions.UnpackException) as error:
        raise CacheError(f"a value of {database.decode()} cannot be decoded") from error


def segment_key(stream: str, first_seq: int) -> bytes:
    return f"{stream}/{first_seq:020d}".encode()


def check_meta(head: bytes, size: int) -> None:
    """Would LMDB stay inside the file? `head`: its first two pages. Raises CacheError."""
    page_size = mmap.PAGESIZE
    if size < 2 * page_size or len(head) < 2 * page_size or size % page_size:
        raise CacheError("the data file is too short or torn")
    needed = 0
    for at in (0, page_size):
        _, _, flags, _, magic, version, _, _, meta_page_size, last_page, _ = META_PAGE.unpack_from(head, at)
        if flags != META_FLAG or magic != META_MAGIC or version != META_VERSION or meta_page_size != page_size:
            raise CacheError("a meta page of the data file is damaged, or of another machine")
        needed = max(needed, (last_page + 1) * page_size)
    if needed > size:
        raise CacheError("the data file is truncated")


class Cache:
    """The cache of one store; its methods block and belong to one thread at a time.

    `epoch` is the store's own random id: a cache of another store has another one. When the cache cannot be written,
    it is removed and left alone until the next start.
    """

    def __init__(self, folder: str, disk: Disk, epoch: str) -> None:
        self.folder = folder
        self.given_up: str = "" if epoch else "the store's marker is damaged and names no epoch"
        self.thrown_away: str = ""
        self._disk = disk
        self._epoch = epoch
        self._map_bytes = FIRST_MAP_BYTES
        self._checkpoints = 0

    def exists(self) -> bool:
        return os.path.exists(f"{self.folder}/{DATA_FILE}")

    # --- reading at start-up ---

    @contextlib.contextmanager
    def reading(self) -> Iterator[Reader]:
        """Look things up; the cache is opened at the first look-up. What is damaged is thrown away."""
        reader = Reader(self)
        try:
            yield reader
        finally:
            reader.close()
            if reader.damage:
                self.throw_away(reader.damage)

    def open_checked(self, *, readonly: bool) -> Any:
        """The LMDB environment, after the checks. Raises CacheError or OSError."""
        self._verify()
        lmdb = _lmdb()
        try:
            return lmdb.open(
                self.folder,
                map_size=self._map_bytes,
                max_dbs=8,
                readonly=readonly,
                readahead=False,
                sync=False,  # a torn file fails its checksum, and costs a rebuild
                mode=0o640,
            )
        except (lmdb.Error, MemoryError) as error:
            raise CacheError(str(error)) from error

    def _verify(self) -> None:
        try:
            noted = self._read_note()
            size, crc = self._checksum()
        except OSError as error:
            raise CacheError(f"{self.folder}: {error.strerror}") from error
        if noted.get("epoch") != self._epoch:
            raise CacheError("it belongs to another store")
        if noted != {"epoch": self._epoch, "format": CACHE_FORMAT, "size": size, "crc": crc}:
            raise CacheError("its checksum does not match: damaged, or the broker was killed while writing it")
        self._check_pages()
        while self._map_bytes < 2 * size:
            self._map_bytes *= 2

    def _check_pages(self) -> None:
        """LMDB follows whatever its pages say, so they are walked before it does. Raises CacheError or OSError."""
        fd = self._disk.open(f"{self.folder}/{DATA_FILE}", os.O_RDONLY)
        try:
            with mmap.mmap(fd, 0, access=mmap.ACCESS_READ) as data:
                sound = pages_are_sound(data, mmap.PAGESIZE)
        finally:
            self._disk.close(fd)
        if not sound:
            raise CacheError("its pages lead out of the file, or into each other")

    def _read_note(self) -> dict[str, Any]:
        fd = self._disk.open(f"{self.folder}/{CHECK_FILE}", os.O_RDONLY)
        try:
            noted = json.loads(self._disk.read(fd, 4096, 0))
        except (ValueError, RecursionError) as error:
            raise CacheError("the note of its checksum is damaged") from error
        finally:
            self._disk.close(fd)
        if not isinstance(noted, dict):
            raise CacheError("the note of its checksum is damaged")
        return noted

    def _checksum(self) -> tuple[int, int]:
        """Size and CRC-32C of the data file, its meta pages checked. Raises CacheError or OSError."""
        fd = self._disk.open(f"{self.folder}/{DATA_FILE}", os.O_RDONLY)
        try:
            size = self._disk.size(fd)
            check_meta(self._disk.read(fd, 2 * mmap.PAGESIZE, 0), size)
            crc = 0
            for at in range(0, size, CHUNK_BYTES):
                crc = store_format.crc32c(self._disk.read(fd, min(CHUNK_BYTES, size - at), at), crc)
        finally:
            self._disk.close(fd)
        return size, crc

    def _note_checksum(self) -> None:
        size, crc = self._checksum()
        note = {"epoch": self._epoch, "format": CACHE_FORMAT, "size": size, "crc": crc}
        temporary = f"{self.folder}/{CHECK_FILE}.new"
        fd = self._disk.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            self._disk.write_all(fd, store_format.encode_json(note), 0)
        finally:
            self._disk.close(fd)
        self._disk.rename(temporary, f"{self.folder}/{CHECK_FILE}")

    # --- checkpoints ---

    def write(self, changes: Changes) -> None:
        """Write one checkpoint. On failure the cache is given up: `given_up` says why."""
        if self.given_up:
            return
        try:
            if self.exists():
                try:
                    env = self.open_checked(readonly=False)
                except CacheError as error:
                    self.throw_away(str(error))
                    env = self._make()
            else:
                env = self._make()
            try:
                self._put(env, changes)
            finally:
                env.close()
            self._note_checksum()
        except (OSError, MemoryError, CacheError) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self.given_up = f"{self.folder}: {error}"
        # without the note beside it nobody maps what is left
        with contextlib.suppress(OSError, CacheError):
            self._remove()

    def _make(self) -> Any:
        lmdb = _lmdb()
        self._remove()
        if not os.path.isdir(self.folder):
            self._disk.mkdir(self.folder)
        try:
            return lmdb.open(self.folder, map_size=self._map_bytes, max_dbs=8, readahead=False, sync=False, mode=0o640)
        except lmdb.Error as error:
            raise CacheError(str(error)) from error

    def _put(self, env: Any, changes: Changes) -> None:
        """All changes in one transaction, in a larger map when they do not fit. Raises CacheError."""
        lmdb = _lmdb()
        self._checkpoints += 1
        try:
            if self._checkpoints % READER_CHECKS == 1:
                env.reader_check()
            while True:
                try:
                    self._put_once(env, changes)
                    return
                except lmdb.MapFullError:
                    self._map_bytes *= 2
                    if self._map_bytes > LAST_MAP_BYTES:
                        raise
                    env.set_mapsize(self._map_bytes)
        except lmdb.Error as error:
            raise CacheError(str(error)) from error

    def _put_once(self, env: Any, changes: Changes) -> None:
        databases = {name: env.open_db(name) for name in (*PARTS, CATALOGUE)}
        with env.begin(write=True) as txn:
            for stream in changes.removed_streams:
                _delete_stream(txn, databases, stream)
            for stream, first_seq in changes.removed:
                for part in PARTS:
                    txn.delete(segment_key(stream, first_seq), db=databases[part])
            for (stream, first_seq), summary in changes.summaries.items():
                key = segment_key(stream, first_seq)
                for part, value in zip(PARTS, summary, strict=True):
                    txn.put(key, frame(part, key, value), db=databases[part])
            catalogue = databases[CATALOGUE]
            for stream, entry in changes.streams.items():
                key = b"stream/" + stream.encode()
                txn.put(key, frame(CATALOGUE, key, entry), db=catalogue)
            entry = {"epoch": self._epoch, "format": CACHE_FORMAT}
            txn.put(EPOCH_KEY, frame(CATALOGUE, EPOCH_KEY, entry), db=catalogue)

    def throw_away(self, reason: str) -> None:
        """Remove the files; the next checkpoint starts anew."""
        self.thrown_away = f"{self.folder}: {reason}"
        try:
            self._remove()
        except (OSError, CacheError) as error:
            self._give_up(error)

    def _remove(self) -> None:
        for name in (CHECK_FILE, f"{CHECK_FILE}.new", DATA_FILE, LOCK_FILE):
            with contextlib.suppress(FileNotFoundError):
                try:
                    self._disk.unlink(f"{self.folder}/{name}")
                except IsADirectoryError as error:
                    raise CacheError(f"{self.folder}/{name} is a directory") from error


class Reader:
    """Look-ups of one start-up."""

    def __init__(self, cache: Cache) -> None:
        self.damage = ""
        self._cache = cache
        self._env: Any = None
        self._opened = False

    def stream(self, stream: str) -> dict[int, Summary]:
        """Summaries of a stream's segments by first sequence; empty when the cache cannot tell."""
        if not self._opened:
            self._open()
        if self._env is None or self.damage:
            return {}
        lmdb = _lmdb()
        try:
            return self._read(stream)
        except (CacheError, lmdb.Error) as error:
            self.damage = str(error)
            return {}

    def _open(self) -> None:
        self._opened = True
        if self._cache.given_up or not self._cache.exists():
            return
        try:
            self._env = self._cache.open_checked(readonly=True)
        except CacheError as error:
            self.damage = str(error)

    def _read(self, stream: str) -> dict[int, Summary]:
        prefix = f"{stream}/".encode()
        found: dict[int, list[dict[str, Any]]] = {}
        databases = [self._env.open_db(part, create=False) for part in PARTS]
        with self._env.begin() as txn:
            for part, database in zip(PARTS, databases, strict=True):
                with txn.cursor(db=database) as cursor:
                    cursor.set_range(prefix)
                    for key, stored in cursor:
                        if not key.startswith(prefix):
                            break
                        value = unframe(part, key, stored)
                        if not isinstance(value, dict):
                            raise CacheError("a value is of another kind")
                        first_seq = decimal(key[len(prefix) :])
                        if first_seq is None:
                            raise CacheError("a key names no segment")
                        found.setdefault(first_seq, []).append(value)
        return {seq: _checked(parts) for seq, parts in found.items() if len(parts) == len(PARTS)}

    def close(self) -> None:
        if self._env is not None:
            self._env.close()


def _checked(parts: list[dict[str, Any]]) -> Summary:
    """A summary whose numbers agree. Raises CacheError."""
    try:
        check_summary(*parts)
    except ValueError as error:
        raise CacheError(str(error)) from error
    return parts[0], parts[1], parts[2]


def _delete_stream(txn: Any, databases: dict[bytes, Any], stream: str) -> None:
    prefix = f"{stream}/".encode()
    for part in PARTS:
        with txn.cursor(db=databases[part]) as cursor:
            while cursor.set_range(prefix) and cursor.key().startswith(prefix):
                cursor.delete()
    txn.delete(b"stream/" + stream.encode(), db=databases[CATALOGUE])


def _lmdb() -> ModuleType:
    """Imported when it is needed first: a store without sealed segments does without."""
    import lmdb

    module: ModuleType = lmdb
    return module
