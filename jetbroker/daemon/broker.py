"""The composition root: options in, listeners out. It alone knows all rooms.

The life of a broker, in order: log, pid file, store, JetStream recovery, listeners, ports file, "Server is ready";
then signals; then the way back: listeners closed, JetStream stopped and synced, clients closed, files removed.
"""

import asyncio
import hashlib
import importlib
import resource
import signal
import string
import sys
import time
from typing import TYPE_CHECKING, Any

import uvloop

from jetbroker import NATS_VERSION, __version__
from jetbroker.accounts.account import Account, graph_of
from jetbroker.auth.authenticator import Authenticator
from jetbroker.auth.server_id import new_server_id
from jetbroker.config import checks
from jetbroker.config.durations import format_duration
from jetbroker.config.options import GLOBAL_ACCOUNT, SYSTEM_ACCOUNT, AccountJetStreamOptions, Options
from jetbroker.connections.clients import Clients
from jetbroker.connections.info import ServerInfo
from jetbroker.daemon.garbage import collect_rarely
from jetbroker.daemon.listening import Listeners, fingerprint, monitoring_context
from jetbroker.daemon.runfiles import RunFiles
from jetbroker.errors import ConfigError, JetbrokerError, StoreOpenError
from jetbroker.logs.logger import Logger
from jetbroker.monitor.orders import Orders
from jetbroker.monitor.system import SystemServices
from jetbroker.program import NATS_SERVER, build_id, program_name
from jetbroker.routing.mapping import domain_mappings
from jetbroker.tick import Tick

if TYPE_CHECKING:
    from jetbroker.accounts.graph import Graph
    from jetbroker.accounts.resolver import Resolver
    from jetbroker.accounts.sharing import Sharing
    from jetbroker.auth.tokens import KnownAccount
    from jetbroker.connections.token_clients import TokenClients
    from jetbroker.daemon.reloading import Reloader
    from jetbroker.jetstream.server import JetStreamServer
    from jetbroker.leafnodes.server import Leafnodes
    from jetbroker.monitor.claims import ClaimsUpdate
    from jetbroker.monitor.monitor import Monitor
    from jetbroker.monitor.sources import Sources

SIGNALS = {
    signal.SIGINT: "interrupt",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "hangup",
    signal.SIGUSR1: "user defined signal 1",
    signal.SIGUSR2: "user defined signal 2",
}
"""What the broker listens to, named as its log names them."""


