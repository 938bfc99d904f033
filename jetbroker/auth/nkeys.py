"""Public nkeys: base32 of a prefix byte, 32 bytes of key and a CRC-16 (ADR-14), and signatures made with them.

`cryptography` is imported when the first signature is checked or the first key made: most brokers have no nkeys.
"""

import base64
import binascii
from functools import cached_property

from jetbroker.errors import JetbrokerError

USER = 20 << 3  # 'U'
ACCOUNT = 0  # 'A'
SERVER = 13 << 3  # 'N'
CURVE = 23 << 3  # 'X'

KEY_BYTES = 32
TEXT_LENGTH = 56
SIGNATURE_BYTES = 64
_CRC_BYTES = 2
_URL_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


class NkeyError(JetbrokerError):
    """A text that is no public nkey of the wanted kind."""


def encode(prefix: int, key: bytes) -> str:
    """The text of a public key of 32 bytes."""
    body = bytes([prefix]) + key
    return base64.b32encode(body + _crc(body)).decode()


def decode(prefix: int, text: str) -> bytes:
    """The 32 bytes of a public key. Raises :class:`NkeyError` for anything else: length, letters, kind, checksum."""
    if len(text) != TEXT_LENGTH:
        raise NkeyError("a public nkey has 56 characters")
    try:
        raw = base64.b32decode(text)
    except (binascii.Error, ValueError):
        raise NkeyError("a public nkey is base32") from None
    body = raw[:-_CRC_BYTES]
    if len(body) != 1 + KEY_BYTES or raw[-_CRC_BYTES:] != _crc(body):
        raise NkeyError("the checksum of the nkey does not fit")
    if body[0] != prefix:
        raise NkeyError("an nkey of another kind")
    return body[1:]


def decode_signature(text: str) -> bytes | None:
    """A signature as CONNECT carries it: base64url without padding, or standard base64 with it. None: neither."""
    data = text.encode("ascii", "replace")
    # Go's decoders skip line ends
    data = data.replace(b"\r", b"").replace(b"\n", b"")
    if not data.translate(None, _URL_ALPHABET) and len(data) % 4 != 1:
        return base64.urlsafe_b64decode(data + b"=" * (-len(data) % 4))
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        return None


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


class CurveKey:
    """The broker's X25519 key. Made when it is first asked for: that takes longer than a start can spare."""

    def prepare(self) -> None:
        """Make it now."""
        _ = self.public

    @cached_property
    def private(self) -> bytes:
        """The secret half, 32 bytes."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        return X25519PrivateKey.generate().private_bytes_raw()

    @cached_property
    def public(self) -> str:
        """The public half, as INFO's `xkey` shows it."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

        return encode(CURVE, X25519PrivateKey.from_private_bytes(self.private).public_key().public_bytes_raw())


def _crc(data: bytes) -> bytes:
    """CRC-16/XMODEM, as it stands behind the key."""
    return binascii.crc_hqx(data, 0).to_bytes(_CRC_BYTES, "little")
