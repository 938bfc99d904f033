"""The paths of the monitoring port and their answers."""

import asyncio
import importlib
import posixpath
from collections.abc import Awaitable, Callable
from html import escape
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from jetbroker import NATS_VERSION
from jetbroker.forms.gotext import quoted
from jetbroker.monitor import accountz, connz, healthz, jsz, leafz, services, subsz
from jetbroker.monitor.http import Lane, Request, Response, text_response
from jetbroker.monitor.query import BadRequest, Query
from jetbroker.monitor.sources import Sources, compact, pretty
from jetbroker.monitor.varz import varz
from jetbroker.program import NATS_SERVER, program_name

if TYPE_CHECKING:
    from jetbroker.monitor.dashboard.site import Dashboard

_JSON = (("Access-Control-Allow-Origin", "*"), ("Content-Type", "application/json"))
_NOT_FOUND = "404 page not found\n"
_HTML = (("Content-Type", "text/html; charset=utf-8"),)

Endpoint = Callable[[Sources, Query], Awaitable[Response]]


class Endpoints:
    """From a request's target to its answer."""

    def __init__(self, sources: Callable[[], Sources]) -> None:
        """The endpoints lie below the options' `http_base_path`."""
        self.base_path = posixpath.join("/", sources().options.monitoring.base_path.strip("/"))
        self._sources = sources
        self._dashboard: Dashboard | None = None

    def lane_of(self, request: Request) -> Lane:
        """What the answer to a request waits for: by what will be answered, whatever else its target looks like."""
        found = _split(request.target)
        name = "" if found is None else self._name(found[0])
        if name == _PROBE:
            return Lane.PROBE
        return Lane.OWN if self._is_of_dashboard(name) else Lane.SHARED

    async def answer(self, request: Request) -> Response:
        """The answer to a request, whose target is a path, maybe with a query, or a whole URL."""
        found = _split(request.target)
        if found is None:
            return text_response(HTTPStatus.BAD_REQUEST, "400 Bad Request")
        path, query = found
        clean = posixpath.normpath(path).replace("//", "/")
        if path.endswith("/") and clean != "/":
            clean += "/"
        if clean != path:
            return _redirect(clean, query)
        return await self._dispatch(request, path, Query(query))

    async def _dispatch(self, request: Request, path: str, query: Query) -> Response:
        sources = self._sources()
        name = self._name(path)
        name = _ALIASES.get(name, name)
        if self._is_of_dashboard(name):
            return await (await self._the_dashboard()).answer(request, name.removeprefix(_DASHBOARD), query)
        endpoint = _ENDPOINTS.get(name)
        if endpoint is None:
            return text_response(HTTPStatus.NOT_FOUND, _NOT_FOUND)
        if name in _COUNTED:
            sources.count(name)
        try:
            return await endpoint(sources, query)
        except BadRequest as error:
            return text_response(HTTPStatus.BAD_REQUEST, str(error))

    def _is_of_dashboard(self, name: str) -> bool:
        is_below = name == _DASHBOARD or name.startswith(f"{_DASHBOARD}/")
        return is_below and self._sources().options.monitoring.dashboard

    async def _the_dashboard(self) -> "Dashboard":
        if self._dashboard is None:
            # most brokers do without; the clients do not wait for it to be loaded
            await asyncio.to_thread(importlib.import_module, "jetbroker.monitor.dashboard.site")
            from jetbroker.monitor.dashboard.site import Dashboard

            self._dashboard = self._dashboard or Dashboard(self._sources)
        return self._dashboard

    def _name(self, path: str) -> str:
        """The endpoint behind the base path; "" for what is not below it. The page itself is the base path."""
        if self.base_path == "/":
            return path
        if path == self.base_path:
            return "/"
        below = path.removeprefix(self.base_path)
        return below if below != path and below != "/" else ""


def _split(target: str) -> tuple[str, str] | None:
    """Path and query of a request's target; None for what is neither a path nor a URL."""
    if target == "*":
        return "/", ""
    if not target.startswith("/"):
        scheme, mark, rest = target.partition("://")
        if not mark or scheme.lower() not in ("http", "https"):
            return None
        target = "/" + rest.partition("/")[2]
    path, _, query = target.partition("?")
    return unquote(path), query


def _redirect(path: str, query: str) -> Response:
    location = quote(path, safe="/") + (f"?{query}" if query else "")
    body = f'<a href="{escape(location)}">Temporary Redirect</a>.\n\n'
    return Response(HTTPStatus.TEMPORARY_REDIRECT, body.encode(), (*_HTML, ("Location", location)))


def _json(value: Any) -> Response:
    return Response(HTTPStatus.OK, pretty(value), _JSON)


# --- endpoints ---

