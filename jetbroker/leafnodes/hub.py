"""The port for links, and who may come in by it."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from jetbroker import limits
from jetbroker.accounts.account import Account
from jetbroker.addresses import bound_socket, joined, split
from jetbroker.auth.authenticator import LEAFNODE, LEAFNODE_WEBSOCKET, WEBSOCKET, Claim, Login, Verdict
from jetbroker.auth.leaf_logins import LeafLogins, accused
from jetbroker.config.options import RANDOM_PORT, Options
from jetbroker.connections.identity import REDACTED
from jetbroker.errors import ConfigError, LoginRefused, ProtocolError
from jetbroker.forms.gotext import quoted
from jetbroker.forms.versions import is_at_least
from jetbroker.leafnodes.greeting import Greeting
from jetbroker.leafnodes.handshake import LinkConnect, decode_link_connect
from jetbroker.leafnodes.leafs import CLUSTER_WITH_BLANKS, OLD, SAME_CLUSTER, Leafs
from jetbroker.leafnodes.link import Link
from jetbroker.leafnodes.peer import Peer, Stage
from jetbroker.logs.logger import Logger

if TYPE_CHECKING:
    import ssl

    from jetbroker.connections.upgrade import Upgrade

INSECURE = "TLS certificate chain and hostname of solicited leafnodes will not be verified. DO NOT USE IN PRODUCTION!"
CLIENT_ON_LEAF_PORT = "attempted to connect to leaf node port"


class Hub:
    """Accepts links, and judges their CONNECT."""

    def __init__(self, options: Options, leafs: Leafs, greeting: Greeting, logins: LeafLogins, log: Logger) -> None:
        self.options = options
        self.leafs = leafs
        self.greeting = greeting
        self.logins = logins
        self.log = log
        self.context: ssl.SSLContext | None = None
        self.port = 0
        self._server: asyncio.Server | None = None
        leafs.doors = self

    async def start(self) -> None:
        """Listen. Raises OSError, ConfigError and TlsError."""
        block = self.options.leafnodes
        self.context = self.context_for(self.options)
        host = block.host or self.options.host
        sock = bound_socket(host, 0 if block.port == RANDOM_PORT else block.port)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, sock=sock, backlog=limits.LISTEN_BACKLOG)
        block.port = self.port = int(sock.getsockname()[1])
        self.log.info(f"Listening for leafnode connections on {joined(host, self.port)}")
        address = self.greeting.listens(self.port, self.log)
        if block.advertise:
            self.log.info(f"Advertise address for leafnode is set to {address}")
        blocks = [block.tls, *(remote.tls for remote in block.remotes)]
        if any(tls is not None and tls.insecure for tls in blocks):
            self.log.warn(INSECURE)

    @staticmethod
    def context_for(options: Options) -> "ssl.SSLContext | None":
        """For handshakes of links that come. Raises TlsError."""
        tls = options.leafnodes.tls
        if tls is None:
            return None
        from jetbroker.connections.tls import server_context

        return server_context(tls)

    def close(self) -> None:
        """Accept no more."""
        if self._server is not None:
            self._server.close()
            self._server = None

    # --- CONNECT ---

    def connect(self, link: Link, raw: bytes) -> None:
        """Judge it: who it is first, then what it says of its server. Raises ProtocolError."""
        said = decode_link_connect(raw)
        link.remote.stage = Stage.CHECKING
        link.remote.await_until(None)
        verdict = self.logins.judge(
            self._claim(link, said), lambda: not link.closed, lambda found: self._judge_parked(link, said, found)
        )
        if verdict is None:
            link.park()
            return
        self._judge(link, said, verdict)

    def known_of(self, link: Link) -> Claim:
        """What is known of a link's connection, whatever it says of itself."""
        return Claim(
            LEAFNODE_WEBSOCKET if link.kind == WEBSOCKET else LEAFNODE,
            nonce=link.remote.nonce,
            certificate=None if link.tls is None else link.tls.peer_certificate,
            address=split(link.peer)[0],
        )

    def _claim(self, link: Link, said: LinkConnect) -> Claim:
        return replace(
            self.known_of(link),
            user=said.user,
            password=said.password,
            token=said.token,
            nkey=said.nkey,
            signature=said.signature,
            jwt=said.jwt,
        )

    def _judge_parked(self, link: Link, said: LinkConnect, verdict: Verdict) -> None:
        if link.closed:
            return
        try:
            self._judge(link, said, verdict)
        except ProtocolError as error:
            link.fail(error)
            return
        link.unpark()

    def _judge(self, link: Link, said: LinkConnect, verdict: Verdict) -> None:
        tell = self.log.error if verdict.loud else self.log.debug
        for line in verdict.told:
            tell(f"{self.leafs.who(link)} - {line}")
        if verdict.who and said.user:
            self.log.warn(f"User {quoted(said.user)} found in connect proto, but user required from cert")
        login = verdict.login
        account = None if login is None or said.names_account else self._account_of(login, said)
        if login is None or account is None:
            peer = link.remote  # for who hears of it
            peer.user = said.nkey or said.user or (REDACTED if said.token else None)
            peer.server, peer.version = said.server, said.version
            raise LoginRefused(verdict.reason, accused(self._claim(link, said), verdict))
        peer = link.remote
        peer.account = account
        self.leafs.check_room(peer.account)
        peer.login = login
        named = login.nkey or login.user if login.token is None else login.token.claims.subject
        peer.user = said.nkey or said.user or named or None
        self._check_server(link, said)
        peer.server, peer.cluster = said.server, said.cluster
        peer.domain, peer.jetstream = said.domain, said.jetstream
        peer.remote_account, peer.version, peer.protocol = said.remote_account, said.version, said.protocol
        peer.compression = said.compression or "not supported"
        peer.denied = said.deny_publish
        peer.isolated = said.isolate or self.options.leafnodes.isolate_leafnode_interest
        peer.is_spoke = said.is_hub
        link.headers = said.headers and not self.options.no_header_support
        self.leafs.finish(link)

    def _account_of(self, login: Login, said: LinkConnect) -> Account | None:
        """None: the login is good, but nobody can use its account."""
        try:
            return self.leafs.find_account(login.account)
        except ConfigError as error:
            who = f"authentication of user {quoted(said.user)} failed"
            self.log.error(f"{who}, unable to lookup account {quoted(login.account)}: {error}")
            return None

    def _check_server(self, link: Link, said: LinkConnect) -> None:
        """Raises ProtocolError for who came by mistake, and for a server that we cannot link to."""
        if said.lang:
            raise self._mistaken(link, CLIENT_ON_LEAF_PORT, "Incorrect Port")
        if " " in said.cluster:
            raise self._mistaken(link, CLUSTER_WITH_BLANKS, "Protocol Violation")
        if said.cluster and said.cluster == self.greeting.cluster:
            raise self._mistaken(link, SAME_CLUSTER, "Cluster Names Identical")
        if said.gateway:
            text = f"Rejecting connection from gateway {quoted(said.gateway.encode())} on the leafnode port"
            self.log.error(f"{self.leafs.who(link)} - {text}")
            raise ProtocolError(text, "Wrong Gateway", "wrong gateway")
        least = self.options.leafnodes.min_version
        if least and not is_at_least(said.version, least) and link.remote.account is not None:
            link.send(self.greeting.after_connect(link, link.remote.account, link.remote.permissions))
            text = f"{OLD} {quoted(least.encode())}"
            raise ProtocolError(text, "Minimum Version Required", text + link.remote.label)

    def _mistaken(self, link: Link, text: str, reason: str) -> ProtocolError:
        """nats-server tells twice of these, once with the login."""
        self.log.error(f"{self.leafs.who(link)} - {text}")
        return ProtocolError(text, reason, text + link.remote.label)

    # --- how a link begins ---

    def _accept(self) -> asyncio.BaseProtocol:
        tls = self.options.leafnodes.tls
        if self.context is None or tls is None:
            return self.leafs.new_link(Peer())
        from jetbroker.leafnodes.encryption import Arrival, Terms

        seconds = tls.timeout or limits.TLS_TIMEOUT_SECONDS
        terms = Terms(self.context, seconds, tls.pinned_certs, first=tls.handshake_first is not None)
        wait = tls.handshake_first or 0.0
        link = self.leafs.new_link(Peer(greeted=False))
        return Arrival(self.leafs.encryption, link, terms, wait, self.leafs.greet, self._encrypted)

    def accept_websocket(self, upgrade: "Upgrade") -> Link:
        """What speaks in a WebSocket that was opened for a link; TLS is the WebSocket's matter."""
        link = self.leafs.new_link(Peer(upgrade=upgrade))
        link.kind = WEBSOCKET
        return link

    def greet(self, link: Link) -> None:
        """A link was accepted."""
        if link.remote.upgrade is not None:
            compressed = str(link.remote.upgrade.compressed).lower()
            self.log.debug(f"{self.leafs.who(link)} - Leafnode compression={compressed}")
        if link.remote.greeted:
            self.leafs.greet(link)
            self.leafs.expect_connect(link)

    def _encrypted(self, link: Link, first: bool) -> None:
        if first:
            self.leafs.greet(link)
        self.leafs.expect_connect(link)
