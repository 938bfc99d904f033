"""Tamper-evident streams, checked from their files: the chain by itself, then each stored message against it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from jetbroker.errors import StoreReadError
from jetbroker.store.format import hash_chain as form
from jetbroker.store.offline.columns import ranges_cover
from jetbroker.store.offline.reader import SegmentPart, StreamSnapshot, part_columns
from jetbroker.store.offline.shipped import is_shipped
from jetbroker.store.offline.stores import hash_chain, open_stream

ROWS_AT_ONCE = 4096
LISTED = 1000  # sequences of each kind of fault


@dataclass
class Chain:
    """What a chain's file says. `broken_at`: the first sequence whose entry does not follow the one before it.

    `ended_so`: did it once have the head that was asked for? `shipped`: it is a copy, which may be ahead of the copied
    messages.
    """

    algorithm: str
    digests: dict[int, bytes]
    at: int
    head: str
    gone: int = 0
    rewound: int = 0
    broken_at: int | None = None
    ended_so: bool = False
    shipped: bool = False


@dataclass
class Found:
    """What a part of the stream adds to a verdict."""

    matching: int = 0
    unchained: int = 0
    changed: list[int] = field(default_factory=list)
    unknown: list[int] = field(default_factory=list)
    damaged: list[int] = field(default_factory=list)

    def add(self, other: Found) -> None:
        """Both together."""
        self.matching += other.matching
        self.unchained += other.unchained
        for name in ("changed", "unknown", "damaged"):
            setattr(self, name, sorted(getattr(self, name) + getattr(other, name))[:LISTED])


@dataclass
class Verdict:
    """What is known of one stream. `removed`: chained messages that are not in the stream any more.

    `not_shipped`: those that the copy has not got yet.
    """

    account: str
    stream: str
    algorithm: str
    sequence: int
    head: str
    found: Found
    removed: int
    gone: int
    rewound: int
    broken_at: int | None
    wrong_head: bool = False
    not_shipped: int = 0

    @property
    def intact(self) -> bool:
        """Nothing contradicts the chain."""
        found = self.found
        faults = found.changed or found.unknown or found.damaged
        return not faults and self.broken_at is None and not self.wrong_head

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        shown = asdict(self)
        return {"intact": self.intact, **shown.pop("found"), **shown}


def read_chain(store_dir: str | os.PathLike[str], stream: str, account: str = "$G", head: str = "") -> Chain | None:
    """The chain of a stream, checked; None: it has none. Raises StoreReadError for a file that is none.

    `head`: what STREAM.INFO has shown at some time, "sequence:hash".
    """
    data, place = hash_chain(store_dir, stream, account)
    if not data:
        return None
    try:
        header = form.read_header(data)
    except StoreReadError as error:
        raise StoreReadError(f"{place}: {error}") from None
    chain = Chain(header.algorithm, {}, header.begins - 1, header.genesis.hex(), shipped=is_shipped(store_dir))
    before = header.genesis
    for at in range(form.HEAD.size, len(data) - form.ENTRY.size + 1, form.ENTRY.size):
        entry = form.read_entry(data, at)
        if not form.holds(header.hash, before, data, at) or not _follows(entry, chain.at):
            chain.broken_at = entry.first
            break
        _take(chain, entry)
        chain.ended_so = chain.ended_so or head == f"{chain.at}:{chain.head}"
        before = entry.chain
    return chain


def _follows(entry: form.Entry, at: int) -> bool:
    if entry.kind == form.REWOUND:
        return entry.first <= at == entry.last
    return entry.kind in (form.MESSAGE, form.GONE, form.DAMAGED) and entry.first == at + 1 <= entry.last


def _take(chain: Chain, entry: form.Entry) -> None:
    chain.head = entry.chain.hex()
    chain.at = entry.first - 1 if entry.kind == form.REWOUND else entry.last
    if entry.kind == form.MESSAGE:
        chain.digests[entry.first] = entry.digest
    elif entry.kind == form.GONE:
        chain.gone += entry.last - entry.first + 1
    elif entry.kind == form.REWOUND:
        chain.rewound += entry.last - entry.first + 1
        for seq in range(entry.first, entry.last + 1):
            chain.digests.pop(seq, None)


def check_part(part: SegmentPart, chain: Chain) -> Found:
    """Compare the messages of one part with the chain."""
    hash_of = form.ALGORITHMS[chain.algorithm][1]
    segment = part_columns(part)
    seen = len(segment.damaged)  # on the way to the records: of what was removed, too
    found = Found(damaged=list(_there(segment.damaged, part.deleted)))

    def digest(*message: Any) -> bytes:
        return form.message_digest(hash_of, *message)

    for start in range(0, segment.row_count, ROWS_AT_ONCE):
        for seq, own in segment.digests(start, ROWS_AT_ONCE, digest):
            known = chain.digests.get(seq)
            if known == own:
                found.matching += 1
            elif known is not None:
                found.changed.append(seq)
            elif seq > chain.at:
                found.unchained += 1
            else:
                found.unknown.append(seq)
    found.damaged += [first for first, _ in segment.damaged[seen:]]
    return found


def _there(damaged: list[tuple[int, int]], deleted: bytes) -> Iterator[int]:
    """What was not removed of damaged sequences, as many as are listed."""
    for first, last in damaged:
        for seq in range(first, min(last, first + LISTED) + 1):
            if not ranges_cover(deleted, seq, seq):
                yield seq


def verdict_of(snapshot: StreamSnapshot, chain: Chain, found: Found, head: str = "") -> Verdict:
    """All together; `head`: what the chain was read with."""
    for first, last in snapshot.damaged:
        found.add(Found(damaged=list(range(first, min(last, first + LISTED) + 1))))
    found.damaged = sorted({seq for seq in found.damaged if seq in chain.digests})[:LISTED]
    present = found.matching + len(found.changed) + len(found.damaged)
    not_shipped = sum(seq > snapshot.last_seq for seq in chain.digests) if chain.shipped else 0
    return Verdict(
        snapshot.account,
        snapshot.stream,
        chain.algorithm,
        chain.at,
        chain.head,
        found,
        max(len(chain.digests) - present - not_shipped, 0),
        chain.gone,
        chain.rewound,
        chain.broken_at,
        bool(head) and not chain.ended_so,
        not_shipped,
    )


def verify(store_dir: str | os.PathLike[str], stream: str, account: str = "$G", head: str = "") -> Verdict | None:
    """Check one stream; None: it has no hash chain. Raises StoreReadError when it cannot be read.

    The chain is read first: what a running broker stores meanwhile counts as not chained yet.
    """
    chain = read_chain(store_dir, stream, account, head)
    if chain is None:
        return None
    snapshot = open_stream(store_dir, stream, account)
    found = Found()
    for part in snapshot.parts:
        found.add(check_part(part, chain))
    return verdict_of(snapshot, chain, found, head)