_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>{name}</title>
<style>body {{ font: 16px system-ui, sans-serif; margin: 2em }} a {{ display: block; margin: .4em 0 }}</style></head>
<body>
<h1>{name}</h1>
<p>nats-server v{version} compatible</p>
<a href=".{base}/varz">General</a>
<a href=".{base}/jsz">JetStream</a>
<a href=".{base}/connz">Connections</a>
<a href=".{base}/subsz">Subscriptions</a>
<a href=".{base}/healthz">Health</a>
{dashboard}</body>
</html>
"""


async def _index(sources: Sources, query: Query) -> Response:
    # relative to the parent of the base path, so that the page works behind a proxy that adds a prefix
    base = posixpath.basename(sources.options.monitoring.base_path.rstrip("/"))
    base = f"/{quote(base)}" if base else ""
    link = f'<a href=".{base}{_DASHBOARD}">Dashboard</a>\n' if sources.options.monitoring.dashboard else ""
    page = _PAGE.format(name=escape(str(sources.info.server_name)), version=NATS_VERSION, base=base, dashboard=link)
    return Response(HTTPStatus.OK, page.encode(), _HTML)


async def _varz(sources: Sources, query: Query) -> Response:
    return _json(await varz(sources))


async def _connz(sources: Sources, query: Query) -> Response:
    asked = connz.asked(query)
    sources.count(_CONNECTIONS)  # nats-server counts this path only when it can read what is asked
    return _json(await connz.connz(sources, asked))


async def _subsz(sources: Sources, query: Query) -> Response:
    return _json(await subsz.subsz(sources, subsz.asked(query)))


async def _jsz(sources: Sources, query: Query) -> Response:
    return _json(await jsz.jsz(sources, jsz.asked(query)))


async def _healthz(sources: Sources, query: Query) -> Response:
    asked = healthz.asked(query)
    if asked.js_enabled:
        sources.clients.log.warn("Healthcheck: js-enabled deprecated, use js-enabled-only instead")
    status, body = healthz.healthz(sources, asked)
    if status is not HTTPStatus.OK:
        found = quoted(body["error"]) if "error" in body else f"{len(body['errors'])} errors"
        sources.clients.log.warn(f"Healthcheck failed: {found}")
    return Response(status, compact(body), _JSON)


async def _routez(sources: Sources, query: Query) -> Response:
    query.boolean_or("subs", "detail")
    return _json(await services.routez(sources, None))


async def _gatewayz(sources: Sources, query: Query) -> Response:
    query.boolean_or("subs", "detail")
    query.boolean("accs")
    return _json(await services.gatewayz(sources, None))


async def _raftz(sources: Sources, query: Query) -> Response:
    return text_response(HTTPStatus.NOT_FOUND, "No Raft nodes registered")


async def _leafz(sources: Sources, query: Query) -> Response:
    return _json(leafz.leafz(sources, leafz.asked(query)))


async def _accountz(sources: Sources, query: Query) -> Response:
    return _json(await accountz.accountz(sources, accountz.asked(query)))


async def _accstatz(sources: Sources, query: Query) -> Response:
    return _json(await accountz.statz(sources, accountz.asked_for_figures(query)))


async def _ipqueuesz(sources: Sources, query: Query) -> Response:
    query.boolean("all")
    return _json(await services.ipqueuesz(sources, None))


async def _metrics(sources: Sources, query: Query) -> Response:
    if program_name() == NATS_SERVER:  # which has no such path
        return text_response(HTTPStatus.NOT_FOUND, _NOT_FOUND)
    await asyncio.to_thread(importlib.import_module, "jetbroker.monitor.metrics")  # with a library that takes its time
    from jetbroker.monitor.exposition import CONTENT_TYPE
    from jetbroker.monitor.metrics import metrics

    # Prometheus asks by any name, so Host cannot be judged; but no page of another site takes it in
    guards = (("X-Content-Type-Options", "nosniff"), ("Cross-Origin-Resource-Policy", "same-origin"))
    return Response(HTTPStatus.OK, await metrics(sources), (("Content-Type", CONTENT_TYPE), *guards))


_PROBE, _CONNECTIONS = "/healthz", "/connz"
_DASHBOARD = "/dashboard"
_ALIASES = {"/subscriptionsz": "/subsz"}
_ENDPOINTS: dict[str, Endpoint] = {
    "/": _index,
    "/varz": _varz,
    _CONNECTIONS: _connz,
    "/subsz": _subsz,
    "/jsz": _jsz,
    _PROBE: _healthz,
    "/routez": _routez,  # nothing to see on a single server, but exporters ask for them
    "/gatewayz": _gatewayz,
    "/leafz": _leafz,
    "/raftz": _raftz,
    "/accountz": _accountz,
    "/accstatz": _accstatz,
    "/ipqueuesz": _ipqueuesz,
    "/metrics": _metrics,
}
# those that `/varz` tells of, as nats-server does
_COUNTED = _ENDPOINTS.keys() - {_CONNECTIONS, "/raftz", "/ipqueuesz", "/metrics"}
