"""The links that this server dials: one for each configured remote, again and again for as long as it is configured."""

import asyncio
import os
import random
import socket
from collections.abc import Callable
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, cast

from jetbroker import limits
from jetbroker.addresses import is_host, joined, of_socket
from jetbroker.auth.authenticator import WEBSOCKET
from jetbroker.auth.credentials import CredentialsError, signed_by_file, signed_by_seed
from jetbroker.config.options import LeafRemote, LeafUrl, Options
from jetbroker.errors import ConfigError, ProtocolError
from jetbroker.forms.gotext import quoted
from jetbroker.forms.gourl import parse_url
from jetbroker.leafnodes.greeting import Greeting
from jetbroker.leafnodes.handshake import LinkInfo
from jetbroker.leafnodes.leafs import Leafs
from jetbroker.leafnodes.link import Link
from jetbroker.leafnodes.peer import Peer, Stage
from jetbroker.logs.logger import Logger

if TYPE_CHECKING:
    from jetbroker.connections.tls_layer import TlsLayer
    from jetbroker.connections.upgrade import Upgrade
    from jetbroker.leafnodes.encryption import Handshake

_NO_NAME = (socket.EAI_NONAME, socket.EAI_NODATA)


class DialError(Exception):
    """There is no connection; the text says why, as Go's dialler does."""


