"""Crafted store files: numbers, documents and parts that no broker has written, and all CRCs right."""

from __future__ import annotations

import functools
import json
import mmap
import os
import shutil
from collections.abc import Callable
from random import Random
from typing import Any

from fuzz.store_samples import ACCOUNT, BYSTANDER, KINDS, VICTIM, Sample, sample, temporary_folder, write
from jetbroker.store.cache.cache import PARTS, frame, segment_key, unframe
from jetbroker.store.format import records as store_format
from jetbroker.store.format.footers import pack_footer, sound_footer_of
from jetbroker.store.format.frames import encode_index
from jetbroker.store.format.names import encode_name

FOLDER = f"{encode_name(ACCOUNT)}/{VICTIM}"
SHAPES: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30, 1.5, -0.0),
    *("", "V", "B", "x" * 300, "../..", "\ud800", "18446744073709551615", [], [1], {}, {"a": 1}, [[]] * 50),
)
RECORD_FIELDS = ((3, 1), (8, 4), (12, 2), (14, 2), (16, 4), (20, 8), (28, 8))
HEADER_FIELDS = ((12, 4), (16, 8), (24, 8), (32, 8), (40, 8), (48, 8), (56, 4))
TRAILER_FIELDS = ((0, 8), (8, 8), (20, 4))
FRAME_FIELDS = ((8, 4), (12, 4), (16, 8), (24, 4))


def extreme(random: Random, width: int, now: int = 0) -> int:
    """An integer of so many bytes: an end of its type, a little beside what it is, or a number of sequences ahead."""
    top = 256**width
    chosen = random.choice(
        (0, 1, 2, 7, 36, 60, top // 2 - 1, top // 2, top - 1, top - 2, now + 1, now - 1, now * 2, now + 8,
         2**16, 2**31, 2**32 - 1, 2**32, 2**40, 60_000_000, now + 300_000, random.getrandbits(8 * width))
    )  # fmt: skip
    return int(chosen % top)


def put(data: bytearray, at: int, width: int, random: Random) -> None:
    """Another number at this place, if there is one."""
    if 0 <= at and at + width <= len(data):
        now = int.from_bytes(data[at : at + width], "little")
        data[at : at + width] = extreme(random, width, now).to_bytes(width, "little")


