"""Public nkeys: base32 of a prefix byte, 32 bytes of key and a CRC-16 (ADR-14)."""

from base64 import b32decode, b32encode
from binascii import Error, crc_hqx

ACCOUNT = 0  # 'A'
SERVER = 13 << 3  # 'N'
USER = 20 << 3  # 'U'
CURVE = 23 << 3  # 'X'
KINDS = {"account": ACCOUNT, "user": USER}

KEY_BYTES = 32
TEXT_LENGTH = 56
_CRC_BYTES = 2


def encode(prefix: int, key: bytes) -> str:
    """The text of a public key of 32 bytes."""
    body = bytes([prefix]) + key
    return b32encode(body + _crc(body)).decode()


def decode(prefix: int, text: str) -> bytes | None:
    """The 32 bytes of a public key; None for anything else: length, letters, checksum, kind."""
    if len(text) != TEXT_LENGTH:
        return None
    try:
        raw = b32decode(text)
    except (Error, ValueError):
        return None
    body = raw[:-_CRC_BYTES]
    if len(body) != 1 + KEY_BYTES or raw[-_CRC_BYTES:] != _crc(body) or body[0] != prefix:
        return None
    return body[1:]


def is_public_key(kind: str, text: str) -> bool:
    """True for a public key of a `user` (`U...`) or an `account` (`A...`) with a good checksum."""
    return decode(KINDS[kind], text) is not None


def _crc(data: bytes) -> bytes:
    """CRC-16/XMODEM, as it stands behind the key."""
    return crc_hqx(data, 0).to_bytes(_CRC_BYTES, "little")
