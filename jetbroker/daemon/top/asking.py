"""Asks a server for its figures: over HTTP, or over NATS as a user of the system account."""

import http.client
import json
import ssl
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from jetbroker import limits
from jetbroker.addresses import is_host
from jetbroker.client.requester import Requester
from jetbroker.client.server import SCHEMES, ClientError, Server, without_login
from jetbroker.errors import JetbrokerError

HTTP_PORT = 8222
CONNECTIONS = 1024  # those that were active last are looked at


class AskError(JetbrokerError):
    """The server does not answer, or with something else. The text is one sentence that says what to do."""


class Answers(NamedTuple):
    """What one look has brought: `/varz`, `/connz`, `/jsz` and `/healthz`."""

    varz: dict[str, Any]
    connz: dict[str, Any]
    jsz: dict[str, Any]
    healthz: dict[str, Any]


class Place(NamedTuple):
    """Where to ask, and how to get in."""

    url: str
    credentials: str = ""
    nkey: str = ""
    tls_ca: str = ""
    timeout: float = 5.0


def asker(place: Place) -> Callable[[], Answers]:
    """What asks once. It raises AskError. Raises AskError, too, for what is no URL."""
    url = place.url if "://" in place.url else f"http://{place.url}"
    place = place._replace(url=url)
    scheme = urlsplit(url).scheme if _is_url(url) else ""
    if scheme in ("http", "https"):
        return lambda: _over_http(place)
    if scheme in SCHEMES:
        return lambda: _over_nats(place)
    raise AskError(
        f"{without_login(place.url)!r} is no URL: http://host:8222 of the monitoring port, or nats://user:password@host:4222"
    )


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and is_host(parts.hostname or "") and (parts.port or 1) > 0
    except ValueError:
        return False


# --- over HTTP ---


def _over_http(place: Place) -> Answers:
    parts = urlsplit(place.url)
    host, base = parts.hostname or "", parts.path.rstrip("/")
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{base}"
    try:
        connection = _connection(parts.scheme, host, parts.port, place)
        try:
            return Answers(
                _get(connection, shown, f"{base}/varz"),
                _get(connection, shown, f"{base}/connz?auth=1&sort=last&limit={CONNECTIONS}"),
                _get(connection, shown, f"{base}/jsz?consumers=1"),
                _get(connection, shown, f"{base}/healthz"),
            )
        finally:
            connection.close()
    except http.client.HTTPException:
        raise AskError(f"{shown} is no monitoring port: it does not speak HTTP.") from None
    except ssl.SSLCertVerificationError as error:
        hint = "Name its authority with --tlsca."
        raise AskError(f"{shown} has a certificate that cannot be trusted: {error.verify_message}. {hint}") from None
    except OSError as error:
        hint = "Is it running, with a monitoring port (http_port, -m)?"
        raise AskError(f"{shown} does not answer: {error.strerror or error}. {hint}") from None


def _connection(scheme: str, host: str, port: int | None, place: Place) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(host, port or HTTP_PORT, timeout=place.timeout)
    try:
        context = ssl.create_default_context(cafile=place.tls_ca or None)
    except OSError as error:
        raise AskError(f"{place.tls_ca} is no file of an authority: {error.strerror or error}.") from None
    return http.client.HTTPSConnection(host, port or HTTP_PORT, timeout=place.timeout, context=context)


def _get(connection: http.client.HTTPConnection, shown: str, path: str) -> dict[str, Any]:
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read(limits.MONITOR_ANSWER_BYTES + 1)
    if len(body) > limits.MONITOR_ANSWER_BYTES:
        raise AskError(f"{shown} answers with more than {limits.MONITOR_ANSWER_BYTES} bytes.")
    healthy = path.partition("?")[0].endswith("/healthz")  # says by its status that it is not
    if answer.status != http.client.OK and not healthy:
        text = body[:200].decode("utf-8", "replace").strip()
        raise AskError(f"{shown} is no monitoring port, or it has another base path: status {answer.status}, {text!r}.")
    return _object(body, shown)


def _object(body: bytes, shown: str) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise AskError(f"{shown} is no monitoring port of a NATS server: its answer is no JSON object.")
    return found


# --- over NATS ---


def _over_nats(place: Place) -> Answers:
    try:
        server = Server((place.url,), credentials=place.credentials, nkey=place.nkey, tls_ca=place.tls_ca)
        with Requester(server, place.timeout) as requester:
            varz = _service(requester, "VARZ", {})
            # the others of the same server: several may have answered
            where = f"{varz.get('server_id', 'PING')}"
            connz = {"auth": True, "sort": "last", "limit": CONNECTIONS}
            return Answers(
                varz,
                _service(requester, "CONNZ", connz, where),
                _service(requester, "JSZ", {"accounts": True, "streams": True, "consumer": True}, where),
                _service(requester, "HEALTHZ", {}, where),
            )
    except ClientError as error:
        raise AskError(f"{error}. Over NATS a user of the system account is needed.") from None


def _service(requester: Requester, name: str, options: dict[str, Any], where: str = "") -> dict[str, Any]:
    subject = f"$SYS.REQ.SERVER.{where}.{name}" if where else f"$SYS.REQ.SERVER.PING.{name}"
    answer = requester.request(subject, json.dumps(options).encode())
    if "error" in answer:
        found = answer["error"]
        raise ClientError(str(found.get("description", found)) if isinstance(found, dict) else str(found))
    data = answer.get("data")
    return data if isinstance(data, dict) else {}
