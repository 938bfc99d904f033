"""The bytes of a stream's hash chain (see ARCHITECTURE.md): a header, then entries that hash each other.

    header  "JBHCHAIN", u32 version, u32 algorithm, u64 sequence it begins with, i64 when it was begun (wall ns),
            hash of the 32 bytes before it
    entry   u64 first sequence, u64 kind, 32 bytes, hash of the hash before it and the 48 bytes before this one

The 32 bytes of a message are its digest, those of a range its last sequence and zeros.
"""

import hashlib
import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from jetbroker.errors import StoreReadError, StoreVersionError

FILE_NAME = "hash.chain"
HEAD = struct.Struct("<8sIIQq32s")
ENTRY = struct.Struct("<QQ32s32s")
MESSAGE, GONE, DAMAGED, REWOUND = 1, 2, 3, 4  # kinds; GONE: removed, or used for nothing, before it was chained
MAGIC = b"JBHCHAIN"
VERSION = 1
HASHED = 48  # bytes of an entry that its hash is of

_NUMBERS = struct.Struct("<QqIII")
_RANGE = struct.Struct("<Q24x")

Hash = Callable[[bytes], bytes]


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _blake2b(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=32).digest()


ALGORITHMS: dict[str, tuple[int, Hash]] = {"sha256": (1, _sha256), "blake2b": (2, _blake2b)}
"""What the metadata may say -> its number in the file, and the function."""


class Header(NamedTuple):
    """What a chain begins with."""

    algorithm: str
    begins: int
    created_ns: int
    genesis: bytes

    @property
    def hash(self) -> Hash:
        """The function of the algorithm."""
        return ALGORITHMS[self.algorithm][1]


class Entry(NamedTuple):
    """One message, or a range of sequences without any; `chain` is the hash up to here."""

    first: int
    last: int
    kind: int
    digest: bytes
    chain: bytes


def new_header(algorithm: str, begins: int, created_ns: int) -> bytes:
    """The header of a new chain."""
    number, hash_of = ALGORITHMS[algorithm]
    head = HEAD.pack(MAGIC, VERSION, number, begins, created_ns, b"")[:-32]
    return head + hash_of(head)


def read_header(data: bytes) -> Header:
    """Raises StoreReadError for what is no header, StoreVersionError for one of a newer release."""
    if len(data) < HEAD.size or data[:8] != MAGIC:
        raise StoreReadError("it does not begin as a hash chain")
    _, version, number, begins, created_ns, genesis = HEAD.unpack_from(data)
    name = next((name for name, (own, _) in ALGORITHMS.items() if own == number), "")
    if version != VERSION or not name:
        raise StoreVersionError(f"hash chain of version {version}, algorithm {number}: update jetbroker")
    if ALGORITHMS[name][1](data[: HEAD.size - 32]) != genesis:
        raise StoreReadError("the header of the hash chain is damaged")
    return Header(name, begins, created_ns, genesis)


def message_digest(hash_of: Hash, seq: int, time_ns: int, subject: bytes, headers: bytes, payload: bytes) -> bytes:
    """The digest of one stored message."""
    return hash_of(_NUMBERS.pack(seq, time_ns, len(subject), len(headers), len(payload)) + subject + headers + payload)


def new_entry(hash_of: Hash, before: bytes, first: int, kind: int, digest: bytes) -> bytes:
    """One entry behind the hash `before`."""
    head = struct.pack("<QQ", first, kind) + digest
    return head + hash_of(before + head)


def range_digest(last: int) -> bytes:
    """What stands in place of a digest for a range."""
    return _RANGE.pack(last)


def read_entry(data: bytes, at: int) -> Entry:
    """The entry at this offset."""
    first, kind, digest, chain = ENTRY.unpack_from(data, at)
    last = first if kind == MESSAGE else _RANGE.unpack(digest)[0]
    return Entry(first, last, kind, digest, chain)


def holds(hash_of: Hash, before: bytes, data: bytes, at: int) -> bool:
    """Does the entry at this offset follow the hash `before`?"""
    return hash_of(before + data[at : at + HASHED]) == data[at + HASHED : at + ENTRY.size]


def whole(size: int) -> int:
    """How many bytes of a chain's file stand in whole entries, the header among them; 0 when that is not whole."""
    return size - (size - HEAD.size) % ENTRY.size if size >= HEAD.size else 0


def cut(data: bytes, last_seq: int) -> bytes:
    """A chain without the entries of later sequences. What stands before the last crash it tells of stays."""
    end = HEAD.size
    kept = end
    for entry in entries(data):
        end += ENTRY.size
        if entry.kind == REWOUND or (entry.last <= last_seq and kept == end - ENTRY.size):
            kept = end
    return data[:kept]


def entries(data: bytes) -> Iterator[Entry]:
    """All whole entries of a chain's file, in order."""
    for at in range(HEAD.size, len(data) - ENTRY.size + 1, ENTRY.size):
        yield read_entry(data, at)
