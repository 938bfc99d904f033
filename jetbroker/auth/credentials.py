"""What a remote logs in with: a credentials file, or the seed of an nkey. Both sign the other server's nonce."""

import base64
import re
from pathlib import Path

from jetbroker.config.nkeys import USER, decode_seed, encode
from jetbroker.forms.gotext import quoted

_TOKEN = re.compile(r"[\w\-.=]+")
_DASHES = "---"


class CredentialsError(Exception):
    """They cannot be used; the text is what the log says."""


class _MalformedError(Exception):
    """A file does not hold what it should."""


def signed_by_file(path: str, nonce: bytes) -> dict[str, str]:
    """The fields of CONNECT for a credentials file: `jwt` and `sig`. Raises CredentialsError."""
    try:
        token, seed = _read(path)
    except OSError as error:
        raise CredentialsError(_unread(path, error)) from error
    except _MalformedError as error:
        raise CredentialsError(f"Credentials file {error}") from error
    return {"jwt": token, "sig": _signature(seed, nonce)}


def is_restricted(path: str) -> bool:
    """Has the user of a credentials file permissions? Raises CredentialsError, whose text is that of a start."""
    from jetbroker.config.tokens.claims import read_user
    from jetbroker.config.tokens.fields import TokenError

    file = f"LeafNode Remote Credentials file {quoted(path)}"
    try:
        token, _ = _read(path)
        return read_user(token).may.permissions is not None
    except OSError as error:
        raise CredentialsError(f"Error reading {file}: {_unread(path, error)}") from error
    except _MalformedError as error:
        raise CredentialsError(f"{file} {error}") from error
    except TokenError as error:
        raise CredentialsError(f"{file} has malformed user jwt") from error


def signed_by_seed(text: str, nonce: bytes) -> dict[str, str]:
    """The fields of CONNECT for the seed of an nkey: `nkey` and `sig`. Raises CredentialsError."""
    seed = decode_seed("user", text)
    if seed is None:
        raise CredentialsError("Remote nkey has malformed seed")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    return {"nkey": encode(USER, public), "sig": _signature(seed, nonce)}


def _read(path: str) -> tuple[str, bytes]:
    """Token and seed. Raises OSError and _MalformedError."""
    blocks = _blocks(Path(path).read_text(encoding="utf-8", errors="replace"))
    if len(blocks) < 2:
        raise _MalformedError("malformed")
    seed = decode_seed("user", blocks[1])
    if seed is None:
        raise _MalformedError("has malformed seed")
    return blocks[0], seed


def _unread(path: str, error: OSError) -> str:
    return f"open {path}: {(error.strerror or str(error)).lower()}"


def _blocks(text: str) -> list[str]:
    """What stands alone between two lines that begin and end with dashes."""
    lines = text.splitlines()
    dashed = [line.startswith(_DASHES) and line.endswith(_DASHES) for line in lines]
    return [
        lines[at]
        for at in range(1, len(lines) - 1)
        if dashed[at - 1] and dashed[at + 1] and _TOKEN.fullmatch(lines[at])
    ]


def _signature(secret: bytes, nonce: bytes) -> str:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    signature = Ed25519PrivateKey.from_private_bytes(secret).sign(nonce)
    return base64.urlsafe_b64encode(signature).rstrip(b"=").decode()
