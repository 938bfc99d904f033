"""What a shipped store says of itself: `shipped.json` of the whole, and a manifest for each stream.

A manifest is a stream at one point: the segments with what a reader must know to plan (sequences, times, removed
messages), their objects with size and SHA-256, and the consumers' states. It is written last, so that an object that
no manifest names is no part of the store. Everything read from one is checked here.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from jetbroker.bounds import INT64_MAX, INT64_MIN, UINT64_MAX
from jetbroker.errors import ManifestError, StoreVersionError
from jetbroker.limits import STREAM_LAST_SEQUENCE
from jetbroker.store.format.documents import (
    decode_document,
    encode_document,
    is_domain,
    is_number,
    segment_sequence,
    stream_meta,
)
from jetbroker.store.format.names import encode_name
from jetbroker.store.format.records import FORMAT_VERSION
from jetbroker.store.offline.reader import SegmentPart

LAYOUT = 1
MARKER = "shipped.json"
MARKER_BYTES = 64 * 1024
MANIFESTS = "manifests"
OBJECTS = "objects"
MANIFEST_BYTES = 1024 * 1024 * 1024
HASH_DIGITS = 16  # of an object's SHA-256 in its name
HEX = frozenset("0123456789abcdef")

Source = tuple[int, int, int]  # size, time of the last change in ns, inode


@dataclass(frozen=True)
class ShippedFile:
    """An object, and what the file looked like that it was copied from; None: it may have changed right then."""

    name: str
    size: int
    sha256: str
    source: Source | None = None

    def to_json(self) -> dict[str, Any]:
        return {"object": self.name, "size": self.size, "sha256": self.sha256, "source": self.source}

    @staticmethod
    def from_json(entry: Any) -> ShippedFile:
        """Raises ValueError."""
        name, sha256, source = (entry[key] for key in ("object", "sha256", "source"))
        _need(isinstance(sha256, str) and len(sha256) == 64 and HEX.issuperset(sha256))
        _need(source is None or (len(source) == 3 and all(is_number(each, UINT64_MAX) for each in source)))
        return ShippedFile(_object(name), _number(entry, "size"), sha256, None if source is None else tuple(source))


@dataclass(frozen=True)
class ShippedSegment:
    """One segment: `part` as a reader plans with it (its path is the object's name), and its file."""

    part: SegmentPart
    file: ShippedFile

    def to_json(self) -> dict[str, Any]:
        part = self.part
        return {
            **self.file.to_json(),
            "first_seq": part.first_seq,
            "last_seq": part.last_seq,
            "records_start": part.records_start,
            "limit": part.limit,
            "messages": part.messages,
            "bytes": part.size,
            "first_ns": part.first_ns,
            "last_ns": part.last_ns,
            "deleted": base64.b64encode(part.deleted).decode(),
            "torn": base64.b64encode(part.torn).decode(),
        }


@dataclass
class Manifest:
    """A shipped stream. `dropped`: objects that are no part of it any more, and when (ns) they ceased to be.

    `chain`: the pieces of its hash chain, in order; none where it has no chain.
    """

    meta: dict[str, Any]
    domain: str | None
    at_ns: int
    last_seq: int
    damaged: list[tuple[int, int]]
    segments: list[ShippedSegment]
    consumers: list[ShippedFile]
    dropped: list[tuple[str, int]] = field(default_factory=list)
    chain: list[ShippedFile] = field(default_factory=list)

    def encode(self) -> bytes:
        return encode_document(
            {
                "shipped": LAYOUT,
                "stream": self.meta,
                "domain": self.domain,
                "at": self.at_ns,
                "last_seq": self.last_seq,
                "damaged": self.damaged,
                "segments": [segment.to_json() for segment in self.segments],
                "consumers": [consumer.to_json() for consumer in self.consumers],
                "dropped": self.dropped,
                **({"chain": [piece.to_json() for piece in self.chain]} if self.chain else {}),
            }
        )

    def files(self) -> list[ShippedFile]:
        return [*(segment.file for segment in self.segments), *self.consumers, *self.chain]

    def same_as(self, other: Manifest) -> bool:
        """Would a reader see the same?"""
        return replace(self, at_ns=0, dropped=[]) == replace(other, at_ns=0, dropped=[])


def manifest_name(account: str, stream: str) -> str:
    return f"{MANIFESTS}/{encode_name(account)}/{encode_name(stream)}.json"


def objects_folder(meta: dict[str, Any]) -> str:
    """Where the objects of a stream are; one that is made anew under the name has others."""
    return f"{OBJECTS}/{encode_name(meta['account'])}/{encode_name(meta['name'])}/{meta['stream_id']:016x}"


def decode_manifest(data: bytes, address: str) -> Manifest:
    """Raises ManifestError for one that is damaged, StoreVersionError for one of a newer release."""
    document = _document(data, address)
    try:
        _need(isinstance(document["stream"], dict))
        meta = stream_meta(document["stream"])
        if meta is None:
            raise ValueError("no stream")
        domain, damaged, dropped = document["domain"], document["damaged"], document["dropped"]
        _need(domain is None or is_domain(domain))
        return Manifest(
            meta,
            domain,
            _number(document, "at"),
            _sequence(document["last_seq"]),
            [(_sequence(first), _sequence(last)) for first, last in damaged],
            _in_order([_segment(entry, meta, domain) for entry in document["segments"]]),
            [ShippedFile.from_json(entry) for entry in document["consumers"]],
            [(_dropped(name), at) for name, at in dropped if is_number(at, INT64_MAX)],
            [ShippedFile.from_json(entry) for entry in document.get("chain", [])],
        )
    except (ValueError, KeyError, TypeError, IndexError, binascii.Error):
        raise ManifestError(
            f"{address} is no manifest of a shipped stream, or a damaged one: ship the store again"
        ) from None


def encode_marker(epoch: str, store_format: int, domain: str | None) -> bytes:
    return encode_document({"shipped": LAYOUT, "epoch": epoch, "format": store_format, "domain": domain})


def decode_marker(data: bytes, address: str) -> tuple[str, int, str | None]:
    """The epoch of the store that was shipped, its format, and its domain."""
    document = _document(data, address)
    epoch, version, domain = document.get("epoch"), document.get("format"), document.get("domain")
    if type(version) is int and version > FORMAT_VERSION:
        raise StoreVersionError(
            f"{address}: the shipped store has format {version}, this release reads up to {FORMAT_VERSION}: "
            "update jetbroker"
        )
    if not isinstance(epoch, str) or type(version) is not int or version < 0:
        raise ManifestError(f"{address} is damaged: ship the store again")
    return epoch, version, domain if is_domain(domain) else None


def _document(data: bytes, address: str) -> dict[str, Any]:
    document = decode_document(data)
    if document is None:
        raise ManifestError(f"{address} is damaged or half copied: ship the store again")
    layout = document.get("shipped")
    if type(layout) is int and layout > LAYOUT:
        raise StoreVersionError(
            f"{address} was shipped by a newer release (layout {layout}, this one reads {LAYOUT}): update jetbroker"
        )
    return document


def _segment(entry: Any, meta: dict[str, Any], domain: str | None) -> ShippedSegment:
    file = ShippedFile.from_json(entry)
    first, last, start, limit = (entry[key] for key in ("first_seq", "last_seq", "records_start", "limit"))
    _need(_sequence(first) <= _sequence(last) and segment_sequence(f"{file.name[:20]}.seg") == first)
    _need(is_number(start, file.size) and (limit is None or is_number(limit, file.size)))
    times = entry["first_ns"], entry["last_ns"]
    _need(all(type(each) is int and INT64_MIN <= each <= INT64_MAX for each in times))
    part = SegmentPart(
        file.name, meta["name"], domain, meta["stream_id"], first, last, start, limit, _number(entry, "messages"),
        _number(entry, "bytes"), *times, _ranges(entry["deleted"]), meta["account"], _ranges(entry["torn"]),
        file.sha256, file.size,
    )  # fmt: skip
    return ShippedSegment(part, file)


def _in_order(segments: list[ShippedSegment]) -> list[ShippedSegment]:
    _need(all(one.part.last_seq < other.part.first_seq for one, other in pairwise(segments)))
    return segments


def _ranges(text: Any) -> bytes:
    ranges = base64.b64decode(text, validate=True)
    _need(len(ranges) % 16 == 0)
    return ranges


def _dropped(name: Any) -> str:
    _need(isinstance(name, str))
    folder, _, last = name.rpartition("/")
    _need(folder.startswith(f"{OBJECTS}/") and ".." not in folder.split("/"))
    return f"{folder}/{_object(last)}"


def _object(name: Any) -> str:
    _need(isinstance(name, str) and 0 < len(name) <= 255 and "/" not in name and not name.startswith("."))
    return str(name)


def _sequence(value: Any) -> int:
    _need(is_number(value, STREAM_LAST_SEQUENCE))
    return int(value)


def _number(entry: Any, key: str) -> int:
    _need(is_number(entry[key], INT64_MAX))
    return int(entry[key])


def _need(sound: bool) -> None:
    if not sound:
        raise ValueError("not sound")
