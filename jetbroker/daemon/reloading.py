"""SIGHUP or RELOAD: the configuration is read again and takes effect, all of it or nothing.

Everything that can fail comes first and changes nothing. What follows is one step of the event loop, so no client ever
sees half of a configuration; only JetStream is switched on or off behind it.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple

from jetbroker.accounts.account import graph_of
from jetbroker.auth.authenticator import Authenticator
from jetbroker.config import checks, start
from jetbroker.config.options import RANDOM_PORT, Loaded, Options
from jetbroker.config.reload import Change, changes
from jetbroker.daemon.listening import Entrances, fingerprint
from jetbroker.errors import ConfigError, JetbrokerError

if TYPE_CHECKING:
    import ssl

    from jetbroker.accounts.graph import Graph
    from jetbroker.daemon.broker import Broker
    from jetbroker.logs.logger import Opened

_TRACE = ("trace", "trace_verbose", "trace_headers", "max_traced_msg_len")
_LOGGING = frozenset((*_TRACE, "debug", "logtime", "logtime_utc", "log_file", "syslog", "remote_syslog"))
_IN_STATSZ = frozenset((
    "server_tags", "server_metadata", "jetstream.enabled", "jetstream.max_memory_store", "jetstream.max_file_store",
))  # fmt: skip
_AT_START = "Error setting server INFO with ClientAdvertise value of"  # the same fault has another text at a reload
_AT_RELOAD = "invalid ClientAdvertise value of"


class Parts(NamedTuple):
    """What is made anew by a reload.

    `links`: what links that come meet, None for no TLS; `log`: where its lines go, None: where they do.
    """

    authenticator: Authenticator
    entrances: Entrances
    graph: "Graph"
    links: "ssl.SSLContext | None"
    log: "Opened | None"


class Reloader:
    """Reloads the configuration of one broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._one_at_a_time = asyncio.Lock()
        self._stopped = False
        self._effects: dict[str, Callable[[], None]] = {
            "max_connections": self._max_connections,
            "max_control_line": self._max_control_line,
            "max_payload": self._max_payload,
            "pid_file": self._pid_file,
            "ports_file_dir": self._ports_file,
            "no_fast_producer_stall": self._stalls,
            "tls.pinned_certs": self._pinned_certs,
        }

    async def reload(self) -> Exception | None:
        """Read the file again and follow it. Returns what is wrong with it; nothing changes then."""
        await self._broker.ready.wait()
        async with self._one_at_a_time:
            if self._stopped:
                return None
            try:
                options, certificates = await self._load()
                found = self._compare(options, certificates)
                checks.check_opening(options)
                parts = await self._prepare(options)
            except (JetbrokerError, OSError) as error:
                return error
            self._broker.tls_files = certificates
            adopt(self._broker.options, options)
            self._follow(found, parts.log)
            self._take(parts)
            await self._follow_links(found)
            await self._follow_jetstream()
            self._broker.follow_interest()
            if not _IN_STATSZ.isdisjoint(change.name for change in found):
                self._broker.system.others.changed()
            self._broker.config_loaded_ns = time.time_ns()
            self._broker.log.info(f"Reloaded server configuration ({options.config_digest})")
            return None

    async def stop(self) -> None:
        """The broker ends: what has begun is finished, nothing else begins."""
        self._stopped = True
        async with self._one_at_a_time:
            return

    async def _load(self) -> tuple[Options, str]:
        """The options of the file with the command line's over them, and the fingerprint of the TLS files."""
        old = self._broker.options
        if not old.config_file:
            raise ConfigError("can only reload config when a file is provided using -c or --config")
        loaded = await asyncio.to_thread(_read, old)
        tls = loaded.options.tls
        return loaded.options, "" if tls is None else await asyncio.to_thread(fingerprint, tls)

    def _compare(self, new: Options, certificates: str) -> list[Change]:
        old = self._broker.options
        # any free port: the one that was free at the start is still ours
        if new.port == RANDOM_PORT:
            new.port = old.port
        if new.websocket.port == RANDOM_PORT:
            new.websocket.port = old.websocket.port
        if new.leafnodes.port == RANDOM_PORT:
            new.leafnodes.port = old.leafnodes.port
        return changes(old, new, certificates_changed=certificates != self._broker.tls_files)

    async def _prepare(self, options: Options) -> Parts:
        """Make what the configuration asks for. Raises what keeps it from being made; nothing has changed then."""
        broker = self._broker
        links = None
        if broker.leafnodes is not None:
            links = broker.leafnodes.hub.context_for(options)
        entrances, graph = broker.listeners.prepare(options), graph_of(options)
        log = await asyncio.to_thread(broker.log.prepare, options)  # a remote syslog may take its time
        return Parts(broker.authenticator_for(options), entrances, graph, links, log)

    def _take(self, parts: Parts) -> None:
        """Put the new parts in the place of the old ones."""
        broker = self._broker
        broker.info.authenticator = parts.authenticator
        broker.info.apply(broker.options)
        broker.listeners.apply(parts.entrances)
        if broker.monitor is not None:
            broker.monitor.secure = parts.entrances.monitoring
        if broker.resolver is None:
            broker.apply_accounts(parts.graph)
        else:
            broker.resolver.reload()
        broker.clients.logins.replace(parts.authenticator, broker.clients.connected.values())
        if broker.leafnodes is not None:
            broker.leafnodes.hub.context = parts.links
            broker.leafnodes.replace_logins(parts.authenticator)

    def _follow(self, found: list[Change], log: "Opened | None") -> None:
        """Follow each change and tell of it; the log itself changes last."""
        broker = self._broker
        for name, line, _ in found:
            effect = self._effects.get(name)
            if effect is not None:
                effect()
            if line:
                broker.log.info(line)
        if not _LOGGING.isdisjoint(change.name for change in found):
            try:
                broker.log.configure(broker.options, log)
            except ConfigError as error:  # of what goes with it
                broker.log.error(f"The log stays where it is: {error}")
            broker.clients.follow_trace()
            if broker.leafnodes is not None:
                broker.leafnodes.leafs.follow_trace()

    async def _follow_links(self, found: list[Change]) -> None:
        """Remotes that came and went, once there are the accounts for them."""
        broker = self._broker
        for links in [change.links for change in found if change.links is not None]:
            if broker.leafnodes is not None:
                broker.leafnodes.follow(links)
            elif broker.options.leafnodes.enabled:
                await broker.start_leafnodes()

    # --- what has an effect right now ---

    def _max_connections(self) -> None:
        closed = self._broker.clients.close_beyond(self._broker.options.max_connections)
        if closed:
            self._broker.log.info(f"Closed {closed} connections to fall within max_connections")

    def _max_control_line(self) -> None:
        self._broker.clients.set_max_control_line(self._broker.options.max_control_line)

    def _max_payload(self) -> None:
        self._broker.clients.set_max_payload(self._broker.options.max_payload)
        if self._broker.leafnodes is not None:  # for links that begin from now on
            self._broker.leafnodes.shared.max_payload = self._broker.options.max_payload

    def _pid_file(self) -> None:
        try:
            self._broker.files.move_pid(self._broker.options.pid_file)
        except ConfigError as error:
            why = str(error).removeprefix("Could not write pidfile: ")
            self._broker.log.error(f"Failed to write pidfile: {why}")

    def _ports_file(self) -> None:
        self._broker.files.move_ports(self._broker.options.ports_file_dir)

    def _stalls(self) -> None:
        stall = not self._broker.options.no_fast_producer_stall
        self._broker.clients.shared.stall = stall
        if self._broker.leafnodes is not None:
            self._broker.leafnodes.shared.stall = stall

    def _pinned_certs(self) -> None:
        tls = self._broker.options.tls
        closed = self._broker.clients.close_unpinned(tls.pinned_certs) if tls is not None else 0
        if closed:
            self._broker.log.info(f"Disconnect {closed} clients due to pinned certs reload")

    async def _follow_jetstream(self) -> None:
        broker = self._broker
        if not broker.options.jetstream.enabled:
            if broker.jetstream is not None:
                await broker.end_jetstream()
            return
        if broker.jetstream is not None:
            try:
                await broker.jetstream.reload()
            except (JetbrokerError, OSError) as error:
                broker.log.error(f"Error enabling jetstream on configured accounts: {error}")
            return
        broker.log.info("Restarting JetStream")
        try:
            await broker.start_jetstream()
        except (JetbrokerError, OSError) as error:
            broker.log.warn(f"Can't start JetStream: {error}")
            await broker.end_jetstream()


def _read(old: Options) -> Loaded:
    """Read the file anew. Raises ConfigError."""
    try:
        loaded = start.load(old.config_file, old.flags)
    except ConfigError as error:
        raise ConfigError(str(error).replace(_AT_START, _AT_RELOAD, 1)) from error
    if loaded.is_empty:  # an editor may be about to write it: without any login everybody would come in
        raise ConfigError(loaded.notices[-1])
    return loaded


def adopt(options: Options, new: Options) -> None:
    """Give all values of `new` to the options that everybody holds: one object for the life of a broker."""
    for field in fields(Options):
        setattr(options, field.name, getattr(new, field.name))
