"""The clients of a broker: who is connected, INFO, login, keep-alive. All of it per event, none per message."""

import asyncio
import itertools
import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from jetbroker import limits
from jetbroker.accounts.account import Account
from jetbroker.auth.authenticator import Authenticator
from jetbroker.config.durations import format_duration
from jetbroker.config.options import Options
from jetbroker.connections.client import ClientProtocol
from jetbroker.connections.closed import ClosedConnections, Traffic
from jetbroker.connections.ending import REASON, Ending
from jetbroker.connections.events import ClientEvents, Witness
from jetbroker.connections.halves import Shared
from jetbroker.connections.handshake import read_info
from jetbroker.connections.info import ServerInfo
from jetbroker.connections.login import Logins
from jetbroker.connections.memory import Footprint
from jetbroker.connections.tls_queue import TlsQueue
from jetbroker.connections.trace import tracer_of
from jetbroker.connections.unauthenticated import Unauthenticated
from jetbroker.errors import LoginRefused, ProtocolError
from jetbroker.forms.gotext import quoted
from jetbroker.logs.logger import Logger
from jetbroker.tick import Tick

if TYPE_CHECKING:
    from jetbroker.tracing.trace import MessageTrace

FIRST_PING_SECONDS = 2.0
FIRST_PING_SPREAD = 1.2  # up to so many times as long, so that not all come at once
PENDING_BYTES = "Slow Consumer (Pending Bytes)"
WRITE_DEADLINE = "Slow Consumer (Write Deadline)"


