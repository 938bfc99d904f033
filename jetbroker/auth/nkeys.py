"""Signatures as clients send them, and the broker's own key."""

import asyncio
import base64
import binascii
import importlib
import os
from functools import cached_property

from jetbroker.config.nkeys import CURVE, encode

NONCE_RANDOM_BYTES = 11
_URL_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def new_nonce() -> bytes:
    """What INFO gives a connection to sign."""
    return base64.urlsafe_b64encode(os.urandom(NONCE_RANDOM_BYTES)).rstrip(b"=")


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


class CurveKey:
    """The broker's X25519 key. Made when it is first asked for: that takes longer than a start can spare."""

    async def prepare(self) -> None:
        """Make it now; what that needs is loaded in a thread."""
        await asyncio.to_thread(importlib.import_module, "cryptography.hazmat.primitives.asymmetric.x25519")
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
