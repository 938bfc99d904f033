"""Public nkeys as they stand in a configuration: base32 of a prefix byte, the key and a checksum."""

from base64 import b32decode
from binascii import Error, crc_hqx

_BYTES = 35  # prefix, 32 of the key, 2 of the checksum
_TEXT_LENGTH = 56

_PREFIXES = {"account": 0, "user": 20 << 3}


def is_public_key(kind: str, text: str) -> bool:
    """True for a public key of a `user` (`U...`) or an `account` (`A...`) with a good checksum."""
    if len(text) != _TEXT_LENGTH or not text.isascii():
        return False
    try:
        raw = b32decode(text)
    except (Error, ValueError):
        return False
    return (
        len(raw) == _BYTES and raw[0] == _PREFIXES[kind] and crc_hqx(raw[:-2], 0) == int.from_bytes(raw[-2:], "little")
    )