class Broker:
    """One running server."""

    def __init__(self, options: Options, graph: "Graph", log: Logger) -> None:
        self.options = options
        self.log = log
        self.server_id = new_server_id()
        self.loop = asyncio.get_running_loop()
        self.loop.set_exception_handler(self._internal_error)
        self.tick = Tick(self.loop)
        self.accounts = make_accounts(options, self.tick, {})
        self.jetstream: JetStreamServer | None = None
        self.leafnodes: Leafnodes | None = None
        self.monitor: Monitor | None = None
        self.files = RunFiles(options, log)
        self.exit_code = 0
        self._started_ns = self.config_loaded_ns = time.time_ns()
        self._accepts = True  # clients, or will soon
        self.ready = asyncio.Event()
        self._stopped = self.loop.create_future()
        self._jetstream_end: asyncio.Task[None] | None = None
        self._lame_duck: asyncio.Task[None] | None = None
        self._reloads: set[asyncio.Task[None]] = set()
        self.resolver = self._make_resolver()
        authenticator = self.authenticator_for(options)
        self.info = ServerInfo(options, self.server_id, authenticator)
        self._sharing: Sharing | None = None
        self._graph = graph
        self._share(graph)
        self.system = SystemServices(
            self.tick, self.server_id, self._monitored, Orders(self._reload, log), self._claims_updates()
        )
        self._attach_services()
        if self.resolver is not None:
            self.resolver.start()
        self._sources: Sources | None = None
        self.clients = Clients(options, self.tick, self.accounts, authenticator, self.info, log, self.system.events)
        self.listeners = Listeners(options, self.clients, self.info, log)
        self.tls_files = "" if options.tls is None else fingerprint(options.tls)
        self._reloader: Reloader | None = None

    async def start(self) -> None:
        """Open the store, recover, listen. Raises JetbrokerError or OSError with a text for the operator."""
        self._log_start()
        if self.resolver is not None:
            self.resolver.check_preload()
        self.files.write_pid()
        if not (self.options.system_account or self.options.no_system_account):
            if SYSTEM_ACCOUNT not in self.options.accounts:
                self.log.debug(f'Created system account: "{SYSTEM_ACCOUNT}"')
        checks.check_monitoring(self.options)
        self._open_monitor()
        checks.check_jetstream_accounts(self.options)
        if self.options.jetstream.enabled:
            try:
                await self.start_jetstream()
            except StoreOpenError as error:
                raise StoreOpenError(f"Can't start JetStream: {error}") from error
        else:
            self._map_default_domains()
        if self.options.leafnodes.enabled:
            await self.start_leafnodes()
        await self.listeners.start()
        self.clients.start()
        if self.monitor is not None:
            self.monitor.serve(self._monitored)
        self.files.write_ports(self.urls())
        self.log.info("Server is ready")
        self.ready.set()
        if self.jetstream is not None:
            self.jetstream.start_waiting()

    def urls(self) -> dict[str, list[str]]:
        """The open listeners: addresses a program on this machine can dial, by kind."""
        urls = self.listeners.urls()
        if self.monitor is not None:
            urls["monitoring"] = [self.monitor.url]
        return urls

    async def prepare(self) -> None:
        """What takes longer than a start can spare."""
        await self.info.curve_key.prepare()

    async def start_jetstream(self) -> None:
        """Open the store and recover what is in it. Raises JetbrokerError or OSError."""
        # a core-only broker does without the imports
        from jetbroker.jetstream.server import JetStreamServer

        self.log.info("Starting JetStream")
        began = time.monotonic()
        self.jetstream = JetStreamServer(self.options, self.tick, self.accounts, self._facts(), self.log)
        try:
            await self.jetstream.start(None if self.resolver is None else self.resolver.find_stored)
        finally:
            self.log.info(f"Took {format_duration(round(time.monotonic() - began, 6))} to start JetStream")
        if self.ready.is_set():  # a reload switches it on
            self.jetstream.start_waiting()

    def _map_default_domains(self) -> None:
        """Without JetStream here: what an account asks of JetStream goes to a domain, unless its token gives it one."""
        for name, domain in self.options.leafnodes.default_js_domain.items():
            account, configured = self.accounts.get(name), self.options.accounts.get(name)
            if account is not None and account.router.domain is None and not (configured and configured.jetstream):
                account.router.domain = domain_mappings(domain="", default=domain)

    async def start_leafnodes(self) -> None:
        """Listen for links, and dial. Raises JetbrokerError or OSError."""
        from jetbroker.leafnodes.server import Leafnodes  # most brokers do without

        self.leafnodes = Leafnodes(
            self.options,
            self.tick,
            self.accounts,
            self.clients,
            self.info,
            self.log,
            self._links_changed,
        )
        if self.resolver is not None:
            self.leafnodes.leafs.read_in = self.resolver.find
        if self.options.leafnodes.port:
            self.listeners.links = self.leafnodes.hub.accept_websocket
        await self.leafnodes.start()

    def _links_changed(self) -> None:
        """Streams may reach their origins again, or no more; other servers may not know of this one."""
        self.system.others.announce()
        if self.jetstream is not None:
            self.jetstream.links_changed()

    async def end_jetstream(self) -> None:
        """For a reload: the streams stay on disk."""
        await self._stop_jetstream()
        self.jetstream = self._jetstream_end = None

    def apply_accounts(self, graph: "Graph", only: set[str] | None = None) -> None:
        """For a reload: the accounts of `options`, which has been brought up to date, and what they give each other.

        An account that stays keeps its clients, subscriptions and streams. Clients of one that is gone hear nothing
        more, and are closed by whoever judges their logins next. `only`: nothing has changed but these accounts.
        """
        accounts = make_accounts(self.options, self.tick, self.accounts)
        gone = set(self.accounts.values()) - set(accounts.values())
        self.accounts.clear()
        self.accounts.update(accounts)
        self._share(graph, only)
        for account in gone:  # its subscriptions would keep it in memory
            account.router.close()
        self._attach_services()
        self.follow_interest()

    def follow_interest(self) -> None:
        """What accounts map, and with JetStream their domain, is what links are told that they want."""
        if self.leafnodes is not None:
            self.leafnodes.leafs.follow_accounts()

    def _attach_services(self) -> None:
        """The server's own services need a system account."""
        if self.options.has_system_account:
            self.system.attach(self.accounts.values())

    # --- operator mode ---

    def _make_resolver(self) -> "Resolver | None":
        if not self.options.operator.enabled:
            return None
        from jetbroker.accounts.resolver import Effects, Resolver  # most brokers do without

        effects = Effects(self._tokens_read, self._token_changed, self._account_expired)
        return Resolver(self.options, self.loop, self.log, effects)

    def authenticator_for(self, options: Options) -> Authenticator:
        """The logins of these options, at the start and for a reload."""
        if self.resolver is None:
            return Authenticator(options)
        from jetbroker.auth.tokens import TokenAuthenticator

        return TokenAuthenticator(options, self.resolver.find, self.resolver.count_unpinned)

    def _claims_updates(self) -> "ClaimsUpdate | None":
        resolver = self.resolver
        if resolver is None:
            return None
        from jetbroker.monitor.claims import update

        async def updated(tokens: list[str], body: bytes) -> dict[str, Any]:
            """Answered when JetStream has followed: a request behind the answer meets the limits of the token."""
            answer = update(resolver, self.log, tokens, body)
            if self._reloads:
                await asyncio.wait(set(self._reloads))
            return answer

        return updated

    def _tokens_read(self, graph: "Graph", only: set[str] | None) -> None:
        """There are other accounts than before, or they give each other something else."""
        self.apply_accounts(graph, only)
        if self.jetstream is not None:
            self.jetstream.follow_new()
        elif not self.options.jetstream.enabled:
            self._map_default_domains()
        self.follow_interest()

    def _token_changed(self, before: "KnownAccount", now: "KnownAccount") -> None:
        self._token_clients().account_changed(before, now)
        if self.leafnodes is not None:
            self.leafnodes.account_changed(before, now)
        if self.jetstream is not None:
            task = self.loop.create_task(self._follow_jetstream_limits(self.jetstream))
            self._reloads.add(task)
            task.add_done_callback(self._reloads.discard)

    async def _follow_jetstream_limits(self, jetstream: "JetStreamServer") -> None:
        try:
            await jetstream.reload()
        except (JetbrokerError, OSError) as error:
            self.log.error(f"Error configuring jetstream: {error}")
        self.follow_interest()

    def _account_expired(self, account: "KnownAccount") -> None:
        self._token_clients().account_expired(account)
        if self.leafnodes is not None:
            self.leafnodes.account_expired(account)

    def _token_clients(self) -> "TokenClients":
        from jetbroker.connections.token_clients import TokenClients

        return TokenClients(self.clients)

    def _share(self, graph: "Graph", only: set[str] | None = None) -> None:
        self._graph = graph
        if self._sharing is None:
            if not graph:
                return
            from jetbroker.accounts.sharing import Sharing  # most brokers do without

            self._sharing = Sharing(self.info, self.options.system_account or SYSTEM_ACCOUNT)
        self._sharing.apply(self.accounts, graph, only)

    def _monitored(self) -> "Sources":
        """What the monitoring port and the system services look at."""
        if self._sources is None:
            from jetbroker.monitor.sources import Sources  # with the first request

            self._sources = Sources(
                self.options,
                self.accounts,
                self.clients,
                self.info,
                0 if self.monitor is None else self.monitor.port,
                self._started_ns,
                lambda: self._accepts,
            )
        self._sources.jetstream, self._sources.leafnodes = self.jetstream, self.leafnodes
        self._sources.config_loaded_ns, self._sources.graph = self.config_loaded_ns, self._graph
        if self.resolver is not None:
            self._sources.token_of, self._sources.unpinned = self.resolver.knows, self.resolver.unpinned
        return self._sources

    def _open_monitor(self) -> None:
        options = self.options
        port = options.http_port or options.https_port
        if port:
            from jetbroker.monitor.monitor import Monitor

            host = (options.https_host if options.https_port else options.http_host) or options.host
            self.monitor = Monitor(host, port, self.log, monitoring_context(options))

    async def stop(self) -> None:
        """Close everything in order; what was acknowledged is on disk afterwards."""
        self.log.info("Initiating Shutdown...")
        if self._lame_duck is not None:
            self._lame_duck.cancel()
        self.system.others.farewell("SHUTDOWN")
        self._close_listeners()
        if self.leafnodes is not None:
            self.leafnodes.close()
        if self._reloader is not None:
            await self._reloader.stop()
        await self._stop_jetstream()
        if self.leafnodes is not None:
            await self.leafnodes.stop()
        await self.clients.stop()
        if self.monitor is not None:
            self.monitor.close()
        self.files.remove_ports()
        self.log.info("Server Exiting..")

    def release(self) -> None:
        """After :meth:`stop`, in a process that lives on: timers and subscriptions keep it in memory no more."""
        self.system.close()
        for account in self.accounts.values():
            account.router.close()
        if self.loop.get_exception_handler() == self._internal_error:
            self.loop.set_exception_handler(None)

    def _close_listeners(self) -> None:
        """Of clients."""
        self.listeners.close()
        self._accepts = False

    async def _stop_jetstream(self) -> None:
        """Once, whoever asks first; everybody waits for it. A failure is logged, clients are closed all the same."""
        if self.jetstream is None or self.jetstream.store is None:
            return
        if self._jetstream_end is None:
            self._jetstream_end = self.loop.create_task(self.jetstream.stop())
        try:
            await asyncio.shield(self._jetstream_end)
        except (JetbrokerError, OSError) as error:
            self.exit_code = 1
            self.log.error(f"JetStream was not stopped cleanly: {error}")

    async def run(self) -> int:
        """Start, serve until a signal ends it, stop. Returns the exit code."""
        for number, name in SIGNALS.items():
            self.loop.add_signal_handler(number, self._trapped, number, name)
        try:
            await self.start()
        except (JetbrokerError, OSError):
            await self._stop_jetstream()
            raise
        collect_rarely()
        await self.prepare()
        await self._stopped
        await self.stop()
        return self.exit_code

    def _trapped(self, number: int, name: str) -> None:
        self.log.info(f'Trapped "{name}" signal')
        if number == signal.SIGUSR1:
            self.log.reopen()
        elif number == signal.SIGHUP:
            task = self.loop.create_task(self._reload_on_signal())
            self._reloads.add(task)
            task.add_done_callback(self._reloads.discard)
        elif number == signal.SIGUSR2:
            if self._lame_duck is None and self.ready.is_set():
                self._lame_duck = self.loop.create_task(self._retire(self.clients))
        elif number != signal.SIGTERM or self._lame_duck is None:  # a lame duck that is asked to end does so already
            self._finish()

    async def _reload_on_signal(self) -> None:
        refused = await self._reload()
        if refused is not None:
            first, *others = str(refused).rstrip("\n").split("\n")
            self.log.error(f"Failed to reload server configuration: {first}")
            for line in others:
                self.log.error(line)

    async def _reload(self) -> Exception | None:
        """Read the configuration again; what keeps it from taking effect."""
        await asyncio.to_thread(importlib.import_module, "jetbroker.daemon.reloading")  # a start does without
        if self._reloader is None:
            from jetbroker.daemon.reloading import Reloader

            self._reloader = Reloader(self)
        return await self._reloader.reload()

    def _finish(self) -> None:
        if not self._stopped.done():
            self._stopped.set_result(None)

    async def _retire(self, clients: Clients) -> None:
        """Lame duck: no new clients, those connected are told and get time to leave, then are closed bit by bit.

        Links to other servers come and go as before, until the end.
        """
        grace = self.options.lame_duck_grace_period
        self.log.info("Entering lame duck mode, stop accepting new clients")
        self.system.others.farewell("LAMEDUCK")
        self._close_listeners()
        await self._stop_jetstream()
        if clients.connected:
            clients.announce_lame_duck()
            await asyncio.sleep(grace)
            self.log.info("Closing existing clients")
            await clients.close_gradually(self.options.lame_duck_duration - grace)
        self._finish()

    def _internal_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.log.error(f"{context.get('message')}: {error!r}")
        if error is not None:
            import traceback

            for line in "".join(traceback.format_exception(error)).splitlines():
                self.log.error(line)

    def _facts(self) -> dict[str, str]:
        return {
            "server_name": self.info.server_name,
            "server_id": self.server_id,
            "version": NATS_VERSION,
            "domain": self.options.jetstream.domain,
            "cluster": self.info.cluster,
        }

    def _log_start(self) -> None:
        self.log.info(f"Starting {NATS_SERVER if program_name() == NATS_SERVER else 'jetbroker'}")
        self.log.info(f"  Version:  {NATS_VERSION} (jetbroker {__version__})")
        self.log.info(f"  Git:      [{build_id()}]")
        self.log.debug(f"  Go build: {self.info.fields['go']}")
        self.log.info(f"  Name:     {self.info.server_name}")
        if self.options.jetstream.enabled:
            self.log.info(f"  Node:     {_node(self.info.server_name)}")
        self.log.info(f"  ID:       {self.server_id}")
        for warning in checks.password_warnings(self.options):
            self.log.warn(warning)
        if self.options.config_file:
            self.log.info(f"Using configuration file: {self.options.config_file} ({self.options.config_digest})")
        if self.options.operator.tokens:
            from jetbroker.config.operator import start_lines

            for line in start_lines(self.options):
                self.log.info(line)
            if not self.options.system_account:
                self.log.warn("Trusted Operators should utilize a System Account")
        for warning in checks.other_warnings(self.options):
            self.log.warn(warning)


