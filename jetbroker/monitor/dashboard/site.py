"""`/dashboard` and what is below it: from a request to its answer."""

import asyncio
import socket
from collections.abc import Callable
from http import HTTPStatus
from importlib import resources
from typing import TYPE_CHECKING, Any

import orjson

from jetbroker import limits
from jetbroker.monitor.dashboard import guard, messages
from jetbroker.monitor.dashboard.guard import HEADERS, Refused
from jetbroker.monitor.dashboard.logins import Logins, Scope
from jetbroker.monitor.dashboard.sampling import Sampler
from jetbroker.monitor.dashboard.summary import summary
from jetbroker.monitor.dashboard.tables import Wanted, rows_of
from jetbroker.monitor.dashboard.viewers import Viewers
from jetbroker.monitor.http import Request, Response
from jetbroker.monitor.query import BadRequest, Query

if TYPE_CHECKING:
    from jetbroker.monitor.sources import Sources

_PAGE = ""
_FILES = {
    "": ("index.html", "text/html; charset=utf-8"),
    "/style.css": ("style.css", "text/css; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/format.js": ("format.js", "text/javascript; charset=utf-8"),
    "/tables.js": ("tables.js", "text/javascript; charset=utf-8"),
    "/messages.js": ("messages.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_JSON = ("Content-Type", "application/json")
_NO_MESSAGES = "A user of the system account sees no messages. Log in as a user of the stream's account."


class Dashboard:
    """All of it, for one broker."""

    def __init__(self, sources: "Callable[[], Sources]") -> None:
        """Reads the page's files."""
        loop = asyncio.get_running_loop()
        folder = resources.files("jetbroker.monitor.dashboard") / "page"
        self._files = {path: ((folder / name).read_bytes(), kind) for path, (name, kind) in _FILES.items()}
        self._sources = sources
        self._logins = Logins(loop)
        self._sampler = Sampler(loop)
        self._viewers = Viewers(loop, self._sampler, sources)
        self._gate = asyncio.Semaphore(limits.MONITOR_ANSWERS)

    async def answer(self, request: Request, path: str, query: Query) -> Response:
        """The answer to a request for `path`, which begins behind `/dashboard`."""
        try:
            if path == "/":
                location = ("Location", "../dashboard")
                raise Refused(HTTPStatus.TEMPORARY_REDIRECT, "The dashboard is at /dashboard.", location)
            guard.check(request, self._names(), is_page=path == _PAGE)
            scope = await self._logins.admit(self._sources(), request)
            return await self._below(path, query, scope)
        except Refused as refusal:
            return refusal.response()
        except BadRequest as error:
            return Refused(HTTPStatus.BAD_REQUEST, str(error)).response()
        except messages.NotThere as error:
            return Refused(HTTPStatus.NOT_FOUND, str(error)).response()

    def _names(self) -> set[str]:
        options = self._sources().options
        listening = (options.http_host, options.https_host, options.host, socket.gethostname())
        return {name.lower() for name in listening if name} | set(options.monitoring.dashboard_hosts)

    async def _below(self, path: str, query: Query, scope: Scope) -> Response:
        if path in self._files:
            content, kind = self._files[path]
            return Response(HTTPStatus.OK, content, (*HEADERS, ("Content-Type", kind)))
        if path == "/events":
            return self._viewers.response(scope)
        async with self._gate:
            return Response(HTTPStatus.OK, await self._data(path, query, scope), (*HEADERS, _JSON))

    async def _data(self, path: str, query: Query, scope: Scope) -> bytes:
        sources = self._sources()
        if path == "/summary":
            return await summary(sources, await self._sampler.fresh(sources), scope)
        if path == "/rows":
            wanted = Wanted(
                query.text("table"),
                query.text("search"),
                query.text("sort"),
                min(query.unsigned("offset"), limits.MONITOR_ROWS),
                limits.DASHBOARD_PAGE,
            )
            found = await rows_of(await self._sampler.fresh(sources), scope.account, wanted)
            return orjson.dumps(found)
        if path in ("/messages", "/message"):
            if not scope.messages:
                raise Refused(HTTPStatus.FORBIDDEN, _NO_MESSAGES)
            look: Any = messages.newest if path == "/messages" else messages.one
            return orjson.dumps(await look(sources, scope, query))
        raise Refused(HTTPStatus.NOT_FOUND, "There is no such page.")
