"""The server's own services, asked by messages: who am I, which connections does my account have, how is the server.

Every account has the services of `_IN_EVERY_ACCOUNT`, the system account also those that tell of the whole server.
What they tell is what the monitoring port tells; it is imported with the first request.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from jetbroker import limits
from jetbroker.accounts.account import Account
from jetbroker.config.options import PermissionsOptions, SubjectPermissions
from jetbroker.connections.client import ClientProtocol
from jetbroker.monitor.envelope import Envelope
from jetbroker.monitor.events import Events
from jetbroker.monitor.loading import loaded
from jetbroker.monitor.orders import ORDERS, Orders
from jetbroker.monitor.servers import OtherServers
from jetbroker.routing.router import CallbackReceiver
from jetbroker.tick import Tick
from jetbroker.turns import next_turn
from jetbroker.wire.headers import header_value

if TYPE_CHECKING:
    from jetbroker.connections.connected import Connected
    from jetbroker.monitor.claims import ClaimsUpdate
    from jetbroker.monitor.options import EventFilterOptions
    from jetbroker.monitor.sources import Sources

_IN_EVERY_ACCOUNT = (
    "$SYS.REQ.USER.INFO",
    "$SYS.REQ.ACCOUNT.PING.CONNZ",
    "$SYS.REQ.ACCOUNT.PING.STATZ",
    "$SYS.REQ.SERVER.PING.CONNZ",
)
_OF_THE_SERVER = tuple(
    "STATSZ IDZ HEALTHZ VARZ CONNZ SUBSZ JSZ LEAFZ ROUTEZ GATEWAYZ RAFTZ ACCOUNTZ PROFILEZ EXPVARZ IPQUEUESZ".split()
)
_OF_AN_ACCOUNT = tuple("CONNZ STATZ LEAFZ SUBSZ JSZ CONNS INFO".split())
_CLAIMS_UPDATES = ("$SYS.REQ.ACCOUNT.*.CLAIMS.UPDATE", "$SYS.ACCOUNT.*.CLAIMS.UPDATE")
_ASK_FOR_STATSZ = (b"$SYS.REQ.SERVER.PING", b".STATSZ")  # without a reply: all shall hear the answer
_BAD_REQUEST, _FAILED = 400, 500

# Asked by users of the system account, and by accounts that import them from it.
_USER_OF_ACCOUNT = "$SYS.REQ.USER.*.INFO"
_SUBSCRIBERS = "$SYS.DEBUG.SUBSCRIBERS"

# Whoever asks for the others gets them as they are.
_COMPRESSED = frozenset((*_OF_THE_SERVER, *_OF_AN_ACCOUNT, *ORDERS)) - {"STATSZ", "IDZ", "CONNS"}

Answer = dict[str, Any] | int | None


class _Asked(NamedTuple):
    """A request: where it came in, the tokens of its subject, where the answer goes, and how it may be encoded.

    `serving` is the last account on the way of one that has come through the imports of several, else "".
    """

    account: Account
    tokens: list[str]
    reply: bytes | None
    encoding: str
    serving: str

    def may_compress(self, answer: Answer) -> bool:
        """May the answer be compressed? What is told of users, and refusals, are not."""
        is_told = isinstance(answer, dict) and "error" not in answer
        return is_told and self.tokens[2] != "USER" and self.tokens[-1] in _COMPRESSED


class SystemServices:
    """Answers for one broker. `sources` gives what the monitoring port would look at, `orders` does what is ordered.

    `update_claims` (operator mode) gives an account another token: from the tokens of a subject and a body to what
    the answer holds. `envelope` is what all of it has in front, `events` tells who listens of connections that come
    and go, and `others` knows the servers that are linked by their system account.
    """

    def __init__(
        self,
        tick: Tick,
        server_id: str,
        sources: "Callable[[], Sources]",
        orders: Orders,
        update_claims: "ClaimsUpdate | None" = None,
    ) -> None:
        self._tick = tick
        self._server_id = server_id
        self._sources = sources
        self._orders = orders
        self._update_claims = update_claims
        self._known: set[Account] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting_bytes = 0
        self._answers = asyncio.Semaphore(limits.MONITOR_ANSWERS)
        self.envelope = Envelope(server_id, sources)
        self.events = Events(tick, self.envelope)
        self.others = OtherServers(tick, self.envelope)

    def attach(self, accounts: Iterable[Account]) -> None:
        """Answer in these accounts; those that are known already are left alone."""
        accounts = set(accounts)
        for account in accounts - self._known:
            receiver = CallbackReceiver(self._tick, partial(self._received, account), partial(_service, account))
            for subject in self._subjects(account.is_system):
                account.router.subscribe(receiver, subject.encode())
        self._known = accounts
        for account in accounts:
            if account.is_system:
                self.events.attach(account, list(accounts))
                self.others.attach(account)

    def close(self) -> None:
        """The server has ended: no timer keeps it, should the process live on."""
        self.events.close()
        self.others.close()

    def _subjects(self, is_system: bool) -> list[str]:
        if not is_system:
            return list(_IN_EVERY_ACCOUNT)
        found = ["$SYS.REQ.USER.INFO", "$SYS.REQ.SERVER.PING"]
        for name in _OF_THE_SERVER:
            found += [f"$SYS.REQ.SERVER.PING.{name}", f"$SYS.REQ.SERVER.{self._server_id}.{name}"]
        found += [f"$SYS.REQ.SERVER.{self._server_id}.{name}" for name in ORDERS]
        found += [f"$SYS.REQ.ACCOUNT.*.{name}" for name in _OF_AN_ACCOUNT]
        found += [_USER_OF_ACCOUNT, _SUBSCRIBERS]
        return found if self._update_claims is None else [*found, *_CLAIMS_UPDATES]

    def _received(
        self, account: Account, subject: bytes, reply: bytes | None, headers: bytes, body: bytes, origin: object
    ) -> None:
        is_update = subject.endswith(b".CLAIMS.UPDATE")
        if reply is None and subject.endswith(_ASK_FOR_STATSZ):
            reply = self.others.asked_to_tell()
        if (reply is None and not is_update) or len(self._tasks) >= limits.SYSTEM_REQUESTS:
            return
        if self._waiting_bytes + len(body) > limits.SYSTEM_REQUEST_BYTES:
            return
        connection: Any = origin  # a client or a link, None: the server itself
        tokens = subject.decode("utf-8", "replace").split(".")
        asked = _Asked(account, tokens, reply, _encoding(headers), _serving(headers))
        task = self._tick.loop.create_task(self._answer(asked, body, connection))
        self._tasks.add(task)
        self._waiting_bytes += len(body)
        task.add_done_callback(partial(self._answered, len(body)))

    def _answered(self, size: int, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._waiting_bytes -= size

    async def _answer(self, asked: "_Asked", body: bytes, client: "Connected | None") -> None:
        async with self._answers:
            await loaded()
            from jetbroker.monitor.sources import compact

            await next_turn()
            answer = await self._made(self._sources(), asked, body, client)
            if answer is None or asked.reply is None:
                return
            block, told = b"", compact(answer)
            if asked.encoding and asked.may_compress(answer):
                from jetbroker.monitor.encoding import encoded

                block, told = await asyncio.to_thread(encoded, told, asked.encoding)
            asked.account.router.publish_bytes(asked.reply, None, block, told)

    async def _made(self, sources: "Sources", asked: "_Asked", body: bytes, client: "Connected | None") -> Answer:
        account, tokens = asked.account, asked.tokens
        if tokens[1] == "DEBUG":
            from jetbroker.monitor.subsz import subscribers

            if not isinstance(client, ClientProtocol):
                return None
            return await subscribers(sources.accounts.get(asked.serving, client.account), body)
        if tokens[2] == "USER" and len(tokens) > 4:
            if client is not None and not isinstance(client, ClientProtocol):
                return None  # its own server knows who asks
            return self._enveloped(data=_known_of(client))
        if tokens[2] == "USER":
            ends_in = sources.clients.logins.seconds_left(client) if isinstance(client, ClientProtocol) else None
            return self._enveloped(data=user_info(client, ends_in))
        if self._update_claims is not None and tokens[-2:] == ["CLAIMS", "UPDATE"]:
            return self._enveloped(**await self._update_claims(tokens, body))
        name = tokens[-1] if len(tokens) > 4 else "STATSZ"
        if name == "IDZ":
            return {"name": sources.info.server_name, "host": sources.options.host, "id": self._server_id}
        if name in ORDERS:
            return await self._ordered(sources, name, body)
        of = account.name if not account.is_system else tokens[3] if tokens[2] == "ACCOUNT" else ""
        if name == "CONNS":
            return await self._connections(sources, of, body)
        return await self._told(sources, name, of, body)

    async def _told(self, sources: "Sources", name: str, of: str, body: bytes) -> dict[str, Any] | None:
        """What a service tells, of one account or (`of` is empty) of the server; None: nothing."""
        from jetbroker.monitor import options, services
        from jetbroker.monitor.query import BadRequest, NotAsked

        try:
            request = options.read(name, body)
        except options.RefusedOptions as refused:
            return self._enveloped(error={"code": _BAD_REQUEST, "description": str(refused)})
        if not _is_meant(request.servers, sources):
            return None
        if name == "STATSZ":
            from jetbroker.monitor import statistics

            return self._enveloped(statsz=await statistics.of_server(sources, self.others.count))
        try:
            found = await services.answer(sources, name, of, request.options)
        except NotAsked:
            return None
        except BadRequest as refused:
            return self._enveloped(data=None, error={"code": _FAILED, "description": str(refused)})
        return self._enveloped(data=found)

    async def _ordered(self, sources: "Sources", order: str, body: bytes) -> dict[str, Any] | None:
        from jetbroker.monitor import options

        try:
            cid = options.read_connection(order, body)
        except options.RefusedOptions as refused:
            self._orders.unreadable(str(refused))
            return None
        try:
            request = options.read(order, body)
        except options.RefusedOptions as refused:
            return self._enveloped(error={"code": _BAD_REQUEST, "description": str(refused)})
        if not _is_meant(request.servers, sources):
            return None
        failure = await self._orders.follow(sources, order, cid)
        return self._enveloped(**({"error": {"code": _FAILED, "description": failure}} if failure else {}))

    def _enveloped(self, **content: Any) -> dict[str, Any]:
        return {"server": self.envelope.server(), **content}

    async def _connections(self, sources: "Sources", of: str, body: bytes) -> dict[str, Any] | None:
        """How many connections an account has here, as it is told when that changes; None: it has no client."""
        from jetbroker.monitor import options, statistics

        account = sources.accounts.get(of)
        try:
            asked = options.read_account(body, of)
        except options.RefusedOptions:
            return None
        if account is None or asked != of or not account.connections:
            return None
        (row,) = await statistics.of_accounts(sources, [account])
        return self.events.connections(row)


def _encoding(headers: bytes) -> str:
    if not headers:
        return ""
    from jetbroker.tracing.asked import accepted_encoding  # most brokers do without

    return accepted_encoding(headers)


def _serving(headers: bytes) -> str:
    said = header_value(headers, b"Nats-Request-Info")
    if said is None:
        return ""
    from jetbroker.forms.gojson import fast_value

    try:
        info = fast_value(said)
    except ValueError:
        return ""
    found = info.get("svc") if isinstance(info, dict) else ""
    return found if isinstance(found, str) else ""


def user_info(client: "Connected | None", ends_in: float | None = None) -> dict[str, Any]:
    """Who a client is logged in as, what it may do, and in how many seconds its login ends."""
    if client is None:
        return {"user": "", "account": ""}
    name = client.account.name
    info: dict[str, Any] = {"user": client.user or "", "account": name, "account_name": client.account.tag or name}
    if (
        client.identity.login is not None
        and client.identity.login.token is not None
        and client.identity.login.token.claims.name
    ):
        info["user_name"] = client.identity.login.token.claims.name
    if client.permissions is not None:
        info["permissions"] = _permissions(client.permissions.options)
    if ends_in is not None and ends_in >= 1:
        info["expires"] = int(ends_in) * 1_000_000_000
    return info


def _known_of(client: "Connected | None") -> dict[str, Any]:
    """Who asks, as far as a service knows that is not the account's own: never the user's name."""
    info = user_info(client) | {"user": ""}
    if client is not None and client.account.is_system:
        info["account"] = ""
        del info["account_name"]
    return info


def _permissions(options: PermissionsOptions) -> dict[str, Any]:
    shown: dict[str, Any] = {"publish": _subjects(options.publish), "subscribe": _subjects(options.subscribe)}
    if options.responses is not None:
        shown["responses"] = {"max": options.responses.max_msgs, "ttl": int(options.responses.expires * 1e9)}
    return shown


def _subjects(options: SubjectPermissions | None) -> dict[str, list[str]]:
    shown = {} if options is None else {"allow": options.allow or [], "deny": options.deny}
    return {key: value for key, value in shown.items() if value}


def _is_meant(asked: "EventFilterOptions", sources: "Sources") -> bool:
    """Is this server among those that the request asks for?"""
    info = sources.info
    named = ((asked.server_name, info.server_name), (asked.host, sources.options.host), (asked.cluster, info.cluster))
    for wanted, value in named:
        if wanted and not (wanted == value if asked.exact_match else wanted in value):
            return False
    if asked.domain and asked.domain != sources.options.jetstream.domain:
        return False
    return all(tag.strip().lower() in sources.options.server_tags for tag in asked.tags)


def _service(account: Account, subject: bytes) -> bytes | None:
    """What traces call the service that an account has by this subject; None: it is none of another account."""
    kind = "USER" if subject == b"$SYS.REQ.USER.INFO" else "ACCOUNT"
    if account.is_system and kind != "USER":
        return None
    return f"$SYS.REQ.{kind}.{account.name}.".encode() + subject.rpartition(b".")[2]
