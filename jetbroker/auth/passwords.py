"""Passwords and tokens: plain or as bcrypt hashes, compared so that time tells nothing.

A check of a hash takes a tenth of a second and belongs in a thread (auth.password_queue). Each refused login takes as
long as a check of the dearest hash of the configuration, whoever it named: somebody unknown, somebody with a plain
password, or somebody with a cheaper hash.
"""

import hashlib
import hmac
from typing import NamedTuple

from jetbroker.config.checks import is_bcrypt

BCRYPT_MAX_BYTES = 72  # bcrypt reads no more of a password
_COSTS = range(4, 32)


def is_equal(secret: str, given: str) -> bool:
    """Are these the same text? Takes the same time wherever they differ, however long they are."""
    return hmac.compare_digest(_digest(secret), _digest(given))


def fits_hash(secret: str, given: str) -> bool:
    """Is this the password of a bcrypt hash? Slow: call it in a thread."""
    import bcrypt  # imported late: most brokers have no hashes

    # $2x$ and $2y$ name the same algorithm as $2b$; the library knows only the latter
    normalised = "$2b$" + secret[4:]
    try:
        return bcrypt.checkpw(_encoded(given)[:BCRYPT_MAX_BYTES], normalised.encode())
    except ValueError:  # a malformed hash fits nothing
        return False


def hash_password(password: str, cost: int) -> str:
    """A bcrypt hash ($2a$). Raises ValueError for a password over 72 bytes or a cost outside 4..31."""
    import bcrypt

    encoded = _encoded(password)
    if len(encoded) > BCRYPT_MAX_BYTES:
        raise ValueError(f"bcrypt takes passwords of at most {BCRYPT_MAX_BYTES} bytes")
    return bcrypt.hashpw(encoded, bcrypt.gensalt(cost, b"2a")).decode()


class Check(NamedTuple):
    """A password to be compared with a hash; `secret` "": with nobody's, to be refused when that would be done.

    `dearest` is the cost of the dearest hash there is: a refusal takes as long as a check of that.
    """

    secret: str
    given: str
    dearest: int

    def __repr__(self) -> str:  # neither of them belongs into a log
        return f"Check(dearest={self.dearest})"


def cost_of(secret: str) -> int:
    """The cost of a well-formed hash, 0 of anything else."""
    cost = int(secret[4:6]) if is_bcrypt(secret) and len(secret) == len(_EMPTY_HASH) else 0
    return cost if cost in _COSTS else 0


def spend(cost: int) -> None:
    """Work as long as a check of a hash of this cost does. In a thread."""
    fits_hash(_EMPTY_HASH.replace("04", f"{cost:02}", 1), "")


def _digest(text: str) -> bytes:
    return hashlib.sha256(_encoded(text)).digest()


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


_EMPTY_HASH = "$2b$04$" + "." * 53  # well-formed, of no password
