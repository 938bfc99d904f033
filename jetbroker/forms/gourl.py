"""URLs as Go's net/url reads and writes them: configurations name remote servers so."""

import re
from ipaddress import AddressValueError, IPv6Address
from typing import NamedTuple
from urllib.parse import quote, unquote

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_HOST = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:\[\]<>\"]|[^\x00-\x7f]|%25|%[89A-Fa-f][0-9A-Fa-f])*")
_PORT = re.compile(r"(?::[0-9]*)?")
_WRITTEN_PATH = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@/\[\]%]*")
_SAFE_IN_USER = "$&+,;=~"
_SAFE_IN_HOST = "!$&'()*+,;=:[]<>\"~"
_SAFE_IN_PATH = "$&+,/:;=@~"
_SAFE_IN_FRAGMENT = "!$&()*+,/:;=?@~"


class Url(NamedTuple):
    """The parts of a URL, unescaped; `user` and `password` None: not there.

    `host` may have brackets, `port` is the digits behind it. `opaque`: what stands where no `//` begins a host.
    `rest` is path, query and fragment, as they are written.
    """

    scheme: str = ""
    user: str | None = None
    password: str | None = None
    host: str = ""
    port: str = ""
    rest: str = ""
    opaque: str = ""


def parse_url(text: str) -> Url:
    """Take a URL apart. Raises ValueError for what is none."""
    before, _, fragment = text.partition("#")
    if _CONTROL.search(before):
        raise ValueError("invalid control character in URL")
    if before.startswith(":"):
        raise ValueError("missing protocol scheme")
    found = _SCHEME.fullmatch(before)
    scheme, rest = (found[1].lower(), found[2]) if found else ("", before)
    rest, mark, query = rest.partition("?")
    tail = mark + query + (f"#{quote(_unescaped(fragment), _SAFE_IN_FRAGMENT)}" if fragment else "")
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, opaque=rest, rest=tail)
        if ":" in rest.partition("/")[0]:
            raise ValueError("first path segment in URL cannot contain colon")
    if scheme and not rest.startswith("//"):
        return Url(scheme, opaque=_path(rest), rest=tail)
    user = password = None
    host = port = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        login, at, where = authority.rpartition("@")
        host, port = _host(where)
        if at:
            user, password = _login(login)
    return Url(scheme, user, password, host, port, _path(rest) + tail)


def format_url(url: Url) -> str:
    """The text of a URL, escaped where it has to be."""
    scheme = f"{url.scheme}:" if url.scheme else ""
    if url.opaque:
        return f"{scheme}{url.opaque}{url.rest}"
    login = ""
    if url.user is not None:
        password = "" if url.password is None else f":{_quoted(url.password, _SAFE_IN_USER)}"
        login = f"{_quoted(url.user, _SAFE_IN_USER)}{password}@"
    ends_in_colon = ":" in url.host and not url.host.startswith("[")  # what stands behind the last one is the port
    port = f":{url.port}" if url.port or ends_in_colon else ""
    host = f"{_quoted(url.host, _SAFE_IN_HOST)}{port}"
    slashes = "//" if login or host or (scheme and url.rest) else ""
    return f"{scheme}{slashes}{login}{host}{url.rest}"


def _quoted(text: str, safe: str) -> str:
    return quote(text, safe, errors="surrogateescape")


def _unescaped(text: str) -> str:
    bad = _BAD_ESCAPE.search(text)
    if bad:
        raise ValueError(f'invalid URL escape "{text[bad.start() : bad.start() + 3]}"')
    return unquote(text, errors="surrogateescape")


def _path(text: str) -> str:
    """As it is written, if that can stay."""
    plain = _unescaped(text)
    return text if _WRITTEN_PATH.fullmatch(text) else _quoted(plain, _SAFE_IN_PATH)


def _login(text: str) -> tuple[str, str | None]:
    if not _USER.fullmatch(text):
        raise ValueError("net/url: invalid userinfo")
    user, colon, password = text.partition(":")
    return _unescaped(user), _unescaped(password) if colon else None


def _host(text: str) -> tuple[str, str]:
    """Host and the digits of its port."""
    if text.startswith("["):
        end = text.rfind("]") + 1
        if not end:
            raise ValueError("missing ']' in host")
        host, port = text[:end], text[end:]
        try:
            IPv6Address(unquote(host[1:-1]))
        except AddressValueError as error:
            raise ValueError(f"invalid host: {error}") from None
    elif "[" in text:
        raise ValueError("invalid IP-literal")
    else:
        colon = text.rfind(":")
        host, port = (text, "") if colon < 0 else (text[:colon], text[colon:])
    if not _PORT.fullmatch(port):
        raise ValueError(f'invalid port "{port}" after host')
    if not _HOST.fullmatch(host):
        raise ValueError("invalid character in host name")
    return unquote(host, errors="surrogateescape"), port[1:]
