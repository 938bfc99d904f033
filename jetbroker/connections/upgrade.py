"""The request that opens a WebSocket: what it must hold, and what it brings along. No sockets here.

Errors, their order and the answers to them are nats-server's (tests/websocket/test_upgrade.py compares).
"""

import base64
import binascii
import ipaddress
import posixpath
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlsplit

import h11
from websockets.utils import accept_key

from jetbroker.config.options import WebsocketOptions
from jetbroker.config.origins import Origin, host_and_port, parse_origin

DEFLATE = "permessage-deflate"
DEFLATE_OFFER = f"{DEFLATE}; server_no_context_takeover; client_no_context_takeover"
NO_MASKING = "Nats-No-Masking"
_BROWSER = "Mozilla/"


class UpgradeRefused(Exception):
    """No WebSocket for this request. The log says `text`."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


@dataclass(slots=True)
class Upgrade:
    """An accepted request. `client_ip`: what a proxy says of the client, "" without; `cookies` by name.

    `masked`: the other side has to mask its frames; `masks`: we do, who asked for the WebSocket.
    """

    answer: bytes
    leaf: bool
    compressed: bool
    masked: bool
    browser: bool
    whole_when_compressed: bool  # this browser cannot read fragments of compressed messages
    client_ip: str
    cookies: dict[str, str] = field(default_factory=dict)
    masks: bool = False


class UpgradeRules:
    """What the configuration asks of requests."""

    def __init__(self, options: WebsocketOptions, *, secure: bool) -> None:
        """`secure`: clients come over TLS. Origins were checked when the options were."""
        self._compression = options.compression
        self._same_origin = options.same_origin
        self._secure = secure
        self._origins = {parse_origin(text) for text in options.allowed_origins}
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in options.headers.items())

    def judge(self, request: h11.Request) -> Upgrade:
        """Accept a request, or raise UpgradeRefused, or h11.RemoteProtocolError where its target is none."""
        try:
            target = urlsplit(request.target.decode("latin-1")).path
        except ValueError as error:
            raise h11.RemoteProtocolError(str(error)) from None
        if target.endswith("/mqtt"):
            raise UpgradeRefused(HTTPStatus.NOT_FOUND, "mqtt websocket endpoint not enabled")
        if request.method != b"GET":
            raise UpgradeRefused(HTTPStatus.METHOD_NOT_ALLOWED, "request method must be GET")
        key = self._check_headers(request)
        try:
            self._check_origin(request)
        except ValueError as error:
            raise UpgradeRefused(HTTPStatus.FORBIDDEN, f"origin not allowed: {error}") from None
        compressed = self._compression and _offers_deflate(request)
        masked = first_value(request, NO_MASKING.lower().encode()) != "true"
        agent = first_value(request, b"user-agent")
        browser = agent.startswith(_BROWSER)
        return Upgrade(
            self._answer(key, compressed, masked),
            leaf=target.endswith("/leafnode"),
            compressed=compressed,
            masked=masked,
            browser=browser,
            whole_when_compressed=browser and "Version/" in agent and "Safari/" in agent,
            client_ip=_proxied_ip(request),
            cookies=_cookies(request),
        )

    def _check_headers(self, request: h11.Request) -> str:
        """The key of a request whose headers are right."""
        if not first_value(request, b"host"):
            raise UpgradeRefused(HTTPStatus.BAD_REQUEST, "'Host' missing in request")
        for name, wanted in (("Upgrade", "websocket"), ("Connection", "upgrade")):
            if wanted not in _tokens(request, name.lower().encode()):
                raise UpgradeRefused(HTTPStatus.BAD_REQUEST, f"invalid value for header '{name}'")
        key = first_value(request, b"sec-websocket-key")
        if not key:
            raise UpgradeRefused(HTTPStatus.BAD_REQUEST, "key missing")
        try:
            right = len(base64.b64decode(key.encode("latin-1"), validate=True)) == 16
        except binascii.Error:
            right = False
        if not right:
            raise UpgradeRefused(HTTPStatus.BAD_REQUEST, "invalid websocket key")
        if "13" not in _tokens(request, b"sec-websocket-version"):
            raise UpgradeRefused(HTTPStatus.BAD_REQUEST, "invalid version")
        return key

    def _check_origin(self, request: h11.Request) -> None:
        """Raises ValueError. Only browsers send an origin: without one there is nothing to check."""
        if not self._same_origin and not self._origins:
            return
        text = first_value(request, b"origin") or first_value(request, b"sec-websocket-origin")
        if not text:
            return
        origin = parse_origin(text)
        if self._same_origin:
            own = host_and_port(first_value(request, b"host"), secure=self._secure)
            if origin != Origin("https" if self._secure else "http", *own):
                raise ValueError("not same origin")
        if self._origins and origin not in self._origins:
            raise ValueError("not in the allowed list")

    def _answer(self, key: str, compressed: bool, masked: bool) -> bytes:
        lines = [
            "HTTP/1.1 101 Switching Protocols",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Accept: {accept_key(key)}",
        ]
        if compressed:
            lines.append(f"Sec-WebSocket-Extensions: {DEFLATE_OFFER}")
        if not masked:
            lines.append(f"{NO_MASKING}: true")
        return ("\r\n".join(lines) + f"\r\n{self._headers}\r\n").encode("utf-8", "replace")


def clean_path(target: str) -> str:
    """Where a request belongs whose path has `..`, `.` or `//`; "" when it is where it belongs."""
    path, question, query = target.partition("?")
    if not path.startswith("/"):
        return ""
    clean = posixpath.normpath("/" + path.lstrip("/"))
    if path.endswith("/") and not clean.endswith("/"):
        clean += "/"
    return "" if clean == path else clean + question + query


def first_value(of: h11.Request | h11.InformationalResponse, name: bytes) -> str:
    """A header's first value, "" without one; `name` in lower case."""
    return next((value.decode("latin-1") for found, value in of.headers if found == name), "")


def values(of: h11.Request | h11.InformationalResponse, name: bytes) -> list[str]:
    """The comma-separated values of a header; `name` in lower case."""
    found = (value.decode("latin-1") for header, value in of.headers if header == name)
    return [token.strip(" \t") for value in found for token in value.split(",")]


def _tokens(request: h11.Request, name: bytes) -> set[str]:
    """The comma-separated values of a header, in lower case."""
    return {value.lower() for value in values(request, name)}


def _offers_deflate(request: h11.Request) -> bool:
    offers = _tokens(request, b"sec-websocket-extensions")
    return any(part.strip(" \t") == DEFLATE for offer in offers for part in offer.split(";"))


def _proxied_ip(request: h11.Request) -> str:
    text = first_value(request, b"x-forwarded-for")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ""
    return f"[{text}]" if address.version == 6 else text


def _cookies(request: h11.Request) -> dict[str, str]:
    """Every cookie of the request; the last of a name counts."""
    found: dict[str, str] = {}
    for name, value in request.headers:
        if name != b"cookie":
            continue
        for pair in value.decode("latin-1").split(";"):
            key, _, text = pair.strip(" \t").partition("=")
            if key:
                found[key] = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
    return found
