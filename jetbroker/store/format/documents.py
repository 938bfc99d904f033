"""The JSON documents of a store, and what they must hold before anything trusts them.

A checksum says that a document is what somebody wrote, not that it was this store's: so every value that is used is
looked at here, for the broker and the offline reader alike.
"""

from __future__ import annotations

import json
from typing import Any, TypeGuard

from jetbroker.bounds import INT64_MAX, UINT32_MAX, UINT64_MAX, decimal
from jetbroker.limits import JS_NAME_BYTES, STREAM_LAST_SEQUENCE
from jetbroker.store.format.names import encode_name
from jetbroker.store.format.records import crc32c, decode_object, encode_json

SEGMENT_DIGITS = 20  # of a segment's file name: its first sequence


def decode_document(data: bytes) -> dict[str, Any] | None:
    """The JSON object of a file whose last line holds its CRC; None when it is damaged or something else."""
    text, _, check = data.rstrip(b"\n").rpartition(b"\n")
    try:
        if json.loads(check) != {"crc": crc32c(text)}:
            return None
    except (ValueError, RecursionError):
        return None
    return decode_object(text)


def encode_document(value: dict[str, Any]) -> bytes:
    """What a file with `value` and its CRC holds."""
    text = encode_json(value)
    return text + b"\n" + encode_json({"crc": crc32c(text)}) + b"\n"


def is_number(value: object, highest: int) -> bool:
    """An integer from 0 to `highest`."""
    return type(value) is int and 0 <= value <= highest


def is_name(value: object) -> TypeGuard[str]:
    """A text that can be a file's name."""
    if not isinstance(value, str) or not value:
        return False
    try:
        encode_name(value)
    except UnicodeEncodeError:
        return False
    return True


def stream_meta(document: dict[str, Any] | None) -> dict[str, Any] | None:
    """The description of a stream, as stream.json, segment headers and `C` records hold it; None for anything else."""
    if document is None or not isinstance(document.get("config"), dict):
        return None
    if not is_name(document.get("account")) or not is_name(document.get("name")):
        return None
    if not is_number(document.get("created"), INT64_MAX) or not is_number(document.get("stream_id"), UINT64_MAX):
        return None
    return document


def stream_template(meta: dict[str, Any]) -> str:
    """The template that made the stream of this description; "" for most."""
    template = meta.get("template")
    return template if is_name(template) else ""


def template_document(document: dict[str, Any] | None) -> dict[str, Any] | None:
    """The description of a stream template; None for anything else."""
    if document is None or not isinstance(document.get("config"), dict):
        return None
    if not is_name(document.get("name")) or not is_number(document.get("max_streams"), UINT32_MAX):
        return None
    return document


def header_meta(meta: dict[str, Any], stream_id: int) -> dict[str, Any] | None:
    """The description of a stream by the header of one of its segments; None when it is none."""
    return stream_meta({"name": meta.get("stream"), **meta, "stream_id": stream_id})


def consumer_head(document: dict[str, Any] | None) -> dict[str, Any] | None:
    """The description of a consumer, the head of its state log; None for anything else."""
    if document is None or not isinstance(document.get("config"), dict):
        return None
    if not is_name(document.get("name")) or not is_number(document.get("created", 0), INT64_MAX):
        return None
    if not all(isinstance(document.get(key, ""), str) for key in ("account", "stream")):
        return None
    return {"account": "", "stream": "", "created": 0, **document}


def is_domain(value: object) -> TypeGuard[str]:
    """A JetStream domain: one token of a subject. Short and printable, since readers put it into every row."""
    if not isinstance(value, str) or not value.isprintable() or any(char in " .*>" for char in value):
        return False
    return 0 < len(value.encode()) <= JS_NAME_BYTES


def store_domain(document: dict[str, Any] | None) -> str | None:
    """The domain that a store names in its marker (jetbroker.json); None when it names none."""
    domain = document.get("domain") if document is not None else None
    return domain if is_domain(domain) else None


def clean_positions(document: dict[str, Any] | None) -> dict[int, int]:
    """Last sequences by stream id, as a clean stop left them; what is none is left out."""
    positions = document.get("positions") if document is not None else None
    if not isinstance(positions, dict):
        return {}
    found = {}
    for name, last_seq in positions.items():
        stream_id = decimal(name)
        if stream_id is not None and is_number(last_seq, STREAM_LAST_SEQUENCE):
            found[stream_id] = last_seq
    return found


def segment_sequence(file_name: str) -> int | None:
    """The first sequence of the segment with this file name; None when no segment is called so."""
    stem, _, suffix = file_name.partition(".")
    if suffix != "seg" or len(stem) != SEGMENT_DIGITS:
        return None
    first_seq = decimal(stem, STREAM_LAST_SEQUENCE)
    return first_seq or None