class Clients(ClientEvents):
    """Registry and event handler of all client connections."""

    def __init__(
        self,
        options: Options,
        tick: Tick,
        accounts: dict[str, Account],
        authenticator: Authenticator,
        info: ServerInfo,
        log: Logger,
        witness: Witness,
    ) -> None:
        self.options = options
        self.accounts = accounts
        self.info = info
        self.witness = witness
        self.logins = Logins(authenticator, accounts, options, tick.loop, log, self.who, witness)
        self.log = log
        self.connected: dict[int, ClientProtocol] = {}
        self.total = 0
        self.next_cid: Callable[[], int] = itertools.count(1).__next__  # of clients and links alike
        self.stale = 0
        self.closed = ClosedConnections(options.max_closed_clients)
        self.closed_traffic: dict[str, Traffic] = {}  # of connections that are gone, by account
        self.shared = Shared(tick, self)
        self.shared.max_pending = options.max_pending
        self.shared.max_payload = options.max_payload
        self.shared.max_subscriptions = options.max_subscriptions
        self.shared.max_sub_tokens = options.max_sub_tokens
        self.shared.stall = not options.no_fast_producer_stall
        self.shared.set_control_line(options.max_control_line)
        self._limit_told: dict[str, float] = {}  # account -> loop time when the log last told of its limit
        self._loop = tick.loop
        self._sweeper: asyncio.TimerHandle | None = None
        self.unauthenticated = Unauthenticated()
        self.tls_queue = TlsQueue(self._loop, self.unauthenticated)
        self._footprint = Footprint()
        self._told: dict[str, float] = {}
        self._closing_since: dict[int, float] = {}
        self._ending = Ending(tick.loop)
        self.follow_trace()

    def factory(self, kind: str = "nats") -> ClientProtocol:
        """A protocol for a connection that is being accepted. `kind`: "nats" or "websocket"."""
        self.total += 1
        account = self.logins.first_account
        due = self.logins.authenticator.due(kind)
        client = ClientProtocol(self.shared, account.router, account, self.next_cid(), due)
        client.kind = kind
        return client

    def start(self) -> None:
        """Begin with pings and the clean-up of idle memory."""
        self._sweeper = self._loop.call_later(self._sweep_seconds, self._sweep)

    async def stop(self) -> None:
        """Close every connection without a word."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        self.logins.stop()
        await self._ending.close(self.connected)

    def announce_lame_duck(self) -> None:
        """Tell the clients that understand it, and have begun, to go elsewhere."""
        for client in list(self.connected.values()):
            if client.greeted and client.protocol_level > 0:
                client.send(self.info.lame_duck(client))

    async def close_gradually(self, seconds: float) -> None:
        """Close every connection, spread over this time (a few: within seconds), so that not all reconnect at once."""
        clients = list(self.connected.values())
        step = min(seconds / max(len(clients), 1), limits.LAME_DUCK_STEP_SECONDS)
        for client in clients:
            client.close(REASON)
            if client is not clients[-1]:
                await asyncio.sleep(random.uniform(step / 2, step))

    # --- a reload ---

    def follow_trace(self) -> None:
        """Log the clients' traffic as the options say: at the start, and when they have changed."""
        self.shared.tracer = tracer_of(self.options, self.log, self.who)
        for client in self.connected.values():
            client.set_trace(self.shared.tracer is not None)

    def set_max_control_line(self, size: int) -> None:
        """From now on, for those connected too; bytes."""
        self.shared.set_control_line(size)
        for client in self.connected.values():
            client.set_max_control_line(size)

    def set_max_payload(self, size: int) -> None:
        """From now on, for those connected too (also where an account has a bound of its own); bytes, -1: any."""
        self.shared.max_payload = size
        for client in self.connected.values():
            client.set_max_payload(size)

    def close_beyond(self, limit: int) -> int:
        """Close as many connections, whichever, as there are above the limit; returns how many."""
        open_ones = [client for client in self.connected.values() if not client.closed]
        beyond = open_ones[: max(len(open_ones) - max(limit, 0), 0)]
        for client in beyond:
            self._one_too_many(client)
        return len(beyond)

    def close_unpinned(self, pinned: frozenset[str]) -> int:
        """Close who came with a certificate that is not one of these (none: all are good); returns how many."""
        strangers = [
            client
            for client in self.connected.values()
            if pinned and client.kind == "nats" and client.tls is not None and client.tls.spki_sha256 not in pinned
        ]
        for client in strangers:
            client.close("TLS Handshake Failure")
        return len(strangers)

    def _one_too_many(self, client: ClientProtocol) -> None:
        text = "maximum connections exceeded"
        self._tell_now_and_then(client, text, self.log.error)
        client.close("Maximum Connections Exceeded", text)

    def _tell_now_and_then(self, client: ClientProtocol, text: str, tell: Callable[[str], None]) -> None:
        """What may come for thousands of connections: the log gets it once a minute for each account."""
        if client.connected:
            text = f"{text} - Account:{client.account.label}"
        now = self._loop.time()
        if now - self._told.get(text, -limits.SAME_ERROR_SECONDS) < limits.SAME_ERROR_SECONDS:
            return
        self._told = {told: at for told, at in self._told.items() if now - at < limits.SAME_ERROR_SECONDS}
        self._told[text] = now
        suffix = f" - {client.identity.label()}" if client.connected and client.user else ""
        tell(f"{self.who(client)} - {text}{suffix}")

    # --- events (see ClientEvents) ---

    def client_opened(self, client: ClientProtocol) -> None:
        """A connection was accepted: greet it."""
        now = self._loop.time()
        client.opened_at = now
        client.pings.due_at = now + self._ping_interval(client)
        self.connected[client.cid] = client
        self._footprint.grown(len(self.connected))
        client.set_trace(self.shared.tracer is not None)
        if client.arrival is None or not client.arrival.greets_later:
            self.greet(client)
        if self._ending.has_begun:
            client.close(REASON)
            return
        self.log.debug(f"{self.who(client)} - Client connection created")
        if len(self.connected) > max(self.options.max_connections, 0):
            self._one_too_many(client)
        elif client.arrival is None:
            self.logins.expect(client)

    def greet(self, client: ClientProtocol) -> None:
        """Send the first INFO."""
        self.logins.greet(client)
        client.send(self.info.first(client))

    def client_arrived(self, client: ClientProtocol) -> None:
        """What goes before a client's first command is done: its time to log in begins."""
        client.pings.due_at = self._loop.time() + self._ping_interval(client)
        if not client.closed:
            self.logins.expect(client)

    def client_lost(self, client: ClientProtocol, error: Exception | None) -> None:
        """The connection is gone."""
        self.connected.pop(client.cid, None)
        self._closing_since.pop(client.cid, None)
        self.unauthenticated.forget(client)
        if client.connected:
            client.account.connections -= 1
        reason = client.close_reason or ("Read Error" if error else "Client Closed")
        self.closed_traffic.setdefault(client.account.name, Traffic()).add(client)
        self.closed.add(client, reason, client.identity.refused)
        if reason == PENDING_BYTES:
            limit = self.options.max_pending
            client.account.slow_consumers += 1
            self.log.info(f"{self.who(client)} - Slow Consumer Detected: MaxPending of {limit} Exceeded")
        self._ending.gone(self.connected)
        self.log.debug(f"{self.who(client)} - Client connection closed: {reason}")
        self.witness.left(client, reason)
        client.identity.leave()

    def client_keeps(self, client: ClientProtocol, size: int) -> None:
        """A client that has to log in keeps `size` bytes of a command that is not whole; 0: none any more."""
        self.unauthenticated.keep(client, size)

    def client_connect(self, client: ClientProtocol, raw: bytes) -> None:
        """CONNECT. Raises ProtocolError."""
        if not client.connected:
            first = min(FIRST_PING_SECONDS, self._ping_interval(client)) * random.uniform(1.0, FIRST_PING_SPREAD)
            client.pings.due_at = self._loop.time() + first
        self.logins.connect(client, raw)

    def client_anonymous(self, client: ClientProtocol) -> None:
        """It begins with something else than CONNECT, although a login is due. Raises ProtocolError."""
        self.logins.begin_silently(client)

    def client_greet(self, client: ClientProtocol) -> None:
        """The first PING after CONNECT was answered: send the second INFO."""
        client.send(self.info.after_login(client))

    def client_info(self, client: ClientProtocol, raw: bytes) -> None:
        """INFO from a client means nothing, unless it is no JSON. Raises ProtocolError."""
        read_info(raw)

    def client_refused(self, client: ClientProtocol, text: str) -> None:
        """It asked for something it may not do."""
        self.log.error(f"{self.who(client)} - {text}")

    def client_at_limit(self, client: ClientProtocol) -> None:
        """It has as many subscriptions as it may. The log tells of it once in two seconds for each account."""
        now = self._loop.time()
        if now >= self._limit_told.get(client.account.name, 0.0) + limits.LIMIT_REPORT_SECONDS:
            self._limit_told[client.account.name] = now
            self.log.error(f"{self.who(client)} - maximum subscriptions exceeded")

    def client_stalled(self, client: ClientProtocol) -> None:
        """It publishes faster than a receiver takes, and has to wait."""
        wait = format_duration(limits.PUBLISHER_STALL_SECONDS)
        self._tell_now_and_then(client, f"Producer was stalled for a total of {wait}", self.log.warn)

    def client_finished(self, client: ClientProtocol, sid: bytes, most: int) -> None:
        """One of its subscriptions has got as many messages as it asked for."""
        shown = sid.decode("utf-8", "backslashreplace")
        self.log.debug(f"{self.who(client)} - Auto-unsubscribe limit of {most} reached for sid '{shown}'")

    def client_subscription_removed(self, client: ClientProtocol, what: str) -> None:
        """Its user's new permissions do not allow this subscription."""
        kind, _, name = client.identity.label().partition(":")
        shown = quoted((name or client.user or "N/A").encode())
        whose = "JWT User" if kind == "jwt" else kind.capitalize()
        self.log.info(f"Removed sub {what} for {whose} {shown} - not authorized")

    def client_traced(self, client: ClientProtocol, trace: "MessageTrace") -> None:
        """It published a message that asked for a trace."""
        self.witness.traced(trace)

    def client_failed(self, client: ClientProtocol, error: ProtocolError) -> None:
        """The client said something that ends its connection."""
        if error.often:
            self._tell_now_and_then(client, error.text, self.log.error)
        elif error.detail:
            self.log.error(f"{self.who(client)} - {error.detail}")
        if isinstance(error, LoginRefused):
            self.witness.refused(client, error)
        client.close(error.reason, error.text, error.unread > limits.UNREAD_RESET_BYTES)

    # --- keep-alive ---

    def _sweep(self) -> None:
        now = self._loop.time()
        for client in list(self.connected.values()):
            if client.closed:
                self._end(client, now)
                continue
            heard = client.sweep()
            if client.blocked_seconds > self.options.write_deadline > 0:
                self._cut_off(client)
            if client.closed or client.arrival is not None:
                continue
            if heard:
                client.pings.put_off(
                    now, now - self._sweep_seconds + self._ping_interval(client)
                )  # heard then, or later
            if now >= client.pings.due_at:
                self._ping(client, now)
        if self._footprint.follow(len(self.connected)):
            self.log.debug("Memory of closed connections given back")
        self._sweeper = self._loop.call_later(self._sweep_seconds, self._sweep)

    @property
    def _sweep_seconds(self) -> float:
        """More often for short intervals between pings."""
        shortest = min(self.options.ping_interval, self.options.websocket.ping_interval or limits.PING_INTERVAL_SECONDS)
        return min(limits.SWEEP_SECONDS, max(shortest / 4, limits.SHORTEST_SWEEP_SECONDS))

    def _end(self, client: ClientProtocol, now: float) -> None:
        """A closed connection stays until its last bytes are taken, but not for ever."""
        if now - self._closing_since.setdefault(client.cid, now) > self.options.write_deadline:
            client.transport.abort()

    def _cut_off(self, client: ClientProtocol) -> None:
        deadline = format_duration(self.options.write_deadline)
        self.shared.slow_consumers += 1
        client.account.slow_consumers += 1
        self.log.info(
            f"{self.who(client)} - Slow Consumer Detected: "
            f"WriteDeadline of {deadline} exceeded with 1 chunks of {client.pending_bytes} total bytes."
        )
        client.abort(WRITE_DEADLINE)

    def _ping_interval(self, client: ClientProtocol) -> float:
        if client.kind == "websocket" and self.options.websocket.ping_interval > 0:
            return self.options.websocket.ping_interval
        return self.options.ping_interval

    def _ping(self, client: ClientProtocol, now: float) -> None:
        client.pings.next_at(now, self._ping_interval(client))
        self.log.debug(f"{self.who(client)} - Client Ping Timer")
        if client.pings.unanswered + 1 > self.options.ping_max:
            self.log.debug(f"{self.who(client)} - Stale Client Connection - Closing")
            self.stale += 1
            client.close("Stale Connection", "Stale Connection")
            return
        client.ping()

    def who(self, client: ClientProtocol) -> str:
        """A client as the log names it."""
        described = f"{client.proxy or client.peer} - {'wid' if client.kind == 'websocket' else 'cid'}:{client.cid}"
        if client.upgrade is not None and client.upgrade.client_ip:
            described = f"{client.upgrade.client_ip}/{described}"
        if client.connected:
            program = [f"v{client.version}" if client.version else "", client.lang, client.name]
            if any(program):
                described += f" - {quoted(':'.join(word for word in program if word).encode())}"
            if client.user and not client.anonymous:
                described += f" - {quoted(f'{client.account.label}/{client.identity.label()}'.encode())}"
        return described
