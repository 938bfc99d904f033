"""Names of clients as names of files: nothing from a client reaches the file system unescaped."""

import hashlib
from urllib.parse import unquote

MAX_ENCODED_BYTES = 200
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")


def encode_name(name: str) -> str:
    """Percent-encode all but A-Za-z0-9_-; a long result is cut and ends in % and a hash of the name."""
    raw = name.encode("utf-8", "surrogateescape")
    encoded = "".join(chr(b) if b in _PLAIN else f"%{b:02X}" for b in raw)
    if len(encoded) > MAX_ENCODED_BYTES:
        encoded = encoded[:MAX_ENCODED_BYTES] + "%" + hashlib.sha256(raw).hexdigest()[:32]
    return encoded


def decode_name(encoded: str) -> str:
    """The name behind `encode_name`; only for names that were short enough not to be cut."""
    return unquote(encoded, errors="surrogateescape")
