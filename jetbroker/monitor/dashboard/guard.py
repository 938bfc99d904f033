"""Which requests are answered at all: none that another site's page has sent, none under a forged name.

A page of another site can make a browser ask a broker inside of the browser's network. It cannot read the answers,
unless its own name leads to the broker's address ("DNS rebinding"). Then the request's Host is that name. So Host has
to be an address, or a name that is known to be the broker's.
"""

import ipaddress
from collections.abc import Collection
from http import HTTPStatus

from jetbroker.monitor.http import Request, Response, text_response

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = (
    ("Content-Security-Policy", CONTENT_SECURITY_POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
"""Of every answer of the dashboard."""

_OWN_SITE = ("", "none", "same-origin")  # "": a browser that does not say, or no browser


class Refused(Exception):
    """The request gets no answer but this: a status and a sentence."""

    def __init__(self, status: HTTPStatus, text: str, *headers: tuple[str, str]) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers

    def response(self) -> Response:
        """What goes out."""
        found = text_response(self.status, f"{self}\n")
        more = tuple(header for header in HEADERS if header[0] != "X-Content-Type-Options")
        return found._replace(headers=(*found.headers, *more, *self.headers))


def check(request: Request, names: Collection[str], *, is_page: bool) -> None:
    """Raises Refused. `names`: of this broker; `is_page`: what is asked for is the page itself, without any data."""
    if request.method not in ("GET", "HEAD"):
        text = "The dashboard is read-only: use GET."
        raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, text, ("Allow", "GET, HEAD"))
    host = request.header("host")
    name = host_name(host)
    if not (is_address(name) or name in names):
        text = "This name is not known to be the broker's. Use its address, or add the name to dashboard_hosts."
        raise Refused(HTTPStatus.FORBIDDEN, text)
    origin = request.header("origin")
    if origin and _authority(origin) != host.lower():
        raise Refused(HTTPStatus.FORBIDDEN, "The dashboard answers its own page only, and no other site's.")
    if request.header("sec-fetch-site") not in _OWN_SITE and not (is_page and _is_visit(request)):
        raise Refused(HTTPStatus.FORBIDDEN, "The dashboard answers its own page only, and no other site's.")


def host_name(host: str) -> str:
    """The name or address in a Host header, without the port; "" for what is none."""
    host = host.strip().lower()
    if host.startswith("["):
        name, closed, _ = host[1:].partition("]")
        return name if closed else ""
    return host.partition(":")[0].rstrip(".")


def is_address(name: str) -> bool:
    """An address leads nowhere else, and `localhost` leads to this machine whatever a name server says."""
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _authority(origin: str) -> str:
    return origin.lower().partition("://")[2]


def _is_visit(request: Request) -> bool:
    """Somebody has followed a link: the page opens in a tab of its own."""
    return request.header("sec-fetch-mode") == "navigate" and request.header("sec-fetch-dest") == "document"
