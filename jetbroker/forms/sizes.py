"""Sizes as nats-server's log shows them, and as its configuration takes them."""

import re

_UNITS = "KMGTPE"
_SIZE = re.compile(r"(\d{1,18})(?:([KMGTPE])(I?B)?)?", re.ASCII)


def friendly_bytes(size: int) -> str:
    """As nats-server's friendlyBytes: `512 B`, `1.50 KB`, `2.00 GB`; powers of 1024."""
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, len(_UNITS))
    return f"{size / 1024**power:.2f} {_UNITS[power - 1]}B"


def parse_bytes(text: str) -> int:
    """`500000`, `50MB`, `2g`: K, M, … are powers of 1000, KB, KIB, MB, … of 1024. Raises ValueError."""
    found = _SIZE.fullmatch(text.strip().upper())
    if found is None:
        raise ValueError(f"{text!r} is no size: use 500000, 50MB or 2GB")
    power = _UNITS.index(found[2]) + 1 if found[2] else 0
    return int(found[1]) * int((1024 if found[3] else 1000) ** power)
