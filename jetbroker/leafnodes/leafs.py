"""The links of a broker: who is connected, how a link begins, keep-alive, how it ends. All of it per event.

A link is accepted (leafnodes/hub.py) or dialled (leafnodes/remote.py); what follows is the same for both, but for who
says what first. Rules: docs/LEAFNODES.md.
"""

import asyncio
import random
import secrets
import string
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from jetbroker import limits
from jetbroker.accounts.account import Account
from jetbroker.auth.authenticator import WEBSOCKET, Login
from jetbroker.auth.nkeys import new_nonce
from jetbroker.bounds import least
from jetbroker.config.durations import format_duration
from jetbroker.config.options import SYSTEM_ACCOUNT, Options
from jetbroker.connections.closed import ClosedConnections, Traffic
from jetbroker.connections.ending import REASON, Ending
from jetbroker.connections.events import Witness
from jetbroker.connections.expulsion import expel
from jetbroker.connections.halves import Shared
from jetbroker.connections.login import account_full
from jetbroker.connections.tls_queue import TlsQueue
from jetbroker.connections.trace import tracer_of
from jetbroker.connections.unauthenticated import Unauthenticated
from jetbroker.errors import ConfigError, LoginRefused, ProtocolError
from jetbroker.forms.gotext import quoted
from jetbroker.leafnodes import rules
from jetbroker.leafnodes.greeting import Greeting
from jetbroker.leafnodes.handshake import LinkInfo, connect_line, decode_link_info
from jetbroker.leafnodes.interest import Ledger
from jetbroker.leafnodes.link import Link
from jetbroker.leafnodes.peer import Peer, Stage
from jetbroker.logs.logger import Logger
from jetbroker.tick import Tick

if TYPE_CHECKING:
    from jetbroker.leafnodes.encryption import Encryption
    from jetbroker.tracing.trace import MessageTrace

LOOP_PREFIX = b"$LDS."
LOOP_DELAY = SAME_CLUSTER_DELAY = VIOLATION_DELAY = 30.0
OLD_DELAY = 5.0
LOGIN_SECONDS = FINISH_SECONDS = 2.0
FIRST_PING_SECONDS = 1.0
MARK_CHARACTERS = 22
MARK_LETTERS = string.digits + string.ascii_letters
SAME_CLUSTER = "remote leafnode has same cluster name"
CLUSTER_WITH_BLANKS = "cluster name cannot contain spaces"
OLD = "connection rejected since minimum version required is"
WRONG_PORT = "attempted to connect to wrong port"
PENDING_BYTES = "Slow Consumer (Pending Bytes)"
WRITE_DEADLINE = "Slow Consumer (Write Deadline)"


class Doors(Protocol):
    """What the accepting side does with a CONNECT (leafnodes/hub.py)."""

    def greet(self, link: Link) -> None:
        """A link was accepted."""
        ...

    def connect(self, link: Link, raw: bytes) -> None:
        """Judge it. Raises ProtocolError."""
        ...


