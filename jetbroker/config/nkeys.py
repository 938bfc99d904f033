"""Public nkeys: base32 of a prefix byte, 32 bytes of key and a CRC-16 (ADR-14); what their owners sign.

`cryptography` is imported when the first signature is checked: most brokers have no nkeys.
"""

from base64 import b32decode, b32encode
from binascii import Error, crc_hqx

ACCOUNT = 0  # 'A'
SERVER = 13 << 3  # 'N'
OPERATOR = 14 << 3  # 'O'
USER = 20 << 3  # 'U'
CURVE = 23 << 3  # 'X'
_SEED = 18 << 3  # 'S'; what it is of stands behind it
KINDS = {"account": ACCOUNT, "user": USER, "operator": OPERATOR, "server": SERVER, "curve": CURVE}

KEY_BYTES = 32
SIGNATURE_BYTES = 64
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


def decode_seed(kind: str, text: str) -> bytes | None:
    """The 32 bytes of a seed (`SU...` of a user); None for anything else."""
    try:
        raw = b32decode(text + "=" * (-len(text) % 8))
    except (Error, ValueError):
        return None
    body, prefix = raw[:-_CRC_BYTES], KINDS[kind]
    head = bytes([_SEED | prefix >> 5, (prefix & 31) << 3])
    if len(body) != len(head) + KEY_BYTES or raw[-_CRC_BYTES:] != _crc(body) or body[: len(head)] != head:
        return None
    return body[len(head) :]


def is_public_key(kind: str, text: str) -> bool:
    """True for a public key of a `user` (`U...`), an `account` (`A...`), an `operator` (`O...`): a good checksum."""
    return decode(KINDS[kind], text) is not None


def is_signed(public: bytes, text: bytes, signature: bytes) -> bool:
    """Is this the owner's Ed25519 signature of the text?"""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if len(signature) != SIGNATURE_BYTES or len(public) != KEY_BYTES:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
    except (InvalidSignature, ValueError):  # ValueError: 32 bytes that are no point of the curve
        return False
    return True


def _crc(data: bytes) -> bytes:
    """CRC-16/XMODEM, as it stands behind the key."""
    return crc_hqx(data, 0).to_bytes(_CRC_BYTES, "little")