class Remote:
    """One remote: dials, hears that its link is gone, dials again after a while.

    `delay`: seconds before the next attempt, set by what ended the link; 0: none beyond the usual.
    """

    def __init__(self, options: LeafRemote, server: Options, leafs: Leafs, log: Logger) -> None:
        self.options = options
        self.server = server
        self.leafs = leafs
        self.log = log
        self.delay = 0.0
        self.link: Link | None = None
        self._urls = list(options.urls)
        if not options.no_randomize:
            random.shuffle(self._urls)
        self._current: LeafUrl | None = None
        self._name = ""  # by which addresses are known in certificates
        for url in self._urls:
            self._keep_name(url)
        self._login: tuple[str, str | None] | None = None  # the last user and password that a URL had
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        self._lost = asyncio.Event()
        self._dialled: Link | None = None  # the newest link, whether or not it has opened

    # --- life ---

    def start(self) -> None:
        """Dial, unless it is disabled."""
        if not self.options.disabled and self._task is None:
            self._stopped = False
            self._task = asyncio.get_running_loop().create_task(self._keep_connected())

    def stop(self, reason: str = "Server Shutdown") -> None:
        """Dial no more; the link is closed."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self.link is not None:
            self.link.close(reason)

    async def _keep_connected(self) -> None:
        is_first = True
        while not self._stopped:
            if self.delay:
                delay, self.delay = self.delay, 0.0
                await asyncio.sleep(delay)
            await self._dial(is_first)
            is_first = False
            await self._lost.wait()

    async def _dial(self, is_first: bool) -> None:
        """Until there is a connection."""
        attempts = 0
        pause = self.server.leafnodes.reconnect or limits.LEAF_RECONNECT_SECONDS
        while True:
            url = self._next_url()
            try:
                await self._connect(url)
                return
            except ConfigError as error:
                what = f"Unable to lookup account {self.options.account} for solicited leafnode connection"
                self.log.error(f"{what}: {error}")
            except DialError as error:
                attempts += 1
                what = f'remote server "{joined(url.host, url.port)}" (attempt {attempts})'
                self._tell_failure(is_first, attempts)(f"Error trying to connect as leafnode to {what}: {error}")
            await asyncio.sleep(pause + random.uniform(0.0, pause))

    def _tell_failure(self, is_first: bool, attempts: int) -> Callable[[str], None]:
        """Not each one of many failures is worth an error."""
        every = self.server.connect_error_reports if is_first else self.server.reconnect_error_reports
        return self.log.error if attempts == 1 or attempts % max(every, 1) == 0 else self.log.debug

    def _next_url(self) -> LeafUrl:
        """The one that was tried last goes behind the others; a list that was told anew may begin with it."""
        if self._urls[0] == self._current:
            self._urls.append(self._urls.pop(0))
        url = self._current = self._urls[0]
        if url.user is not None:
            self._login = (url.user, url.password)
        return url

    async def _connect(self, url: LeafUrl) -> None:
        """Raises DialError; ConfigError when the account cannot be had."""
        host = await _address_of(url.host)
        address, at = joined(host, url.port), joined(url.host, url.port)
        shown = "" if address == at else f" ({address})"
        self.log.debug(f'Trying to connect as leafnode to remote server on "{at}"{shown}')
        account = self.leafs.find_account(self.options.account)
        peer = Peer(dialled=self, account=account, stage=Stage.INFO_DUE, is_spoke=not self.options.hub)
        peer.isolated = self.options.isolate_leafnode_interest or self.server.leafnodes.isolate_leafnode_interest
        self._lost.clear()
        link = self._dialled = self.leafs.new_link(peer)
        if url.is_websocket:
            link.kind = WEBSOCKET
        loop = asyncio.get_running_loop()
        dialling = loop.create_task(loop.create_connection(lambda: self._protocol(link, url), host, url.port))
        seconds = self.options.dial_timeout or self.server.leafnodes.dial_timeout or limits.LEAF_DIAL_SECONDS
        try:
            await asyncio.wait([dialling], timeout=seconds)
            if self.link is not link and not dialling.done():
                raise TimeoutError
            await dialling  # a busy loop may hear of it late: the link has begun to speak, and stays
        except OSError as error:
            raise DialError(f"dial tcp {address}: {_why(error)}") from error
        finally:
            dialling.cancel()

    def _protocol(self, link: Link, url: LeafUrl) -> asyncio.BaseProtocol:
        if url.is_websocket:
            return Dialled(link, partial(self._begin_websocket, link, url))
        return Dialled(link, partial(self._begin_with_tls, link)) if self._begins_with_tls else link

    def _begin_with_tls(self, link: Link, socket: asyncio.Transport) -> None:
        handshake = self._handshake(link, lambda _: self._expect_info(link))
        if handshake is not None:
            handshake.start()
            handshake.shake(socket, b"")

    # --- what its link tells ---

    def opened(self, link: Link) -> None:
        """It is there."""
        self.link = link
        if link.kind != WEBSOCKET and not self._begins_with_tls:
            self._expect_info(link)

    def _expect_info(self, link: Link) -> None:
        seconds = self.options.first_info_timeout or limits.LEAF_FIRST_INFO_SECONDS
        link.remote.await_until(asyncio.get_running_loop().call_later(seconds, self._no_info, link))

    def _no_info(self, link: Link) -> None:
        if link.kind == WEBSOCKET and link.remote.upgrade is None:
            ours, theirs = (of_socket(link.transport.get_extra_info(end)) for end in ("sockname", "peername"))
            self._no_websocket(link, f"read tcp {ours}->{theirs}: i/o timeout")
            return
        link.close("Read Error")

    def lost(self, link: Link) -> None:
        """It is gone; the next attempt begins after a while, unless that is under way already."""
        if self.link is link:
            self.link = None
        if self._dialled is not link:
            return
        if not self.delay:
            pause = self.server.leafnodes.reconnect or limits.LEAF_RECONNECT_SECONDS
            self.delay = pause + random.uniform(0.0, pause)
        self._lost.set()

    def discovered(self, link: Link, info: LinkInfo) -> None:
        """Other addresses of the same cluster are tried, too."""
        if self.options.ignore_discovered_servers:
            return
        configured = self.options.urls
        over_websocket = configured[0].is_websocket
        over_tls = any(url.scheme == "wss" for url in configured)
        scheme, found = ("nats-leaf", info.urls)
        if over_websocket:
            scheme, found = ("wss" if over_tls else "ws", info.websocket_urls)
        if not found:
            return
        known = {(url.host, url.port) for url in configured}
        more = []
        for text in found[: limits.LEAF_URLS]:
            try:
                url = parse_url(f"{scheme}://{text}")
            except ValueError as error:
                where = f"Error parsing url {quoted(text)}: parse {quoted(f'{scheme}://{text}')}: {error}"
                self.log.error(f"{self.leafs.who(link)} - {where}")
                continue
            host = url.host.strip("[]")
            if host and url.port.isdecimal() and 0 < int(url.port) < 65536 and (host, int(url.port)) not in known:
                more.append(LeafUrl(scheme=scheme, host=host, port=int(url.port)))
        for other in more:
            self._keep_name(other)
        self._urls = more + configured

    # --- CONNECT ---

    def connect_fields(self, link: Link, greeting: Greeting) -> dict[str, Any]:
        """All that our CONNECT says. Raises ProtocolError when the credentials cannot be used."""
        options = self.options
        fields = greeting.connect_fields(link)
        fields |= {"is_hub": options.hub, "deny_pub": options.deny_imports, "isolate": options.request_isolation}
        fields["compress_mode"] = link.remote.compression
        try:
            if options.credentials:
                where = f'Authenticating with credentials file "{options.credentials}"'
                self.log.debug(f"{self.leafs.who(link)} - {where}")
                fields |= signed_by_file(options.credentials, link.remote.nonce)
            elif options.nkey:
                fields |= signed_by_seed(options.nkey, link.remote.nonce)
        except CredentialsError as error:
            raise ProtocolError("", "Write Error", str(error)) from error
        url = self._current
        login = (url.user, url.password) if url is not None and url.user is not None else self._login
        if login is not None and login[0] is not None:
            fields |= {"user": login[0], "pass": login[1] or ""}
            if login[1] is None:
                fields["auth_token"] = login[0]
        return fields

    # --- TLS ---

    def encrypts(self, link: Link, info: LinkInfo) -> bool:
        """TLS comes next when one of both sides asks for it; this INFO counts once that is done."""
        if link.kind == WEBSOCKET or link.tls is not None or not (info.tls_required or self._wants_tls):
            return False
        link.remote.await_until(None)
        link.park()  # what came behind INFO is not looked at: it belongs to TLS
        asyncio.get_running_loop().call_soon(self._encrypt, link, info)
        return True

    def _encrypt(self, link: Link, info: LinkInfo) -> None:
        handshake = None if link.closed else self._handshake(link, lambda _: self.leafs.go_on(link, info))
        if handshake is not None:
            handshake.start()
            handshake.shake(link.transport, link.take_rest())

    def _handshake(
        self, link: Link, done: "Callable[[TlsLayer], None]", failed: Callable[[], None] | None = None
    ) -> "Handshake | None":
        """None: there can be none with these options, the link is closed."""
        from jetbroker.connections.tls import TlsError, client_context
        from jetbroker.leafnodes.encryption import FAILED, Handshake, Terms

        tls, own = self.options.tls, self.server.leafnodes.tls
        shared = self.leafs.encryption
        try:
            context = client_context(tls)
        except TlsError as error:
            shared.error(link, str(error))
            link.close(FAILED)
            return None
        seconds = (tls.timeout if tls is not None else 0.0) or limits.TLS_TIMEOUT_SECONDS
        pinned = frozenset() if own is None else own.pinned_certs
        terms = Terms(context, seconds, pinned, self._tls_name(), self._begins_with_tls, self._misnamed)
        return Handshake(shared, link, terms, done, failed)

    def _keep_name(self, url: LeafUrl) -> None:
        if not self._name and not _is_address(url.host) and is_host(url.host):
            self._name = url.host

    def _tls_name(self) -> str:
        """Of the server that was dialled; an address goes by the name that is kept, until a certificate differs."""
        host = "" if self._current is None else self._current.host
        return self._name if self._name and _is_address(host) else host

    def _misnamed(self) -> None:
        """The server that was dialled has another name than this one."""
        if self._tls_name() == self._name:
            self._name = ""

    @property
    def _wants_tls(self) -> bool:
        return self.options.tls is not None or any(url.scheme in ("tls", "wss") for url in self.options.urls)

    @property
    def _begins_with_tls(self) -> bool:
        return self.options.tls is not None and self.options.tls.handshake_first is not None

    # --- WebSocket ---

    def _begin_websocket(self, link: Link, url: LeafUrl, socket: asyncio.Transport) -> None:
        """With TLS or without: a request next."""
        from jetbroker.connections.websocket_stream import Surroundings, message_bytes
        from jetbroker.leafnodes.solicited_websocket import SolicitedWebsocket, UpgradeAnswer

        surroundings = Surroundings(
            asyncio.get_running_loop(), self.leafs.unauthenticated, lambda: message_bytes(self.server.max_payload)
        )
        below = SolicitedWebsocket(
            link,
            UpgradeAnswer(url, self.options),
            surroundings,
            partial(self._websocket_opened, link),
            partial(self._no_websocket, link),
        )

        def ask(transport: "asyncio.Transport | TlsLayer") -> None:
            self._expect_info(link)
            transport.set_protocol(below)
            below.connection_made(cast(asyncio.Transport, transport))

        if not self._wants_tls:
            ask(socket)
            return
        handshake = self._handshake(link, ask, lambda: self._no_websocket(link, "connection closed"))
        if handshake is not None:
            handshake.start()
            handshake.shake(socket, b"")

    def _websocket_opened(self, link: Link, upgrade: "Upgrade") -> None:
        link.remote.upgrade = upgrade
        compressed, masks = (str(given).lower() for given in (upgrade.compressed, upgrade.masks))
        self.log.debug(f"{self.leafs.who(link)} - Leafnode compression={compressed} masking={masks}")

    def _no_websocket(self, link: Link, why: str) -> None:
        self.log.error(f"{self.leafs.who(link)} - Error soliciting websocket connection: {why}")
        link.close("Read Error")


class Dialled(asyncio.Protocol):
    """A connection whose link does not speak at once: `begin` puts something else in the place of this."""

    def __init__(self, link: Link, begin: Callable[[asyncio.Transport], None]) -> None:
        self._link = link
        self._begin = begin

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there."""
        self._link.connection_made(transport)
        if not self._link.closed:
            self._begin(cast(asyncio.Transport, transport))

    def connection_lost(self, error: Exception | None) -> None:
        """It could not even begin."""
        self._link.connection_lost(error)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


async def _address_of(host: str) -> str:
    """One of those that it has, by chance. However long that takes: nobody waits for it. Raises DialError."""
    if _is_address(host):
        return host
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise DialError(f"lookup for host {quoted(host)}: lookup {host}: {_no_address(error)}") from error
    return str(random.choice(found)[4][0])


def _no_address(error: OSError | UnicodeError) -> str:
    if isinstance(error, UnicodeError) or error.errno in _NO_NAME or not error.strerror:
        return "no such host"
    return error.strerror.lower()


def _why(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "i/o timeout"
    return f"connect: {os.strerror(error.errno).lower() if error.errno else error}"
