"""Open pages: each is sent a summary a second. One that does not take it is left out, and cut off in the end."""

import asyncio
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING

from jetbroker import limits
from jetbroker.monitor.dashboard.guard import HEADERS, Refused
from jetbroker.monitor.dashboard.logins import Scope
from jetbroker.monitor.dashboard.sampling import Sampler
from jetbroker.monitor.dashboard.summary import summary
from jetbroker.monitor.http import HttpConnection, Response

if TYPE_CHECKING:
    from jetbroker.auth.authenticator import Authenticator
    from jetbroker.monitor.sources import Sources

_TOO_MANY = f"{limits.DASHBOARD_VIEWERS} pages are open already, and there are no more. Close one."
_RETRY = b"retry: 1000\n\n"  # milliseconds until a page that was cut off asks again


class Viewers:
    """All of them. There is a task as long as there is one."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sampler: Sampler, sources: "Callable[[], Sources]") -> None:
        self._loop = loop
        self._sampler = sampler
        self._sources = sources
        self._open: dict[HttpConnection, tuple[Scope, Authenticator]] = {}
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """How many there are."""
        return len(self._open)

    def response(self, scope: Scope) -> Response:
        """Lets somebody follow. Raises Refused when there are too many."""
        if len(self._open) >= limits.DASHBOARD_VIEWERS:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, _TOO_MANY, ("Retry-After", "10"))
        headers = (*HEADERS, ("Content-Type", "text/event-stream"), ("X-Accel-Buffering", "no"))
        return Response(HTTPStatus.OK, _RETRY, headers, lambda connection: self._add(connection, scope))

    def _add(self, connection: HttpConnection, scope: Scope) -> Callable[[], None]:
        if len(self._open) >= limits.DASHBOARD_VIEWERS:  # several came at the same time
            self._loop.call_soon(connection.abort)
            return lambda: None
        self._open[connection] = (scope, self._sources().clients.logins.authenticator)
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._run())
        return lambda: self._remove(connection)

    def _remove(self, connection: HttpConnection) -> None:
        self._open.pop(connection, None)
        if not self._open and self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        try:
            while True:
                began = self._loop.time()
                await self._tell_all()
                took = self._loop.time() - began
                await asyncio.sleep(max(limits.DASHBOARD_SECONDS - took, took * (limits.DASHBOARD_SHARE - 1)))
        except Exception as error:  # our own bug: the log hears of it, the pages ask again
            self._loop.call_exception_handler({"message": "Error making the dashboard's summary", "exception": error})
            for connection in list(self._open):
                connection.abort()

    async def _tell_all(self) -> None:
        sources = self._sources()
        self._drop_outdated(sources)
        sample = await self._sampler.fresh(sources)
        events: dict[Scope, bytes] = {}
        for connection, (scope, _) in list(self._open.items()):
            if scope not in events:
                events[scope] = b"data: %b\n\n" % await summary(sources, sample, scope)
            connection.push(events[scope])

    def _drop_outdated(self, sources: "Sources") -> None:
        """Logins are other ones after a reload, or there is no dashboard: who is still welcome comes back."""
        now = sources.clients.logins.authenticator
        for connection, (_, authenticator) in list(self._open.items()):
            if authenticator is not now or not sources.options.monitoring.dashboard:
                connection.abort()
