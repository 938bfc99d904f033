"""The clients of a broker: who is connected, INFO, login, keep-alive. All of it per event, none per message."""

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson

from jetbroker import limits
from jetbroker.accounts.account import Account
from jetbroker.auth.passwords import Authenticator, Login
from jetbroker.config.durations import format_duration
from jetbroker.config.options import Options
from jetbroker.connections.client import ClientProtocol, Shared
from jetbroker.connections.closed import ClosedConnections, Traffic
from jetbroker.connections.handshake import ConnectOptions, check_info, decode_connect
from jetbroker.errors import ProtocolError
from jetbroker.logs import Logger
from jetbroker.tick import Tick

FIRST_PING_SECONDS = 2.0
REDACTED = "[REDACTED]"  # stands where a token was
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
        info: dict[str, Any],
        log: Logger,
    ) -> None:
        self.options = options
        self.accounts = accounts
        self.authenticator = authenticator
        self.info = info
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
        self._login_timers: dict[int, asyncio.TimerHandle] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._closing_since: dict[int, float] = {}
        self._stopping = False
        self._nobody_left: asyncio.Future[None] | None = None
        self._password_threads: ThreadPoolExecutor | None = None
        no_login = authenticator.login_without_credentials()
        self._first_account = accounts[no_login.account if no_login else "$G"]

    def factory(self) -> ClientProtocol:
        """A protocol for a connection that is being accepted."""
        self.total += 1
        account = self._first_account
        return ClientProtocol(self.shared, account.router, account, self.total, self.authenticator.required)

    def start(self) -> None:
        """Begin with pings and the clean-up of idle memory."""
        self._sweeper = self._loop.call_later(limits.SWEEP_SECONDS, self._sweep)

    async def stop(self) -> None:
        """Close every connection without a word. What is queued is sent, unless a client does not take it in time."""
        self._stopping = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._password_threads is not None:
            self._password_threads.shutdown(wait=False, cancel_futures=True)
        for client in list(self.connected.values()):
            client.close("Server Shutdown")
        if self.connected:
            self._nobody_left = self._loop.create_future()
            await asyncio.wait([self._nobody_left], timeout=limits.STOP_FLUSH_SECONDS)

    def announce_lame_duck(self) -> None:
        """Tell the clients that understand it to go elsewhere."""
        info = {**self.info, "ldm": True}
        for client in list(self.connected.values()):
            if client.connected and client.protocol_level > 0:
                self._send_info(client, info)

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
        self._send_info(client, self.info)
        limit = self.options.max_connections
        if self._stopping:
            client.close("Server Shutdown")
        elif 0 < limit < len(self.connected):
            self.log.error(f"{self._who(client)} - maximum connections exceeded")
            client.close("Maximum Connections Exceeded", "maximum connections exceeded")
        else:
            self.log.debug(f"{self._who(client)} - Client connection created")
            if client.login_pending:
                timeout = self.options.authorization.timeout
                self._login_timers[client.cid] = self._loop.call_later(timeout, self._login_timeout, client)

    def client_lost(self, client: ClientProtocol, error: Exception | None) -> None:
        """The connection is gone."""
        self.connected.pop(client.cid, None)
        self._closing_since.pop(client.cid, None)
        self._forget_timer(client)
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
        """CONNECT: check the credentials, then apply what it asks for. Raises ProtocolError."""
        options = decode_connect(raw)
        client.name, client.lang, client.version = options.name, options.lang, options.version
        client.user = options.user or (REDACTED if options.auth_token else None)
        if not self.authenticator.configured:
            self._accept(client, options, Login("", "$G"))
            return
        login, check = self.authenticator.find(options.user, options.password, options.auth_token)
        if check is None:
            self._judge(client, options, login)
        else:
            client.park()
            self._loop.create_task(self._check_in_thread(client, options, check))

    def client_greet(self, client: ClientProtocol) -> None:
        """The first PING after CONNECT was answered: send the second INFO (2.12)."""
        client.greeted = True
        info = dict(self.info)
        if self.authenticator.configured:
            info["auth_required"] = True
        info["connect_info"] = True
        info["remote_account"] = client.account.name
        if client.account.is_system:
            info["acc_is_sys"] = True
        self._send_info(client, info)

    def client_info(self, client: ClientProtocol, raw: bytes) -> None:
        """INFO from a client means nothing, unless it is no JSON. Raises ProtocolError."""
        check_info(raw)

    def client_failed(self, client: ClientProtocol, error: ProtocolError) -> None:
        """The client said something that ends its connection."""
        if error.detail:
            self.log.error(f"{self._who(client)} - {error.detail}")
        client.close(error.reason, error.text)

    # --- login ---

    async def _check_in_thread(
        self, client: ClientProtocol, options: ConnectOptions, check: Callable[[], Login | None]
    ) -> None:
        def check_if_there() -> Login | None:
            # who timed out while the threads were busy is not worth their time any more
            return None if client.closed else check()

        if self._password_threads is None:
            self._password_threads = ThreadPoolExecutor(limits.PASSWORD_THREADS, "jetbroker-passwords")
        login = await self._loop.run_in_executor(self._password_threads, check_if_there)
        if client.closed:
            return
        try:
            self._judge(client, options, login)
        except ProtocolError as error:
            self.client_failed(client, error)
            return
        client.unpark()

    def _judge(self, client: ClientProtocol, options: ConnectOptions, login: Login | None) -> None:
        if login is None:
            raise _login_refused(options)
        self._accept(client, options, login)

    def _accept(self, client: ClientProtocol, options: ConnectOptions, login: Login) -> None:
        if options.account or options.new_account:
            raise _login_refused(options)
        if options.protocol not in (0, 1):
            raise ProtocolError("invalid client protocol", "Bad Client Protocol Version")
        if options.no_responders and not options.headers:
            raise ProtocolError("no responders requires headers support", "No Responders Requires Headers")
        account = self.accounts[login.account]
        if client.connected:
            client.account.connections -= 1
        account.connections += 1
        client.user = login.user or client.user
        client.apply_connect(options, account.router, account)
        self._forget_timer(client)

    def _login_timeout(self, client: ClientProtocol) -> None:
        self._login_timers.pop(client.cid, None)
        if client.login_pending and not client.closed:
            client.close("Authentication Timeout", "Authentication Timeout")

    def _forget_timer(self, client: ClientProtocol) -> None:
        timer = self._login_timers.pop(client.cid, None)
        if timer is not None:
            timer.cancel()

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

    # --- INFO ---

    def _send_info(self, client: ClientProtocol, info: dict[str, Any]) -> None:
        host, _, _ = client.peer.rpartition(":")
        own = {**info, "client_id": client.cid, "client_ip": host}
        client.send(b"INFO " + orjson.dumps(own) + b" \r\n")

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


def _login_refused(options: ConnectOptions) -> ProtocolError:
    """For the log: who it was that gave no valid login."""
    if options.nkey:
        who = f' - Nkey "{options.nkey}"'
    elif options.auth_token:
        who = f' - Token "{REDACTED}"'
    elif options.user:
        who = f' - User "{options.user}"'
    else:
        who = ""
    return ProtocolError("Authorization Violation", "Authentication Failure", f"authentication error{who}")
