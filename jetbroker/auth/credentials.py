"""What a remote logs in with: a credentials file, or the seed of an nkey. Both sign the other server's nonce."""

import base64
import re
from pathlib import Path

from jetbroker.config.nkeys import USER, decode_seed, encode

_TOKEN = re.compile(r"[\w\-.=]+")
_DASHES = "---"


class CredentialsError(Exception):
    """They cannot be used; the text is what the log says."""


def signed_by_file(path: str, nonce: bytes) -> dict[str, str]:
    """The fields of CONNECT for a credentials file: `jwt` and `sig`. Raises CredentialsError."""
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise CredentialsError(f"open {path}: {(error.strerror or str(error)).lower()}") from error
    blocks = _blocks(text)
    if len(blocks) < 2:
        raise CredentialsError("Credentials file malformed")
    seed = decode_seed("user", blocks[1])
    if seed is None:
        raise CredentialsError("Credentials file has malformed seed")
    return {"jwt": blocks[0], "sig": _signature(seed, nonce)}


def signed_by_seed(text: str, nonce: bytes) -> dict[str, str]:
    """The fields of CONNECT for the seed of an nkey: `nkey` and `sig`. Raises CredentialsError."""
    seed = decode_seed("user", text)
    if seed is None:
        raise CredentialsError("Remote nkey has malformed seed")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    return {"nkey": encode(USER, public), "sig": _signature(seed, nonce)}


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
