"""An HTTP/1.1 listener for a handful of small answers: sockets here, the protocol itself by h11.

Everything is bounded: connections, the size and the time of a request, the time a client takes for an answer, the
time it may stay silent. A connection's next request is read when its last answer is gone. When there are too many, one
that asks for nothing gives way to a new one: a health probe always gets in, and its answer waits for no other.

An answer may have no end: who follows it is sent a piece at a time, the next one when he has taken the last.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from enum import Enum
from http import HTTPStatus
from typing import NamedTuple, cast

import h11

from jetbroker import limits

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Lane(Enum):
    """What an answer waits for."""

    PROBE = "nothing"
    OWN = "logins; who makes it sees to it by himself that not too much is made"
    SHARED = "other answers: few are made at a time"


class Request(NamedTuple):
    """What is asked. `target`: path and query; `headers`: names in lower case; `address`: the client's, no port."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    address: str = ""

    def header(self, name: str) -> str:
        """The value of a header, "" without it; of one that comes several times all of them."""
        return ", ".join(value for known, value in self.headers if known == name)


class Response(NamedTuple):
    """One answer. `headers` come besides Date and Content-Length.

    `follow`: the answer goes on behind `body`, without an end. It is given the client, and says what is to be done
    when that is gone.
    """

    status: HTTPStatus
    body: bytes
    headers: tuple[tuple[str, str], ...]
    follow: "Callable[[HttpConnection], Callable[[], None]] | None" = None


Answer = Callable[[Request], Awaitable[Response]]
"""From a request to its answer."""
LaneOf = Callable[[Request], Lane]


def text_response(status: HTTPStatus, text: str) -> Response:
    """A plain text, for errors."""
    headers = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))
    return Response(status, text.encode("utf-8", "replace"), headers)


class HttpListener:
    """The connections of one port, and what answers their requests."""

    def __init__(self, loop: asyncio.AbstractEventLoop, answer: Answer, lane_of: LaneOf) -> None:
        self.loop = loop
        self.answer = answer
        self.lane_of = lane_of
        self.connections: dict[HttpConnection, None] = {}  # the first is the one that was last served the longest ago
        self.gate = asyncio.Semaphore(limits.MONITOR_ANSWERS)
        self.pending_bytes = 0  # of answers that are not taken yet

    def connection(self) -> "HttpConnection":
        """A protocol for a connection that is being accepted."""
        return HttpConnection(self)

    def admit(self, connection: "HttpConnection") -> None:
        """One more. Somebody has to go when there are too many: who asks for nothing first, then who does not read."""
        if len(self.connections) >= limits.MONITOR_CONNECTIONS:
            given_up = min(self.connections, key=lambda other: other.stage)  # of equal ones the first
            del self.connections[given_up]
            given_up.abort()
        self.connections[connection] = None

    def served(self, connection: "HttpConnection") -> None:
        """It has taken an answer."""
        if self.connections.pop(connection, connection) is None:
            self.connections[connection] = None

    def close(self) -> None:
        """Drop all connections."""
        for connection in list(self.connections):
            connection.abort()


