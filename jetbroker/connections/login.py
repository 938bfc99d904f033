"""CONNECT: who a client is and what it asks for; the time it has to say so. All of it per event."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from jetbroker import limits
from jetbroker.accounts.account import Account
from jetbroker.auth.passwords import Authenticator, Login
from jetbroker.connections.client import ClientProtocol
from jetbroker.connections.handshake import ConnectOptions, decode_connect
from jetbroker.errors import ProtocolError

REDACTED = "[REDACTED]"  # stands where a token was


class Logins:
    """Judges the CONNECTs of all clients."""

    def __init__(
        self,
        authenticator: Authenticator,
        accounts: dict[str, Account],
        timeout: float,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.authenticator = authenticator
        self.accounts = accounts
        self.timeout = timeout
        self._loop = loop
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._password_threads: ThreadPoolExecutor | None = None

    @property
    def first_account(self) -> Account:
        """Whose a connection is that has said nothing yet."""
        login = self.authenticator.login_without_credentials()
        return self.accounts[login.account if login else "$G"]

    def expect(self, client: ClientProtocol) -> None:
        """Start the clock of a client that has to log in."""
        if client.login_pending:
            self._timers[client.cid] = self._loop.call_later(self.timeout, self._timed_out, client)

    def forget(self, client: ClientProtocol) -> None:
        """The client has logged in, or is gone."""
        timer = self._timers.pop(client.cid, None)
        if timer is not None:
            timer.cancel()

    def stop(self) -> None:
        """End the threads; what they are at is thrown away."""
        if self._password_threads is not None:
            self._password_threads.shutdown(wait=False, cancel_futures=True)

    def connect(self, client: ClientProtocol, raw: bytes) -> None:
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
            client.fail(error)
            return
        client.unpark()

    def _judge(self, client: ClientProtocol, options: ConnectOptions, login: Login | None) -> None:
        if login is None:
            raise _refused(options)
        self._accept(client, options, login)

    def _accept(self, client: ClientProtocol, options: ConnectOptions, login: Login) -> None:
        if options.account or options.new_account:
            raise _refused(options)
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
        self.forget(client)

    def _timed_out(self, client: ClientProtocol) -> None:
        self._timers.pop(client.cid, None)
        if client.login_pending and not client.closed:
            client.close("Authentication Timeout", "Authentication Timeout")


def _refused(options: ConnectOptions) -> ProtocolError:
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
