"""The clients of a broker: who is connected, INFO, login, keep-alive. All of it per event, none per message."""

import asyncio
import random

from jetbroker import limits
from jetbroker.accounts.account import Account
from jetbroker.auth.passwords import Authenticator
from jetbroker.config.durations import format_duration
from jetbroker.config.options import Options
from jetbroker.connections.client import ClientProtocol
from jetbroker.connections.closed import ClosedConnections, Traffic
from jetbroker.connections.handshake import check_info
from jetbroker.connections.info import ServerInfo
from jetbroker.connections.login import REDACTED, Logins
from jetbroker.connections.output import Shared
from jetbroker.errors import ProtocolError
from jetbroker.logs import Logger
from jetbroker.tick import Tick

FIRST_PING_SECONDS = 2.0
PENDING_BYTES = "Slow Consumer (Pending Bytes)"
WRITE_DEADLINE = "Slow Consumer (Write Deadline)"


class Clients:
    """Registry and event handler of all client connections."""

    def __init__(
        self,
        options: Options,
        tick: Tick,
        accounts: dict[str, Account],
        authenticator: Authenticator,
        info: ServerInfo,
        log: Logger,
    ) -> None:
        self.options = options
        self.accounts = accounts
        self.info = info
        self.logins = Logins(authenticator, accounts, options.authorization.timeout, tick.loop)
        self.log = log
        self.connected: dict[int, ClientProtocol] = {}
        self.total = 0
        self.stale = 0
        self.closed = ClosedConnections(options.max_closed_clients)
        self.closed_traffic: dict[str, Traffic] = {}  # of connections that are gone, by account
        self.shared = Shared(tick, self)
        self.shared.max_pending = options.max_pending
        self.shared.max_payload = options.max_payload
        self.shared.max_subscriptions = options.max_subscriptions
        self.shared.set_control_line(options.max_control_line)
        self._loop = tick.loop
        self._sweeper: asyncio.TimerHandle | None = None
        self._closing_since: dict[int, float] = {}
        self._stopping = False
        self._nobody_left: asyncio.Future[None] | None = None

    def factory(self) -> ClientProtocol:
        """A protocol for a connection that is being accepted."""
        self.total += 1
        account = self.logins.first_account
        return ClientProtocol(self.shared, account.router, account, self.total, self.logins.authenticator.required)

    def start(self) -> None:
        """Begin with pings and the clean-up of idle memory."""
        self._sweeper = self._loop.call_later(limits.SWEEP_SECONDS, self._sweep)

    async def stop(self) -> None:
        """Close every connection without a word. What is queued is sent, unless a client does not take it in time."""
        self._stopping = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        self.logins.stop()
        for client in list(self.connected.values()):
            client.close("Server Shutdown")
        if self.connected:
            self._nobody_left = self._loop.create_future()
            await asyncio.wait([self._nobody_left], timeout=limits.STOP_FLUSH_SECONDS)

    def announce_lame_duck(self) -> None:
        """Tell the clients that understand it to go elsewhere."""
        for client in list(self.connected.values()):
            if client.connected and client.protocol_level > 0:
                client.send(self.info.lame_duck(client))

    async def close_gradually(self, seconds: float) -> None:
        """Close every connection, spread over this time (a few: within seconds), so that not all reconnect at once."""
        clients = list(self.connected.values())
        step = min(seconds / max(len(clients), 1), limits.LAME_DUCK_STEP_SECONDS)
        for client in clients:
            client.close("Server Shutdown")
            if client is not clients[-1]:
                await asyncio.sleep(random.uniform(step / 2, step))

    # --- events from ClientProtocol ---

    def client_opened(self, client: ClientProtocol) -> None:
        """A connection was accepted: greet it."""
        now = self._loop.time()
        client.opened_at = now
        client.last_ping_at = now + min(FIRST_PING_SECONDS, self.options.ping_interval) * random.uniform(1.0, 1.2)
        self.connected[client.cid] = client
        client.send(self.info.first(client))
        limit = self.options.max_connections
        if self._stopping:
            client.close("Server Shutdown")
        elif 0 < limit < len(self.connected):
            self.log.error(f"{self._who(client)} - maximum connections exceeded")
            client.close("Maximum Connections Exceeded", "maximum connections exceeded")
        else:
            self.log.debug(f"{self._who(client)} - Client connection created")
            self.logins.expect(client)

    def client_lost(self, client: ClientProtocol, error: Exception | None) -> None:
        """The connection is gone."""
        self.connected.pop(client.cid, None)
        self._closing_since.pop(client.cid, None)
        self.logins.forget(client)
        if client.connected:
            client.account.connections -= 1
        reason = client.close_reason or ("Read Error" if error else "Client Closed")
        self.closed_traffic.setdefault(client.account.name, Traffic()).add(client)
        self.closed.add(client, reason)
        if reason == PENDING_BYTES:
            limit = self.options.max_pending
            self.log.info(f"{self._who(client)} - Slow Consumer Detected: MaxPending of {limit} Exceeded")
        if self._nobody_left is not None and not self.connected and not self._nobody_left.done():
            self._nobody_left.set_result(None)
        self.log.debug(f"{self._who(client)} - Client connection closed: {reason}")

    def client_connect(self, client: ClientProtocol, raw: bytes) -> None:
        """CONNECT. Raises ProtocolError."""
        self.logins.connect(client, raw)

    def client_greet(self, client: ClientProtocol) -> None:
        """The first PING after CONNECT was answered: send the second INFO."""
        client.greeted = True
        client.send(self.info.after_login(client))

    def client_info(self, client: ClientProtocol, raw: bytes) -> None:
        """INFO from a client means nothing, unless it is no JSON. Raises ProtocolError."""
        check_info(raw)

    def client_failed(self, client: ClientProtocol, error: ProtocolError) -> None:
        """The client said something that ends its connection."""
        if error.detail:
            self.log.error(f"{self._who(client)} - {error.detail}")
        client.close(error.reason, error.text)

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
            if client.login_pending or client.closed:  # it may have been cut off right now
                continue
            if heard:
                client.pings_out = 0
            if now >= client.last_ping_at:
                self._ping(client, now)
        self._sweeper = self._loop.call_later(limits.SWEEP_SECONDS, self._sweep)

    def _end(self, client: ClientProtocol, now: float) -> None:
        """A closed connection stays until its last bytes are taken, but not for ever."""
        if now - self._closing_since.setdefault(client.cid, now) > self.options.write_deadline:
            client.transport.abort()

    def _cut_off(self, client: ClientProtocol) -> None:
        deadline = format_duration(self.options.write_deadline)
        self.shared.slow_consumers += 1
        self.log.info(
            f"{self._who(client)} - Slow Consumer Detected: "
            f"WriteDeadline of {deadline} exceeded with {client.pending_bytes} total bytes."
        )
        client.abort(WRITE_DEADLINE)

    def _ping(self, client: ClientProtocol, now: float) -> None:
        client.last_ping_at = now + self.options.ping_interval
        if client.pings_out + 1 > self.options.ping_max:
            self.log.debug(f"{self._who(client)} - Stale Client Connection - Closing")
            self.stale += 1
            client.close("Stale Connection", "Stale Connection")
            return
        client.ping()

    def _who(self, client: ClientProtocol) -> str:
        described = f"{client.peer} - cid:{client.cid}"
        if client.connected:
            version = f"v{client.version}" if client.version else "v"
            described += f' - "{version}:{client.lang}:{client.name}"'
            user = f"/user:{client.user}" if client.user else ""
            if client.user == REDACTED:
                user = "/token"
            described += f' - "{client.account.name}{user}"'
        return described
