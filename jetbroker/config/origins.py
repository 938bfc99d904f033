"""Origins of web pages, `scheme://host[:port]`, as nats-server reads them: in `allowed_origins` and in requests."""

import re
from typing import NamedTuple

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_DEFAULT_PORTS = {True: "443", False: "80"}


class Origin(NamedTuple):
    """Where a page came from. All lower case; `host` is "" when the text names none."""

    scheme: str
    host: str
    port: str


def parse_origin(text: str) -> Origin:
    """Read an origin; ports that are not given are the scheme's. Raises ValueError with nats-server's text."""
    found = _SCHEME.fullmatch(text)
    if found is None and not text.startswith("/"):
        raise ValueError(f'parse "{text}": {"invalid URI for request" if text else "empty url"}')
    scheme, rest = (found[1].lower(), found[2]) if found else ("", text)
    authority = re.split(r"[/?]", rest[2:], maxsplit=1)[0] if rest.startswith("//") else ""
    authority = authority.rpartition("@")[2]
    port = _port_part(authority)
    if port and not port[1:].isdecimal() and port != ":":
        raise ValueError(f'parse "{text}": invalid port "{port}" after host')
    host, number = host_and_port(authority, secure=scheme == "https")
    return Origin(scheme, host, number)


def host_and_port(text: str, *, secure: bool) -> tuple[str, str]:
    """Host in lower case and port of `host[:port]`; the default port when there is none. Raises ValueError."""
    port = _port_part(text)
    host = text.removesuffix(port) if port else text
    if not host.startswith("["):
        if ":" in host:
            raise ValueError(f"address {text}: too many colons in address")
    elif port:
        host = host[1:-1]
    return host.lower(), port[1:] if port else _DEFAULT_PORTS[secure]


def _port_part(authority: str) -> str:
    """`:port` at the end of an authority, "" without one."""
    at = authority.rfind(":")
    return authority[at:] if at > authority.rfind("]") else ""