class HttpConnection(asyncio.Protocol):
    """One client: its requests one after the other."""

    def __init__(self, listener: HttpListener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._http: h11.Connection | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._request: h11.Request | None = None
        self._body_bytes = 0
        self._in_request = False
        self._writing = False  # an answer is on its way
        self._pending_bytes = 0  # its size
        self._left: Callable[[], None] | None = None  # the answer has no end, and this is told when the client is gone

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accepted."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)
        self._listener.admit(self)
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.MONITOR_HEADER_BYTES)
        self._arm(limits.MONITOR_REQUEST_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request."""
        if self._http is None:
            return
        if self._left is not None:  # there is no next answer
            self.abort()
            return
        if not self._in_request:
            self._in_request = True
            self._arm(limits.MONITOR_REQUEST_SECONDS)
        self._http.receive_data(data)
        self._go_on()

    def eof_received(self) -> bool:
        """The client sends no more, but may still want its answer."""
        if self._left is not None:
            self.abort()
        elif self._http is not None:
            self._http.receive_data(b"")
            self._go_on()
        return True

    def pause_writing(self) -> None:
        """The client does not take the answer as fast as it comes: see `_sent`."""

    def resume_writing(self) -> None:
        """All of the answer is with the kernel."""
        if self._left is not None:
            self._disarm()
        elif self._writing:
            self._sent()

    def connection_lost(self, error: Exception | None) -> None:
        """Gone."""
        self._listener.connections.pop(self, None)
        self._forget_answer()
        self._http = None
        self._disarm()
        if self._task is not None:
            self._task.cancel()
        if self._left is not None:
            self._left()

    def abort(self) -> None:
        """Cut off at once."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def stage(self) -> int:
        """0: no whole request has come; 1: an answer is being taken; 2: one is being made."""
        return 2 if self._task is not None else int(self._writing)

    # --- requests ---

    def _go_on(self) -> None:
        if self._http is None or self._task is not None or self._writing:
            return
        try:
            while True:
                event = self._http.next_event()
                if isinstance(event, h11.Request):
                    self._begin(event)
                elif isinstance(event, h11.Data):
                    self._body_bytes += len(event.data)
                    if self._body_bytes > limits.MONITOR_BODY_BYTES:
                        raise h11.RemoteProtocolError("body too large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
                elif isinstance(event, h11.EndOfMessage):
                    self._start_answer()
                    return
                elif isinstance(event, h11.ConnectionClosed):
                    self._close()
                    return
                else:  # more is needed, or the last answer is not gone yet
                    return
        except h11.RemoteProtocolError as error:
            self._refuse(HTTPStatus(error.error_status_hint))

    def _begin(self, request: h11.Request) -> None:
        self._request = request
        self._body_bytes = 0
        if len(request.headers) > limits.MONITOR_HEADERS:
            raise h11.RemoteProtocolError("too many headers", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        if request.http_version not in (b"1.0", b"1.1"):
            raise h11.RemoteProtocolError("other version", HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
        if request.method == b"CONNECT":
            raise h11.RemoteProtocolError("no proxy", HTTPStatus.METHOD_NOT_ALLOWED)

    def _start_answer(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()  # what is sent ahead waits in the kernel
        self._disarm()
        self._task = self._listener.loop.create_task(self._answer())

    async def _answer(self) -> None:
        request = self._asked()
        try:
            lane = self._listener.lane_of(request)
            if lane is Lane.PROBE:
                response = await self._listener.answer(request)
            elif lane is Lane.OWN:
                response = await self._answer_unless_full(request)
            else:
                async with self._listener.gate:
                    response = await self._answer_unless_full(request)
        except Exception as error:  # our own bug: this client hears of it, and so does the log
            path = request.target.partition("?")[0]
            self._listener.loop.call_exception_handler({"message": f"Error answering {path}", "exception": error})
            response = text_response(HTTPStatus.INTERNAL_SERVER_ERROR, "500 internal server error\n")
        self._task = None
        self._send(response)

    def _asked(self) -> Request:
        peer = self._transport.get_extra_info("peername") if self._transport is not None else None
        address = str(peer[0]) if peer else ""
        if self._request is None:
            return Request("GET", "/", (), address)
        headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in self._request.headers)
        method, target = (text.decode("ascii", "replace") for text in (self._request.method, self._request.target))
        return Request(method, target, headers, address)

    async def _answer_unless_full(self, request: Request) -> Response:
        if self._listener.pending_bytes > limits.MONITOR_PENDING_BYTES:
            return text_response(HTTPStatus.SERVICE_UNAVAILABLE, "503 too many answers are not taken yet\n")
        return await self._listener.answer(request)

    def _refuse(self, status: HTTPStatus) -> None:
        """The request is none: say so, if anybody listens, and close."""
        if self._http is not None and self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._send(text_response(status, f"{status.value} {status.phrase}"), close=True)
        else:
            self._close()

    # --- answers ---

    def _send(self, response: Response, *, close: bool = False) -> None:
        if self._http is None or self._transport is None:
            return
        headers = [*response.headers, ("Date", _http_date(time.time()))]
        is_head = self._request is not None and self._request.method == b"HEAD"
        endless = response.follow is not None and not is_head
        if not endless:
            headers.append(("Content-Length", str(len(response.body))))
        if close:
            headers.append(("Connection", "close"))
        start = h11.Response(status_code=response.status, reason=response.status.phrase, headers=headers)
        out = [self._http.send(start)]
        if response.follow is not None and endless:
            self._begin_endless(response.follow, [*out, self._http.send(h11.Data(data=response.body))])
            return
        if not is_head:
            out.append(self._http.send(h11.Data(data=response.body)))
        out.append(self._http.send(h11.EndOfMessage()))
        self._writing = True
        self._pending_bytes = len(response.body)
        self._listener.pending_bytes += self._pending_bytes
        self._arm(limits.MONITOR_WRITE_SECONDS)
        self._transport.write(b"".join(part for part in out if part))
        if self._transport.get_write_buffer_size() == 0:
            self._sent()

    def _begin_endless(self, follow: "Callable[[HttpConnection], Callable[[], None]]", out: list[bytes | None]) -> None:
        self._writing = True
        if self._transport is not None:
            self._transport.write(b"".join(part for part in out if part))
            self._transport.resume_reading()  # to hear of its end
        self._left = follow(self)

    def push(self, data: bytes) -> bool:
        """Send a piece of an answer without an end. False: the client has not taken the last one, and is sent none.

        Who takes nothing for `limits.MONITOR_WRITE_SECONDS` is cut off.
        """
        if self._http is None or self._transport is None or self._transport.is_closing():
            return False
        if self._transport.get_write_buffer_size() > 0:
            return False
        self._transport.write(self._http.send(h11.Data(data=data)) or b"")
        if self._transport.get_write_buffer_size() > 0:
            self._arm(limits.MONITOR_WRITE_SECONDS)
        return True

    def _sent(self) -> None:
        """The answer is gone: close, or wait for the next request."""
        self._forget_answer()
        self._listener.served(self)
        self._writing = False
        self._in_request = False
        if self._http is None or self._transport is None:
            return
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            self._close()
            return
        self._http.start_next_cycle()
        self._arm(limits.MONITOR_IDLE_SECONDS)
        self._transport.resume_reading()
        self._go_on()

    def _forget_answer(self) -> None:
        self._listener.pending_bytes -= self._pending_bytes
        self._pending_bytes = 0

    def _close(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            self._arm(limits.MONITOR_WRITE_SECONDS)

    # --- time-outs ---

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._timer = self._listener.loop.call_later(seconds, self.abort)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _http_date(seconds: float) -> str:
    """As HTTP wants it; written by hand because the email package costs start-up time, and strftime has locales."""
    at = time.gmtime(seconds)
    day = f"{_DAYS[at.tm_wday]}, {at.tm_mday:02d} {_MONTHS[at.tm_mon - 1]} {at.tm_year:04d}"
    return f"{day} {at.tm_hour:02d}:{at.tm_min:02d}:{at.tm_sec:02d} GMT"