def put_somewhere(data: bytearray, start: int, end: int, random: Random) -> None:
    """Other numbers at a few places of a part of four-byte and eight-byte ones."""
    for _ in range(random.randint(1, 3)):
        width = random.choice((4, 8))
        put(data, start + random.randrange(max(1, (end - start) // width)) * width, width, random)


def seal(data: bytearray, at: int, start: int, end: int, seed: int = 0) -> None:
    """The CRC at `at` of what stands from `start` to `end`."""
    if at + 4 <= len(data):
        data[at : at + 4] = store_format.crc32c(bytes(data[start:end]), seed).to_bytes(4, "little")


def document(value: Any) -> bytes:
    """A document with its CRC."""
    text = json.dumps(value).encode()
    return text + b"\n" + json.dumps({"crc": store_format.crc32c(text)}).encode() + b"\n"


def other_shape(value: Any, random: Random) -> Any:
    """A JSON value with something else in it."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(sorted(value))
        changed = dict(value)
        if random.random() < 0.15:
            del changed[key]
        else:
            changed[key] = other_shape(value[key], random)
        return changed
    return random.choice(SHAPES)


# --- segments ---


class Segment:
    """A segment's file, taken apart."""

    def __init__(self, name: str, data: bytes, stream_id: int) -> None:
        self.name = name
        self.data = bytearray(data)
        self.stream_id = stream_id
        self.seed = store_format.seed_of(stream_id)
        self.trailer = store_format.decode_trailer(data)
        self.header_len = min(int.from_bytes(data[12:16], "little"), len(data))
        self.packed = data[7] == store_format.PACKED_VERSION
        self.end = self.trailer[0] if self.trailer else len(data)

    def parts(self) -> list[tuple[int, int]]:
        """Where its records, or frames and the index, begin and end."""
        found, at = [], self.header_len
        while at + 12 <= min(self.end, len(self.data)):
            if self.data[at] == 0xAB:
                length = int.from_bytes(self.data[at + 8 : at + 12], "little")
                if length < 12:
                    break
                found.append((at, min(at + length, len(self.data))))
                at += length
            else:
                at += 1
        return found

    def seal_footer(self) -> None:
        """Its trailer has the CRC of the footer."""
        if self.trailer is not None:
            at, length, _ = self.trailer
            seal(self.data, len(self.data) - 16, at, at + length)


def craft_header(segment: Segment, random: Random) -> None:
    """A number of the header, or its document."""
    if random.random() < 0.3:
        meta = store_format.decode_object(bytes(segment.data[60 : 60 + int.from_bytes(segment.data[56:60], "little")]))
        text = json.dumps(other_shape(meta, random)).encode()[: segment.header_len - 60]
        text += b" " * (segment.header_len - 60 - len(text))
        segment.data[56:60] = len(text).to_bytes(4, "little")
        segment.data[60 : segment.header_len] = text
    else:
        put(segment.data, *random.choice(HEADER_FIELDS), random)
    length = int.from_bytes(segment.data[12:16], "little")
    seal(segment.data, 8, 12, max(12, length))


def craft_part(segment: Segment, random: Random) -> None:
    """A number of a record, a frame or the index."""
    parts = segment.parts()
    if not parts:
        return
    start, end = random.choice(parts)
    data = segment.data
    if data[start + 1 : start + 4] == b"JBI":
        put_somewhere(data, start + 16, end, random)
    elif segment.packed and random.random() < 0.4:
        data[start + 32 : end] = bytes(random.choice(_bombs())[: end - start - 32]).ljust(end - start - 32, b"\0")
    else:
        at, width = random.choice(FRAME_FIELDS if segment.packed else RECORD_FIELDS)
        put(data, start + at, width, random)
    if data[start + 3] == ord("D") and random.random() < 0.7:
        put_somewhere(data, start + 36, end, random)
    length = int.from_bytes(data[start + 8 : start + 12], "little")
    seal(data, start + 4, start + 8, min(max(start + length, start + 8), len(data)), segment.seed)


@functools.cache
def _bombs() -> tuple[bytes, ...]:
    """Zstandard frames that unpack to far more than they are, or say so."""
    from zstandard import ZstdCompressor

    large = ZstdCompressor(write_content_size=False).compress(bytes(2**25))
    claims = bytearray(ZstdCompressor(write_content_size=True).compress(bytes(2**17)))
    claims[5:9] = b"\xff" * 4
    return (
        large,
        bytes(claims),
        b"\x28\xb5\x2f\xfd\xc0\xff" + b"\xff" * 20,
        b"\x28\xb5\x2f\xfd\x00\xff" + b"\x01\0\0" * 4,
    )


def craft_insert(segment: Segment, random: Random) -> None:
    """One more record somewhere, or a part twice, moved or taken out."""
    parts = segment.parts()
    if not parts:
        return
    start, end = random.choice(parts)
    seq = random.choice((extreme(random, 8, 30), 31, 32, 60_000_000, 400_000))
    time_ns = random.choice((10**9, 2**63 - 1, -1, -(2**63), 0))
    meta = {"account": ACCOUNT, "name": VICTIM, "created": 1, "stream_id": segment.stream_id, "config": {}}
    pairs = [(extreme(random, 8, 5), extreme(random, 8, 9)) for _ in range(random.randint(1, 40))]
    inserted = random.choice(
        (
            store_format.encode_record(store_format.MESSAGE, segment.stream_id, seq, time_ns, b"v.9", b"", b"x", 8),
            store_format.encode_deletions(segment.stream_id, seq, time_ns, pairs),
            store_format.encode_record(
                store_format.CONFIG, segment.stream_id, seq, 1, payload=json.dumps(other_shape(meta, random)).encode()
            ),
            bytes(segment.data[start:end]) * 2,
            b"",
        )
    )
    where = random.choice((start, end))
    segment.data[where : end if random.random() < 0.2 else where] = inserted
    if segment.trailer is not None:
        moved = max(len(segment.data) - segment.trailer[1] - 32, 0)
        segment.data[-32:-24] = moved.to_bytes(8, "little")


def craft_footer(segment: Segment, random: Random) -> None:
    """A number of the footer, in its plain form."""
    if segment.trailer is None:
        craft_part(segment, random)
        return
    at, length, _ = segment.trailer
    stored = bytes(segment.data[at : at + length])
    first_seq = int.from_bytes(segment.data[24:32], "little")
    plain = sound_footer_of(stored, segment.packed, first_seq, at)
    if plain is None:
        return
    footer = bytearray(plain)
    put_somewhere(footer, 0, len(footer), random)
    if segment.packed:
        footer = bytearray(_packed_footer(bytes(footer), random))
    segment.data[at:] = footer + segment.data[at + length :]
    segment.data[-24:-16] = len(footer).to_bytes(8, "little")
    seal(segment.data, len(segment.data) - 16, at, at + len(footer))


def _packed_footer(plain: bytes, random: Random) -> bytes:
    from zstandard import ZstdCompressor

    compressor = ZstdCompressor(level=1, write_content_size=random.random() < 0.1)
    try:
        packed = pack_footer(plain, compressor)
    except ValueError:
        packed = len(plain).to_bytes(8, "little") + compressor.compress(plain)
    if random.random() < 0.2:
        packed = extreme(random, 8, len(plain)).to_bytes(8, "little") + packed[8:]
    return packed


def craft_trailer(segment: Segment, random: Random) -> None:
    """A number of the trailer."""
    put(segment.data, len(segment.data) - 32 + random.choice(TRAILER_FIELDS)[0], 8, random)


def craft_index(segment: Segment, random: Random) -> None:
    """Another frame index."""
    found = [part for part in segment.parts() if segment.data[part[0] + 1 : part[0] + 4] == b"JBI"]
    if not found:
        craft_footer(segment, random)
        return
    start, end = found[-1]
    count = (end - start - 16) // 16
    pairs = [(extreme(random, 8, i * 600), extreme(random, 8, i * 300 + 200)) for i in range(count)]
    if random.random() < 0.7:
        pairs.sort()
    segment.data[start:end] = encode_index(pairs, segment.seed)


def craft_length(segment: Segment, random: Random) -> None:
    """A piece cut off or put behind."""
    if random.random() < 0.7:
        del segment.data[random.randrange(len(segment.data) + 1) :]
    else:
        segment.data += random.choice((bytes(40), segment.data[: random.randrange(200)], b"\xabJBM" * 20))


SEGMENT_CRAFTS: tuple[Callable[[Segment, Random], None], ...] = (
    *(craft_header, craft_part, craft_part, craft_insert, craft_insert, craft_footer, craft_footer, craft_footer),
    *(craft_trailer, craft_index, craft_length),
)


def craft_segment(files: dict[str, bytes], made: Sample, random: Random) -> None:
    """One segment of the victim."""
    names = sorted(name for name in files if name.startswith(FOLDER) and name.endswith(".seg"))
    if not names:
        return
    name = random.choice(names)
    if len(files[name]) < 64:
        return
    segment = Segment(name, files[name], made.stream_id)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        random.choice(SEGMENT_CRAFTS)(segment, random)
    files[name] = bytes(segment.data)


def craft_names(files: dict[str, bytes], made: Sample, random: Random) -> None:
    """Files that are missing, twice, swapped, of another stream, or called otherwise."""
    names = sorted(name for name in files if name.startswith(FOLDER))
    one, two = random.choice(names), random.choice(names)
    what = random.randrange(5)
    if what == 0:
        del files[one]
    elif what == 1:
        files[one], files[two] = files[two], files[one]
    elif what == 2:
        files[one] = random.choice([files[name] for name in sorted(files)])
    elif what == 3 and one.endswith(".seg"):
        files[f"{FOLDER}/{extreme(random, 8, 5):020d}.seg"] = files[one]
    else:
        for name in names:
            files[name.replace(f"/{VICTIM}/", "/W/")] = files[name]


# --- documents, state logs and the cache ---


def craft_document(files: dict[str, bytes], made: Sample, random: Random) -> None:
    """A document of the store, the account or the stream."""
    names = sorted(name for name in files if name.endswith(".json") and f"/{BYSTANDER}/" not in name)
    name = random.choice([name for name in names if not name.startswith("cache.mdb")])
    value = store_format.decode_object(files[name].split(b"\n")[0])
    if name == "clean.json" and random.random() < 0.7:
        value = {"positions": {str(made.stream_id): random.choice((*SHAPES, extreme(random, 8, 30)))}}
    if name == "jetbroker.json" and random.random() < 0.9:
        return
    files[name] = document(other_shape(value, random)) if random.random() < 0.9 else document(value)[:-1] + b"{"


def craft_state(files: dict[str, bytes], made: Sample, random: Random) -> None:
    """A number of a consumer's records, or its head."""
    names = sorted(name for name in files if name.startswith(f"{FOLDER}/consumers"))
    if not names:
        return
    name = random.choice(names)
    data, seed, at = bytearray(files[name]), store_format.seed_of(made.stream_id), 8
    frames = []
    while at + 12 <= len(data):
        length = int.from_bytes(data[at + 8 : at + 12], "little")
        frames.append((data[at + 3], bytes(data[at + 12 : at + 12 + length])))
        at += 12 + length
    for _ in range(random.randint(1, 3)):
        if not frames:
            break
        i = random.randrange(len(frames))
        kind, payload = frames[i]
        frames[i] = kind, _state_payload(kind, payload, random)
        if random.random() < 0.2:
            frames.insert(random.randrange(len(frames)), frames[i])
    out = bytearray(data[:8])
    for kind, payload in frames:
        sized = len(payload).to_bytes(4, "little")
        out += bytes([0xAB, *b"JS", kind]) + store_format.crc32c(sized + payload, seed ^ kind).to_bytes(4, "little")
        out += sized + payload
    files[name] = bytes(out)


def _state_payload(kind: int, payload: bytes, random: Random) -> bytes:
    if kind == ord("H") or payload.startswith(b"{"):
        return json.dumps(other_shape(store_format.decode_object(payload), random)).encode()
    changed = bytearray(payload)
    put_somewhere(changed, 0, len(changed), random)
    if random.random() < 0.2:
        del changed[random.randrange(len(changed) + 1) :]
    return bytes(changed)


def craft_cache(files: dict[str, bytes], made: Sample, random: Random) -> None:
    """A value of the cache, or bytes of its pages."""
    if "cache.mdb/data.mdb" not in files:
        craft_segment(files, made, random)
    elif random.random() < 0.5:
        data = bytearray(files["cache.mdb/data.mdb"])
        page = random.randrange(len(data) // mmap.PAGESIZE) * mmap.PAGESIZE
        for _ in range(random.randint(1, 3)):
            at = random.choice((random.randrange(0, 64, 2), random.randrange(0, 160, 2), random.randrange(0, 4096, 2)))
            put(data, page + at, random.choice((2, 4, 8)), random)
        _note_cache(files, bytes(data))
    else:
        _put_value(files, random)


def _note_cache(files: dict[str, bytes], data: bytes) -> None:
    note = json.loads(files["cache.mdb/checked.json"])
    note.update(size=len(data), crc=store_format.crc32c(data))
    files["cache.mdb/data.mdb"] = data
    files["cache.mdb/checked.json"] = json.dumps(note).encode()


def _put_value(files: dict[str, bytes], random: Random) -> None:
    import lmdb

    folder = temporary_folder()
    try:
        write(folder, {"data.mdb": sample("cached").files["cache.mdb/data.mdb"]})
        with lmdb.open(folder, map_size=2**20, max_dbs=8, sync=False) as env:
            part = random.choice(PARTS)
            database = env.open_db(part)
            with env.begin(write=True) as txn:
                keys = [bytes(key) for key, _ in txn.cursor(db=database) if f"/{VICTIM}/".encode() in key]
                key = random.choice(keys)
                value = _other_value(unframe(part, key, bytes(txn.get(key, db=database) or b"")), random)
                if random.random() < 0.1:
                    key = segment_key(FOLDER, extreme(random, 8, 5))
                txn.put(key, frame(part, key, value), db=database)
        with open(f"{folder}/data.mdb", "rb") as file:
            _note_cache(files, file.read())
    finally:
        shutil.rmtree(folder)


def _other_value(value: dict[str, Any], random: Random) -> Any:
    key = random.choice(sorted(value))
    if isinstance(value[key], bytes) and value[key] and random.random() < 0.8:
        changed = bytearray(value[key])
        put_somewhere(changed, 0, len(changed), random)
        return {**value, key: bytes(changed)}
    if isinstance(value[key], int) and random.random() < 0.8:
        return {**value, key: extreme(random, 8, value[key])}
    shape = other_shape(value, random)
    try:
        import msgpack

        msgpack.packb(shape)
    except (OverflowError, TypeError, UnicodeEncodeError):
        return None
    return shape


CRAFTS = {
    "plain": (craft_segment,) * 5 + (craft_names, craft_document, craft_state, craft_state),
    "killed": (craft_segment,) * 5 + (craft_names, craft_document, craft_state),
    "packed": (craft_segment,) * 8 + (craft_names,),
    "cached": (craft_cache,) * 4 + (craft_segment,),
}


def craft(data: bytes) -> tuple[str, dict[str, bytes]]:
    """The kind of the sample and its files, crafted as `data` says."""
    random = Random(data)
    kind = random.choice(KINDS)
    made = sample(kind)
    files = dict(made.files)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        random.choice(CRAFTS[kind])(files, made, random)
    return kind, files


def generate(random: Random) -> bytes:
    """A seed for `craft`."""
    return random.randbytes(12)


def touches_marker(files: dict[str, bytes], kind: str) -> bool:
    """Is the store's own marker another one?"""
    return files.get("jetbroker.json") != sample(kind).files["jetbroker.json"]


def write_crafted(folder: str, files: dict[str, bytes]) -> None:
    """Put the crafted files into an empty folder."""
    write(folder, files)
    os.makedirs(f"{folder}/{FOLDER}", exist_ok=True)
