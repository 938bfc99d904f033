"""Names the server makes up: random ones, and short hashes that stay the same."""

import hashlib
import secrets

from jetbroker import limits
from jetbroker.wire.subjects import valid_subject

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# What the store calls the positions of a stream's sources; no consumer can have this name.
ORIGIN_POSITIONS = ".origins"
_LENGTH = 8
_FORBIDDEN = frozenset(" \t\r\n\f.*>\\/")


def valid_name(name: str) -> bool:
    """True when `name` can name a stream or a consumer."""
    return bool(name) and not _FORBIDDEN.intersection(name)


def random_name(length: int = _LENGTH) -> str:
    """A name nobody can guess, in base 62."""
    return "".join(secrets.choice(BASE62) for _ in range(length))


def short_hash(text: str) -> str:
    """Eight characters in base 62, as nats-server makes them from a text."""
    return "".join(BASE62[byte % len(BASE62)] for byte in hashlib.sha256(text.encode()).digest()[:_LENGTH])


def valid_stream_subject(subject: bytes) -> bool:
    """May a configuration name this subject? Its tokens are walked over in one piece, so they are bounded."""
    return valid_subject(subject) and subject.count(b".") < limits.JS_SUBJECT_TOKENS
