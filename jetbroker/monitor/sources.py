"""Where the endpoints take their figures from, and how they write what they have in common."""

import os
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from jetbroker import limits
from jetbroker.accounts.account import Account
from jetbroker.config.options import Options
from jetbroker.connections.clients import Clients
from jetbroker.connections.info import ServerInfo
from jetbroker.forms.gojson import escape_html
from jetbroker.forms.gotext import format_time
from jetbroker.monitor.query import BadRequest
from jetbroker.turns import Turn

if TYPE_CHECKING:
    from jetbroker.accounts.graph import Graph
    from jetbroker.auth.tokens import KnownAccount
    from jetbroker.connections.connected import Connected
    from jetbroker.jetstream.server import JetStreamServer
    from jetbroker.leafnodes.link import Link
    from jetbroker.leafnodes.server import Leafnodes

T = TypeVar("T")

_CPU_SAMPLE_SECONDS = 1.0
_UNITS = (("y", 365 * 86_400), ("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


class Sources:
    """A running broker, as monitoring sees it.

    `http_port` is the one that is listened on, `ready` whether clients are accepted. `graph` is what accounts give each
    other. In operator mode `token_of` is an account's token, and `unpinned` counts refused logins by accounts that are
    not pinned.
    """

    def __init__(
        self,
        options: Options,
        accounts: dict[str, Account],
        clients: Clients,
        info: ServerInfo,
        http_port: int,
        started_ns: int,
        ready: Callable[[], bool],
    ) -> None:
        self.options = options
        self.accounts = accounts
        self.clients = clients
        self.jetstream: JetStreamServer | None = None
        self.leafnodes: Leafnodes | None = None
        self.graph: Graph = {}
        self.token_of: Callable[[str], KnownAccount | None] = lambda name: None
        self.unpinned = 0
        self.info = info
        self.http_port = http_port
        self.started_ns = self.config_loaded_ns = started_ns
        self.ready = ready
        self.requests: dict[str, int] = {}  # by path
        self.usage = Usage(started_ns)
        self.expiries = Expiries()

    def count(self, path: str) -> None:
        """Somebody asked for this path."""
        self.requests[path] = self.requests.get(path, 0) + 1

    @property
    def links(self) -> "list[Link]":
        """To other servers, those that are live."""
        return [] if self.leafnodes is None else list(self.leafnodes.leafs.live.values())

    @property
    def connected(self) -> "list[Connected]":
        """Clients and links."""
        return [*self.clients.connected.values(), *self.links]

    @property
    def server_id(self) -> str:
        """The broker's id, as INFO shows it."""
        return self.info.server_id


class Expiries:
    """When certificates end. A file is read once for each time the configuration was."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], str] = {}

    def of(self, path: str, loaded_ns: int) -> str:
        """The end of the first certificate in a file; "" when that cannot be said."""
        if not path:
            return ""
        if (path, loaded_ns) not in self._known:
            self._known = {key: text for key, text in self._known.items() if key[1] == loaded_ns}
            self._known[path, loaded_ns] = _expiry(path)
        return self._known[path, loaded_ns]


def _expiry(path: str) -> str:
    from cryptography import x509  # loaded by now: there is TLS

    try:
        with open(path, "rb") as file:
            leaf = x509.load_pem_x509_certificates(file.read())[0]
    except (OSError, ValueError):
        return ""
    return leaf.not_valid_after_utc.strftime("%Y-%m-%dT%H:%M:%SZ")


class Usage:
    """What this process uses of the machine."""

    def __init__(self, started_ns: int) -> None:
        """`started_ns` is when the first sample began, nanoseconds since 1970."""
        self._at = time.monotonic() - (time.time_ns() - started_ns) / 1e9
        self._used = 0.0
        self._percent = 0.0

    def cpu_percent(self) -> float:
        """Of one core, since the last sample; a sample is at least a second long."""
        now = time.monotonic()
        if now - self._at >= _CPU_SAMPLE_SECONDS:
            used = time.process_time()
            self._percent = round((used - self._used) / (now - self._at) * 100, 1)
            self._at, self._used = now, used
        return self._percent

    @staticmethod
    def memory_bytes() -> int:
        """Resident memory."""
        try:
            with open("/proc/self/statm", "rb") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:  # not Linux: the peak is what there is
            import resource

            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def now_text() -> str:
    """The time as nats-server writes it."""
    return format_time(time.time_ns())


def uptime_text(nanoseconds: int) -> str:
    """Whole seconds as nats-server shows them: `1y2d3h4m5s`, from the largest unit that counts."""
    rest = max(nanoseconds, 0) // 1_000_000_000
    parts: list[str] = []
    for name, size in _UNITS:
        count, rest = divmod(rest, size)
        if parts or count or name == "s":
            parts.append(f"{count}{name}")
    return "".join(parts)


def go_float(value: float) -> float | int:
    """A float that Go would print without a fraction, as an integer."""
    return int(value) if value == int(value) else value


def page(rows: list[T], offset: int, limit: int) -> list[T]:
    """The rows a request asks for."""
    start = max(offset, 0)
    return rows[start : start + limit]


async def paced(rows: Iterable[T]) -> AsyncIterator[T]:
    """The rows one by one, with a turn of the event loop for the clients every now and then."""
    turn = Turn()
    for row in rows:
        yield row
        await turn.rest()


class Room:
    """The bytes of JSON that one answer may still take."""

    def __init__(self) -> None:
        self._left = limits.MONITOR_ANSWER_BYTES

    def take(self, part: T) -> T:
        """A part of the answer, when there is room for it. Raises BadRequest."""
        self._left -= len(orjson.dumps(part))
        if self._left < 0:
            raise BadRequest(f"the answer has more than {limits.MONITOR_ANSWER_BYTES} bytes: ask for less of it")
        return part


def pretty(value: Any) -> bytes:
    """JSON as the endpoints show it: indented, escaped as Go does."""
    return escape_html(orjson.dumps(value, option=orjson.OPT_INDENT_2))


def compact(value: Any) -> bytes:
    """JSON in one line."""
    return escape_html(orjson.dumps(value))
