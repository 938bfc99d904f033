"""Where a server is, and how to log in there."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from jetbroker.addresses import is_host
from jetbroker.auth.credentials import CredentialsError, signed_by_file, signed_by_seed
from jetbroker.errors import JetbrokerError

PORT = 4222
SCHEMES = ("nats", "tls")


class ClientError(JetbrokerError):
    """A server cannot be reached, or refuses something. The text is one sentence that says why."""


@dataclass(frozen=True)
class Server:
    """One server, or several that stand for each other; can be pickled. Raises ClientError for a wrong URL."""

    urls: tuple[str, ...]
    user: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    credentials: str = ""
    nkey: str = field(default="", repr=False)
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""

    def __post_init__(self) -> None:
        for url in self.urls:
            self.address(url)

    def address(self, url: str) -> tuple[str, int]:
        """Host and port. Raises ClientError for what is no URL of a NATS server."""
        try:
            parts = urlsplit(url)
            scheme, host, port = parts.scheme, parts.hostname, parts.port or PORT
        except ValueError:
            scheme, host, port = "", None, PORT
        if scheme not in SCHEMES or not host or not is_host(host):
            raise ClientError(f"{without_login(url)!r} is no URL of a server: nats://host:4222 or tls://host:4222")
        return host, port

    def wants_tls(self, url: str) -> bool:
        """Whether the connection has to be encrypted, whatever the server says."""
        return urlsplit(url).scheme == "tls" or bool(self.tls_ca or self.tls_cert)

    def context(self) -> ssl.SSLContext:
        """What TLS goes by. Raises ClientError when a file cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.tls_ca or None)
            if self.tls_cert:
                context.load_cert_chain(self.tls_cert, self.tls_key or None)
        except (OSError, ssl.SSLError) as error:
            names = ", ".join(name for name in (self.tls_ca, self.tls_cert, self.tls_key) if name)
            raise ClientError(f"the TLS files {names} cannot be used: {error}") from None
        return context

    def login(self, url: str, nonce: bytes) -> dict[str, str]:
        """The fields of CONNECT that say who this is. Raises ClientError for a file or seed that cannot be used."""
        parts = urlsplit(url)
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        if user and parts.password is None:  # as nats clients read it
            return {"auth_token": user}
        fields = {"user": self.user or user, "pass": self.password or password, "auth_token": self.token}
        found = {name: text for name, text in fields.items() if text}
        try:
            if self.credentials:
                found |= signed_by_file(self.credentials, nonce)
            if self.nkey:
                found |= signed_by_seed(_seed(self.nkey), nonce)
        except CredentialsError as error:
            raise ClientError(f"the login cannot be used: {error}") from None
        return found


def without_login(url: str) -> str:
    """The URL as it may be shown."""
    head, at, tail = url.rpartition("@")
    return f"{head.partition('://')[0]}://{tail}" if at else url


def _seed(text: str) -> str:
    """A seed, or what stands in the file of that name."""
    if text.startswith("S"):
        return text
    try:
        lines = Path(text).read_text(encoding="utf-8", errors="replace").split()
    except OSError as error:
        raise ClientError(f"the nkey {text!r} cannot be read: {error.strerror}") from None
    return next((line for line in lines if line.startswith("SU")), "")
