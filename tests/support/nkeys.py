"""User nkeys for tests: made anew, signing nonces."""

from __future__ import annotations

import base64
import binascii

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from jetbroker.config import nkeys

_SEED = 18 << 3  # 'S'


class UserKey:
    """A user's key: `public` is U..., `seed` SU..."""

    def __init__(self, prefix: int = nkeys.USER) -> None:
        self._private = Ed25519PrivateKey.generate()
        self.public = nkeys.encode(prefix, self._private.public_key().public_bytes_raw())
        body = bytes([_SEED | prefix >> 5, (prefix & 31) << 3]) + self._private.private_bytes_raw()
        self.seed = base64.b32encode(body + binascii.crc_hqx(body, 0).to_bytes(2, "little")).decode().rstrip("=")

    def sign(self, nonce: str) -> bytes:
        return self._private.sign(nonce.encode())

    def signature(self, nonce: str) -> str:
        """As clients send it."""
        return base64.urlsafe_b64encode(self.sign(nonce)).decode().rstrip("=")