def make_accounts(options: Options, tick: Tick, known: dict[str, Account]) -> dict[str, Account]:
    """Every account of the configuration, with $G and the system account; those that are `known` stay the same."""
    system = options.system_account or SYSTEM_ACCOUNT
    alone = not options.operator.enabled and all(name in (GLOBAL_ACCOUNT, system) for name in options.accounts)
    found: dict[str, Account] = {}
    for name in (GLOBAL_ACCOUNT, system, *options.accounts):
        configured = options.accounts.get(name)
        jetstream = configured.jetstream if configured else None
        if name == GLOBAL_ACCOUNT and jetstream is None and alone:
            # with no other accounts $G has JetStream without limits of its own
            jetstream = AccountJetStreamOptions()
        account = known.get(name)
        if account is None or account.is_system != (name == system):
            account = Account(name, tick, is_system=name == system)
        account.jetstream_options = jetstream
        account.router.traces = configured.traces if configured is not None else None
        account.tag = configured.tag if configured is not None else ""
        found[name] = account
    return found


def _node(server_name: str) -> str:
    """A server's short name in nats-server's JetStream: 8 letters and digits made of a hash."""
    letters = string.digits + string.ascii_uppercase + string.ascii_lowercase
    return "".join(letters[byte % len(letters)] for byte in hashlib.sha256(server_name.encode()).digest()[:8])


def allow_many_files() -> None:
    """Raise the limit of open files as far as it goes: each client is one. Go programs do the same by themselves."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run(options: Options) -> int:
    """Run a broker until it is told to stop. Returns the process's exit code.

    Raises ConfigError where what the accounts give each other cannot be.
    """
    graph = graph_of(options)
    try:
        log = Logger(options)
    except ConfigError as error:  # there is no log yet: as Go's own one writes it
        print(time.strftime("%Y/%m/%d %H:%M:%S"), error, file=sys.stderr)
        return 1
    allow_many_files()

    async def main() -> int:
        broker = Broker(options, graph, log)
        try:
            return await broker.run()
        except (JetbrokerError, OSError) as error:
            log.fatal(str(error))
            return 1

    return uvloop.run(main())