class Leafs:
    """Registry and event handler of all links.

    `changed` is called when links came or went.
    """

    def __init__(
        self,
        options: Options,
        tick: Tick,
        accounts: dict[str, Account],
        greeting: Greeting,
        next_cid: Callable[[], int],
        log: Logger,
        changed: Callable[[], None],
    ) -> None:
        self.options = options
        self.accounts = accounts
        self.greeting = greeting
        self.shared: Shared
        self.unauthenticated: Unauthenticated
        self.tls_queue: TlsQueue
        self.log = log
        self.live: dict[int, Link] = {}  # by cid
        self.opened: dict[int, Link] = {}  # those that are not live yet among them
        self.doors: Doors
        self.stale = 0
        self.closed = ClosedConnections(0)
        self.closed_traffic: dict[str, Traffic] = {}  # of links that are gone, by account
        self.witness = Witness()
        self.read_in: Callable[[str], object] | None = None  # accounts of operator mode; it raises ConfigError
        self._tick = tick
        self._loop = tick.loop
        self._next_cid = next_cid
        self._changed = changed
        self._ledgers: dict[str, Ledger] = {}
        self._marks: dict[str, bytes] = {}  # by account
        self._mapped: dict[str, set[bytes]] = {}  # sources of mappings, by account
        self._limit_told: dict[str, float] = {}  # by account, loop time
        self._encryption: Encryption | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._ending = Ending(tick.loop)

    # --- life ---

    def start(self) -> None:
        """Begin with pings; accounts have been made."""
        self.follow_accounts()
        self.follow_trace()
        self._sweeper = self._loop.call_later(limits.SWEEP_SECONDS, self._sweep)

    async def stop(self) -> None:
        """Close every link without a word."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self._ending.close(self.opened)

    def follow_accounts(self) -> None:
        """Each account keeps a ledger of its interest, as long as there are leafnodes at all."""
        for name, account in self.accounts.items():
            if name not in self._ledgers or account.router.links is None:
                self._ledgers[name] = Ledger(account.router)
                self._mapped[name] = set()
                self._marks.pop(name, None)
            self._follow_mappings(account)
        for name in self._ledgers.keys() - self.accounts.keys():
            del self._ledgers[name], self._mapped[name]
            self._marks.pop(name, None)
        for link in list(self.opened.values()):
            account = link.remote.account
            if account is not None and self.accounts.get(account.name) is not account:
                link.close("Missing Account")

    def find_account(self, name: str) -> Account:
        """An account by its name, though nobody may have used it yet. Raises ConfigError."""
        if name not in self.accounts and self.read_in is not None:
            self.read_in(name)
        if name not in self.accounts:
            raise ConfigError("account missing")
        return self.accounts[name]

    def _follow_mappings(self, account: Account) -> None:
        """What is mapped is wanted by its first name, whoever listens behind that."""
        ledger, known = self._ledgers[account.name], self._mapped[account.name]
        router = account.router
        mappings = [found for found in (router.mappings, router.domain) if found is not None]
        wanted = {source for found in mappings for source in found.sources()}
        for source in wanted - known:
            ledger.add_static(source)
        for source in known - wanted:
            ledger.remove_static(source)
        self._mapped[account.name] = wanted

    def new_link(self, peer: Peer) -> Link:
        """The protocol object of a connection that is being made."""
        link = Link(self.shared, self._next_cid(), login_due=peer.dialled is None)
        link.remote = peer
        link.set_max_control_line(self.options.max_control_line * limits.LINK_CONTROL_LINES)
        return link

    def who(self, link: Link) -> str:
        """A link as the log names it."""
        kind = "lid_ws" if link.kind == WEBSOCKET else "lid"
        upgrade = link.remote.upgrade
        proxied = f"{upgrade.client_ip}/" if upgrade is not None and upgrade.client_ip else ""
        return f"{proxied}{link.peer} - {kind}:{link.cid}"

    @property
    def encryption(self) -> "Encryption":
        """Handshakes of TLS; most brokers do without."""
        if self._encryption is None:
            from jetbroker.leafnodes.encryption import Encryption

            self._encryption = Encryption(self._loop, self.log, self.who, self.tls_queue)
        return self._encryption

    def follow_trace(self) -> None:
        """Log the links' traffic as the options say: at the start, and when they have changed."""
        self.shared.tracer = tracer_of(self.options, self.log, self.who)
        for link in self.opened.values():
            link.set_trace(self.shared.tracer is not None)

    # --- events of links ---

    def link_opened(self, link: Link) -> None:
        """The connection is there."""
        self.opened[link.cid] = link
        link.opened_at = self._loop.time()
        link.set_trace(self.shared.tracer is not None)
        peer = link.remote
        suffix = f" for account: {peer.account.label}" if peer.account is not None else ""
        self.log.info(f"{self.who(link)} - Leafnode connection created{suffix} ")
        if self._ending.has_begun:
            link.close(REASON)
        elif peer.dialled is not None:
            peer.dialled.opened(link)
        else:
            self.doors.greet(link)

    def greet(self, link: Link) -> None:
        """Send the first INFO."""
        link.remote.nonce = new_nonce()
        link.send(self.greeting.first(link))

    def expect_connect(self, link: Link) -> None:
        """The time for CONNECT begins."""
        leaf = self.options.leafnodes
        usual = LOGIN_SECONDS if leaf.tls is None else (leaf.tls.timeout or limits.TLS_TIMEOUT_SECONDS) + 1.0
        timeout = leaf.authorization.timeout or usual
        link.remote.await_until(self._loop.call_later(timeout, self._not_logged_in, link))

    def _not_logged_in(self, link: Link) -> None:
        self.log.debug(f"{self.who(link)} - Authentication Timeout")
        link.close("Authentication Timeout", "Authentication Timeout")

    def link_lost(self, link: Link, error: Exception | None) -> None:
        """The connection is gone."""
        peer = link.remote
        was_live = self.live.pop(link.cid, None) is not None
        self.opened.pop(link.cid, None)
        self.unauthenticated.forget(link)
        peer.await_until(None)
        peer.end_with(None)
        peer.stage = Stage.OVER
        reason = link.close_reason or ("Read Error" if error else "Client Closed")
        if reason == PENDING_BYTES:
            self._count_slow(link)
            self.log.info(
                f"{self.who(link)} - Slow Consumer Detected: MaxPending of {self.options.max_pending} Exceeded"
            )
        remote = f" - Remote: {peer.server}" if peer.server and peer.account is not None else ""
        self.log.info(f"{self.who(link)} - Leafnode connection closed: {reason}{remote}")
        self._ending.gone(self.opened)
        if peer.dialled is not None:
            peer.dialled.lost(link)
        if peer.account is not None:
            self.closed_traffic.setdefault(peer.account.name, Traffic()).add(link)
            self.closed.add_link(link, reason)
            self.witness.left(link, reason)
            if was_live:
                peer.account.links -= 1
                self._changed()

    def link_keeps(self, link: Link, size: int) -> None:
        """Before its login it keeps `size` bytes."""
        self.unauthenticated.keep(link, size)

    def link_connect(self, link: Link, raw: bytes) -> None:
        """CONNECT. Raises ProtocolError."""
        if link.remote.dialled is not None:
            raise ProtocolError("Authorization Violation", "Authentication Failure", "authentication error")
        if link.remote.stage is Stage.CONNECT_DUE:
            self.doors.connect(link, raw)

    def link_info(self, link: Link, raw: bytes) -> None:
        """INFO: of the other side when we dialled; who dialled us has nothing to say by it. Raises ProtocolError."""
        info = decode_link_info(raw)
        peer = link.remote
        if peer.dialled is None:
            if info.connect_info:
                link.close("Protocol Violation", "Authorization Violation")
            return
        if peer.stage is Stage.INFO_DUE:
            self._first_info(link, info)
            return
        peer.dialled.discovered(link, info)
        if info.imports is not None or info.exports is not None:
            if (peer.imports, peer.exports) != (info.imports, info.exports):
                peer.imports, peer.exports = info.imports, info.exports
                if peer.stage is Stage.LIVE and peer.timer is None:
                    self._apply_rules(link)
        if peer.stage is Stage.ANSWER_DUE:
            peer.remote_account = info.remote_account
            if info.connect_info:
                self.finish(link)

    def _apply_rules(self, link: Link) -> None:
        """What its hub allows has changed. All interest is judged anew then: what comes soon after that has to wait."""
        peer = link.remote
        peer.applied = peer.imports, peer.exports
        link.apply_rules(self._rules(peer))
        peer.await_until(self._loop.call_later(limits.LINK_INFO_SECONDS, self._apply_last, link))

    def _apply_last(self, link: Link) -> None:
        peer = link.remote
        peer.timer = None
        if peer.applied != (peer.imports, peer.exports):
            self._apply_rules(link)

    def link_error(self, link: Link, text: bytes) -> None:
        """-ERR from the other side: it closes the connection."""
        said = text.decode("utf-8", "replace")
        self.log.error(f"{self.who(link)} - Leafnode Error {said}")
        account = link.remote.account
        if SAME_CLUSTER in said:
            delay = self._delay(link, SAME_CLUSTER_DELAY)
            what = "dropped with same cluster name error"
        elif OLD in said:
            delay = self._delay(link, OLD_DELAY)
            what = "dropped due to minimum version requirement"
        elif "Loop detected" in said and account is not None:
            self._looped(link)
            link.close("Protocol Violation")
            return
        else:
            return
        self.log.error(f"{self.who(link)} - Leafnode connection {what}. Delaying attempt to reconnect for {delay}")

    def link_failed(self, link: Link, error: ProtocolError) -> None:
        """The other side said something that ends the connection."""
        if error.detail:
            self.log.error(f"{self.who(link)} - {error.detail}")
        if isinstance(error, LoginRefused):
            self.witness.refused(link, error)
        link.close(error.reason, error.text)

    def link_traced(self, link: Link, trace: "MessageTrace") -> None:
        """A message came that asked for a trace."""
        self.witness.traced(trace)

    def link_fault(self, link: Link, fault: str) -> None:
        """It asked for one that cannot be."""
        self.log.error(f"{self.who(link)} - {fault}")

    def link_looped(self, link: Link) -> None:
        """Our own mark of this account came back to us."""
        link.close("Protocol Violation", self._looped(link))

    def _looped(self, link: Link) -> str:
        delay = self._delay(link, LOOP_DELAY)
        account = link.remote.account
        name = "" if account is None else account.name
        text = f'Loop detected for leafnode account="{name}". Delaying attempt to reconnect for {delay}'
        self.log.error(f"{self.who(link)} - {text}")
        return text

    def link_wrong(self, link: Link) -> None:
        """It asks for what is no subject."""
        self.log.error(f"{self.who(link)} - Could not insert subscription: sublist: invalid subject")

    def link_violation(self, link: Link, what: str, subject: bytes) -> None:
        """A spoke sent, or asked for, what it may not: `what` is Publish or Subscription."""
        self._delay(link, VIOLATION_DELAY)
        shown = quoted(subject)
        self.log.error(f"{self.who(link)} - {what} Violation on {shown} - Check other side configuration")
        link.close("Protocol Violation", f"Permissions Violation for {what} to {shown}")

    def link_at_limit(self, link: Link) -> None:
        """It asks for more subjects than it may. The log tells of it once in two seconds for each account."""
        name, now = link.remote.account.name, self._loop.time()
        if now >= self._limit_told.get(name, 0.0) + limits.LIMIT_REPORT_SECONDS:
            self._limit_told[name] = now
            self.log.error(f"{self.who(link)} - maximum subscriptions exceeded")
        link.send_error("maximum subscriptions exceeded")

    def link_reaches(self, link: Link) -> None:
        """The API of a JetStream is reached over it, or no more: maybe it lies behind links of the other server."""
        self._changed()

    def link_stalled(self, link: Link) -> None:
        """It sends faster than a receiver takes, and has to wait."""

    def _delay(self, link: Link, seconds: float) -> str:
        if link.remote.dialled is not None:
            link.remote.dialled.delay = seconds
        return format_duration(seconds)

    # --- soliciting ---

    def go_on(self, link: Link, info: LinkInfo) -> None:
        """The link is encrypted: what its first INFO said counts now."""
        try:
            self._first_info(link, info)
        except ProtocolError as error:
            link.fail(error)
        link.unpark()

    def _first_info(self, link: Link, info: LinkInfo) -> None:
        peer = link.remote
        if peer.dialled is None:
            return
        if peer.dialled.encrypts(link, info):
            return  # this INFO is handled inside of TLS
        if not info.cid or info.urls is None:
            raise ProtocolError("", "Incorrect Port", WRONG_PORT)
        if " " in info.cluster:
            raise ProtocolError(CLUSTER_WITH_BLANKS)
        peer.server, peer.cluster, peer.domain, peer.nonce = info.server, info.cluster, info.domain, info.nonce
        peer.version, peer.protocol = info.version, info.protocol
        peer.compression = "off" if info.compression else "not supported"
        peer.imports, peer.exports = info.imports, info.exports
        link.headers = info.headers and not self.options.no_header_support
        peer.dialled.discovered(link, info)
        link.send(connect_line(peer.dialled.connect_fields(link, self.greeting)))
        self.log.debug(f"{self.who(link)} - Remote leafnode connect msg sent")
        peer.stage = Stage.ANSWER_DUE
        peer.await_until(self._loop.call_later(FINISH_SECONDS, self._never_answered, link))
        if info.connect_info or not info.info_on_connect:
            self.finish(link)

    def _never_answered(self, link: Link) -> None:
        text = "Stale Leaf Node Connection - Closing"
        self.log.debug(f"{self.who(link)} - {text}")
        link.close("Stale Connection", text)

    # --- both sides ---

    def finish(self, link: Link) -> None:
        """The handshake is done: the link is live from now on. Raises ProtocolError when its account is full."""
        peer = link.remote
        peer.await_until(None)
        account = peer.account
        if account is None:
            raise ProtocolError("Authorization Violation")
        if peer.dialled is None:
            self._bound(link, account)
        else:
            self._check_cluster(link, account)
            self.check_room(account)
        peer.domains = self._domains(peer, account)
        if peer.domains.extended:
            self.log.info(f"SYSTEM - {peer.domains.extended}")
        for line in peer.domains.notices:
            self.log.info(f"{self.who(link)} - {line}")
        for line in peer.domains.details:
            self.log.debug(f"{self.who(link)} - {line}")
        replaced = self._duplicate(link, account)
        self.live[link.cid] = link
        account.links += 1
        peer.stage = Stage.LIVE
        if replaced is not None:
            text = "Duplicate Remote LeafNode Connection"
            self.log.error(f"{self.who(replaced)} - {text}{replaced.remote.label}")
            replaced.close(text, text)
            self.log.warn(f"{self.who(link)} - Replacing connection from same server")
        if peer.dialled is None:
            link.send(self.greeting.after_connect(link, account, peer.permissions))
        link.begin(account.router, self._ledger(account), self._rules(peer), peer.is_spoke)
        self._follow_end(link)
        first = min(FIRST_PING_SECONDS, self.options.ping_interval) * random.uniform(1.0, 1.2)
        link.pings.due_at = self._loop.time() + first
        self.witness.came(link)
        self._changed()

    def renew(self, link: Link, login: Login) -> None:
        """A reload: a link that was accepted stays as this login, with what that may do now."""
        self.follow_permissions(link, login)
        if not link.closed and self.rebound(link):
            self._follow_end(link)

    def follow_permissions(self, link: Link, login: Login) -> None:
        """A link that was accepted may do now what this login may."""
        peer, account = link.remote, link.remote.account
        before, peer.login = peer.permissions, login
        if account is None or peer.permissions == before:
            return
        if account.is_system or not peer.jetstream:
            link.close("Kicked")  # only the spoke knows what it denies by itself
            return
        told = rules.told_again(peer.permissions, peer.domain, self.options.jetstream.domain)
        link.send(self.greeting.after_connect(link, account, told))
        link.apply_rules(self._rules(peer))

    def _follow_end(self, link: Link) -> None:
        """Of the token that it came in by."""
        token = None if link.remote.login is None else link.remote.login.token
        ends_in = None if token is None else token.ends_in
        link.remote.end_with(None if ends_in is None else self._loop.call_later(ends_in, self._ended, link))

    def _ended(self, link: Link) -> None:
        self.expel(link, "Authentication Expired", "User Authentication Expired")

    def expel(self, link: Link, reason: str, text: str) -> None:
        """End a login that was good until now."""
        expel(link, self.who, self.log, reason, text)

    def _ledger(self, account: Account) -> Ledger:
        """The account's interest. With its first link it gets a mark, which must not come back by another one."""
        if account.name not in self._marks:
            self._marks[account.name] = (
                LOOP_PREFIX + "".join(secrets.choice(MARK_LETTERS) for _ in range(MARK_CHARACTERS)).encode()
            )
            self._ledgers[account.name].add_static(self._marks[account.name])
        return self._ledgers[account.name]

    def is_own_mark(self, link: Link, subject: bytes) -> bool:
        """Is this the mark of the link's account?"""
        account = link.remote.account
        return account is not None and self._marks.get(account.name) == subject

    def _check_cluster(self, link: Link, account: Account) -> None:
        """Who is our spoke in this account must not be our hub as well. Raises ProtocolError."""
        others = [other.remote for other in self.live.values() if other.remote.account is account]
        cluster = link.remote.cluster
        if cluster and cluster in {other.cluster for other in others if not other.is_spoke}:
            link.close("Protocol Violation", self._looped(link))
            raise ProtocolError("")

    def check_room(self, account: Account) -> None:
        """Raises ProtocolError when the account has as many links as it may."""
        if 0 <= self.options.limits_of(account.name).max_leafnodes <= account.links:
            raise account_full()

    def _bound(self, link: Link, account: Account) -> None:
        """The smallest one of server, account and user holds."""
        options, bounds = self.options, self.options.limits_of(account.name)
        payloads, subscriptions = [options.max_payload, bounds.max_payload], [bounds.max_subscriptions]
        if options.max_subscriptions:
            subscriptions.append(options.max_subscriptions)
        login = link.remote.login
        if login is not None and login.token is not None:
            own = login.token.may.limits
            payloads.append(own.payload)
            subscriptions.append(own.subscriptions)
        link.set_max_payload(least(*payloads))
        link.set_most(least(*subscriptions))

    def rebound(self, link: Link) -> bool:
        """The limits of a link's account are other ones; False when it asks for too much to stay."""
        self._bound(link, link.account)
        if 0 <= link.most < link.subscription_count:
            link.close("Maximum Subscriptions Exceeded", "maximum subscriptions exceeded")
            return False
        return True

    def _duplicate(self, link: Link, account: Account) -> Link | None:
        """The link that the same server had before, which has not ended yet for us."""
        peer = link.remote
        if peer.dialled is not None or not peer.server or not peer.remote_account:
            return None
        wanted = (peer.server, peer.cluster, peer.remote_account)
        for other in self.live.values():
            known = other.remote
            if known.dialled is None and known.account is account:
                if (known.server, known.cluster, known.remote_account) == wanted:
                    return other
        return None

    def _domains(self, peer: Peer, account: Account) -> rules.Domains:
        options = self.options
        has_system = bool(options.system_account or not options.no_system_account)
        return rules.domains_of(
            options.jetstream.domain,
            peer.domain,
            account=account.name,
            peer=peer.decorated,
            is_system=account.is_system,
            has_system=has_system and (options.system_account or SYSTEM_ACCOUNT) in self.accounts,
            has_jetstream=options.jetstream.enabled,
            defaults=options.leafnodes.default_js_domain,
        )

    def _rules(self, peer: Peer) -> rules.Rules:
        if peer.dialled is None:
            found = rules.of_accepted(peer.permissions, peer.denied, peer.domains)
        else:
            configured = peer.dialled.options
            found = rules.of_solicited(
                peer.imports,
                peer.exports,
                configured.deny_imports,
                configured.deny_exports,
                peer.domains,
                is_hub=configured.hub,
            )
        is_system = peer.account is not None and peer.account.is_system
        if peer.is_spoke or is_system:
            return found
        return rules.with_imports(found, has_jetstream=self.options.jetstream.enabled)

    # --- keep-alive ---

    def _sweep(self) -> None:
        now = self._loop.time()
        for link in list(self.opened.values()):
            peer = link.remote
            heard = link.sweep()
            if link.closed:
                if link.closed_for > self.options.write_deadline:
                    link.transport.abort()
                continue
            if link.blocked_seconds > self._write_deadline > 0:
                self._cut_off(link)
            elif peer.stage is Stage.LIVE:
                if heard and not peer.is_spoke:
                    link.pings.put_off(
                        now, now - self._sweep_seconds + self.options.ping_interval
                    )  # heard then, or later
                if now >= link.pings.due_at:
                    self._ping(link, now)
        self._sweeper = self._loop.call_later(self._sweep_seconds, self._sweep)

    @property
    def _sweep_seconds(self) -> float:
        return min(limits.SWEEP_SECONDS, max(self.options.ping_interval / 4, limits.SHORTEST_SWEEP_SECONDS))

    @property
    def _write_deadline(self) -> float:
        return self.options.leafnodes.write_deadline or self.options.write_deadline

    def _cut_off(self, link: Link) -> None:
        self.shared.slow_consumers += 1
        self._count_slow(link)
        self.log.info(
            f"{self.who(link)} - Slow Consumer Detected: WriteDeadline of {format_duration(self._write_deadline)} "
            f"exceeded with 1 chunks of {link.pending_bytes} total bytes."
        )
        link.abort(WRITE_DEADLINE)

    def _count_slow(self, link: Link) -> None:
        account = link.remote.account
        if account is not None:
            account.slow_consumers += 1

    def _ping(self, link: Link, now: float) -> None:
        link.pings.next_at(now, self.options.ping_interval)
        self.log.debug(f"{self.who(link)} - Leafnode Ping Timer")
        if link.pings.unanswered + 1 > self.options.ping_max:
            self.log.debug(f"{self.who(link)} - Stale Client Connection - Closing")
            self.stale += 1
            link.close("Stale Connection", "Stale Connection")
            return
        link.ping()
