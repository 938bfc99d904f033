"""JetStream of the whole server: one store, and a JetStream for each account.

Accounts that have streams are recovered before the server is ready. The engine's modules take a tenth of a second to
import, so for the others that is done behind the start, one module at a time; their requests wait meanwhile.
"""

import asyncio
import importlib
import math
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from jetbroker import limits
from jetbroker.accounts.account import Account
from jetbroker.config.options import SYSTEM_ACCOUNT, Options, ShipOptions
from jetbroker.errors import StorageError
from jetbroker.forms.api_level import API_LEVEL
from jetbroker.forms.gotext import SECOND
from jetbroker.forms.sizes import friendly_bytes
from jetbroker.jetstream.models.contracts import BatchLimits, Origin, ServerInfo, ServerLimits, ServerReservations
from jetbroker.jetstream.timing.bursts import Bursts
from jetbroker.jetstream.timing.requests import RequestQueues
from jetbroker.jetstream.timing.watchdog import Watchdog
from jetbroker.jetstream.timing.work_turns import WorkTurns
from jetbroker.logs.logger import Logger
from jetbroker.routing.links import LinkReceiver
from jetbroker.routing.mapping import domain_mappings
from jetbroker.routing.router import CallbackReceiver, Router
from jetbroker.routing.subscription import Subscription
from jetbroker.store.store import Store
from jetbroker.tick import Tick

if TYPE_CHECKING:
    from jetbroker.jetstream.account import JetStream
    from jetbroker.jetstream.api.dispatch import Api
    from jetbroker.jetstream.api.preview import PreviewApi
    from jetbroker.jetstream.api.system import SystemApi
    from jetbroker.store.shipping.background import BackgroundShipping
    from jetbroker.store.shipping.task import Task

DEFAULT_SHARE = 0.75  # of the machine's memory and of the free disk, as nats-server takes
ENGINE = (
    "account",
    "api.dispatch",
    "api.system",
    "publish.batches",
    "publish.fast_batches",
    "publish.schedule_headers",
    "publish.schedules",
    "backup.snapshot",
    "backup.restore",
)

_NO_RESPONDERS = b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n"


class Exceeded:
    """Tells the log that nobody may store anything more; nats-server says it no more often, either."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._told_at = -math.inf

    def tell(self, storage: str) -> None:
        """Of "file" or "memory"."""
        now = time.monotonic()
        if now - self._told_at > limits.STORAGE_REPORT_SECONDS:
            self._told_at = now
            self._log.error(f"JetStream {storage} resource limits exceeded for server")


class JetStreamServer:
    """Opens the store and recovers every account's streams."""

    def __init__(
        self, options: Options, tick: Tick, accounts: dict[str, Account], facts: dict[str, str], log: Logger
    ) -> None:
        self.options = options
        self.tick = tick
        self.accounts = accounts
        self.info = ServerInfo(**facts)
        self.reservations = ServerReservations()
        self._requests = RequestQueues(*options.jetstream.queue_limits)
        self._turns = WorkTurns(tick)
        self.log = log
        self.store: Store | None = None
        self.by_account: dict[str, JetStream] = {}
        self.ended_requests = self.ended_errors = 0  # of accounts that have no JetStream any more
        self._apis: dict[str, Api | SystemApi | PreviewApi] = {}
        self._waiting: list[_WaitingAccount] = []
        self._is_ready = False
        self._stopped = False
        self._one_at_a_time = asyncio.Lock()  # while an account's JetStream ends nothing may open its logs again
        self._late_start: asyncio.Task[None] | None = None
        self._links = Bursts(tick.loop, self._follow_links)
        self.watchdog = Watchdog(tick, self._consumers, self._tell_breach)
        self.shipping: BackgroundShipping | None = None

    async def start(self, find_accounts: Callable[[list[str]], None] | None = None) -> None:
        """Open, recover, subscribe. `find_accounts` is given the names of all accounts that have something stored.

        Raises StorageError when the store cannot be used.
        """
        self.store = Store.open(
            self.options.store_path,
            self.tick,
            sync=self.options.jetstream.sync_interval,
            domain=self.options.jetstream.domain,
            log=self.log,
        )
        self.reservations = self._reservations()
        self._log_settings(self.reservations)
        stored = set(self.store.accounts())
        if find_accounts is not None:
            find_accounts(sorted(stored))
        for account in filter(has_own_api, self.accounts.values()):
            if account.name in stored:
                await self._start_account(account, self.store)
            else:
                self._wait_for(account)

    def _wait_for(self, account: Account) -> None:
        self._map_domain(account)
        self._waiting.append(_WaitingAccount(account, self.tick))

    def _map_domain(self, account: Account) -> None:
        """By the server's domain; an account without JetStream may mean another one. The system account has none."""
        if not account.is_system:
            default = "" if is_enabled(account) else self.options.leafnodes.default_js_domain.get(account.name, "")
            account.router.domain = domain_mappings(self.options.jetstream.domain, default)

    def start_waiting(self) -> None:
        """Load what the first requests need, and begin with the accounts that have no streams yet.

        Called when the server is ready.
        """
        self._is_ready = True
        self.watchdog.start()
        self._prepare_shipping()
        if self.store is not None and (self._late_start is None or self._late_start.done()):
            self._late_start = self.tick.loop.create_task(self._start_waiting(self.store))

    def follow_new(self) -> None:
        """There may be new accounts: what they ask for waits until their JetStream is there."""
        if not self._is_ready or self._stopped:
            return
        known = {*self.by_account, *(waiting.account.name for waiting in self._waiting)}
        for account in filter(has_own_api, self.accounts.values()):
            if account.name not in known:
                self._wait_for(account)
        self.start_waiting()

    def links_changed(self) -> None:
        """A leafnode connection came or went, or what is reached over it: mirrors and sources may reach their origins.

        Those of other accounts may reach theirs through an import.
        """
        self._links.happened()

    def _follow_links(self) -> None:
        for jetstream in self.by_account.values():
            jetstream.links_changed()

    def _consumers(self) -> Iterator[Any]:
        for jetstream in self.by_account.values():
            for stream in jetstream.streams.values():
                yield from stream.consumers.values()

    def _tell_breach(self, state: dict[str, Any]) -> None:
        who = f"{state['account']} > {state['stream_name']} > {state['name']}"
        self.log.error(f"Consumer '{who}' had messages and demand, and has delivered nothing for a second: {state}")

    async def stop(self) -> None:
        """Stop every stream, then sync and close the store."""
        self.log.info("Initiating JetStream Shutdown...")
        self._stopped = True
        self._links.stop()
        self.watchdog.stop()
        if self._late_start is not None:
            await self._late_start
        async with self._one_at_a_time:
            for name, jetstream in self.by_account.items():
                await self._apis[name].stop()
                jetstream.stop()
            if self.store is not None:
                await self.store.close()
        if self.shipping is not None:
            await self.shipping.follow(None)
        self.log.info("JetStream Shutdown")

    async def reload(self) -> None:
        """Follow the accounts after a reload: limits hold from now on, JetStream comes and goes with its option.

        Streams of an account that has no JetStream any more stay on disk; those in memory are gone. Raises
        StorageError.
        """
        if self.store is None:
            return
        if self._late_start is not None:
            await self._late_start
        async with self._one_at_a_time:
            if not self._stopped:
                await self._follow_accounts(self.store)
        await self._follow_shipping()

    async def _follow_accounts(self, store: Store) -> None:
        self._follow_limits()
        for name, jetstream in list(self.by_account.items()):
            account = self.accounts.get(name)
            if account is None or is_enabled(account) != jetstream.enabled or not has_own_api(account):
                await self._end_account(name, store)
            elif account.jetstream_options is not None:
                jetstream.follow(account.jetstream_options)
        for account in filter(has_own_api, self.accounts.values()):
            if account.name not in self.by_account:
                await self._start_account(account, store)

    def _follow_limits(self) -> None:
        """Those of the server may have changed."""
        self.reservations.max_payload = self.options.max_payload
        self.reservations.max_pending = self.options.max_pending
        wanted = self.options.jetstream
        if wanted.max_memory_store > 0:
            self.reservations.max_memory = wanted.max_memory_store
        if wanted.max_file_store > 0:
            self.reservations.max_storage = wanted.max_file_store

    async def purge(self, name: str) -> None:
        """Remove all streams of an account, also of one that has no JetStream any more. Raises ApiError."""
        from jetbroker.jetstream.models.errors import api_error

        jetstream = self.by_account.get(name)
        found = 0 if jetstream is None else len(jetstream.streams) + len(jetstream.offline)
        known = str(name in self.accounts).lower()
        self.log.info(f"Purge request for account {name} (streams: {found}, hasAccount: {known})")
        try:
            if jetstream is not None and jetstream.enabled:  # never the system account, whose turn this is
                await jetstream.requests.change(jetstream.purge)
            elif self.store is not None:
                await self.store.remove_account(name)
        except StorageError as error:
            raise api_error("stream_general_error", err=str(error)) from error

    async def _end_account(self, name: str, store: Store) -> None:
        jetstream = self.by_account.pop(name)
        self.ended_requests += jetstream.requests.total
        self.ended_errors += jetstream.requests.errors
        await self._apis.pop(name).stop()
        jetstream.stop()
        jetstream.host.router.jetstream = jetstream.host.router.domain = None
        await store.close_account(name)

    async def _start_account(self, account: Account, store: Store) -> None:
        from jetbroker.jetstream.account import JetStream
        from jetbroker.jetstream.host.advisories import Advisories
        from jetbroker.jetstream.host.host import Host

        system = next((one.router for one in self.accounts.values() if one.is_system), None)
        advisories = Advisories(account.router, self.info.domain, system)
        jetstream = JetStream(
            Host(account.router, self._turns, self.info, self.log, advisories),
            store,
            account.jetstream_options,
            strict=self.options.jetstream.strict,
            server=self.reservations,
            queues=self._requests,
        )
        self.by_account[account.name] = jetstream
        self._apis[account.name] = self._api_of(account, jetstream)
        account.router.jetstream = jetstream
        self._map_domain(account)
        jetstream.start()
        self._apis[account.name].start()

    def _api_of(self, account: Account, jetstream: "JetStream") -> "Api | SystemApi | PreviewApi":
        from jetbroker.jetstream.api.dispatch import Api
        from jetbroker.jetstream.api.system import SystemApi

        def has_links() -> bool:
            return account.links > 0

        if account.is_system:
            return SystemApi(jetstream, has_links, self.purge)
        if not self.options.jetstream.tech_preview_api:
            return Api(jetstream, has_links)
        from jetbroker.jetstream.api.preview import PreviewApi

        return PreviewApi(jetstream, has_links)

    async def _start_waiting(self, store: Store) -> None:
        await asyncio.to_thread(load_engine)  # the sockets have their turns meanwhile
        async with self._one_at_a_time:
            while self._waiting:
                waiting = self._waiting[0]
                if waiting.account.name not in self.by_account:  # a reload may have been first
                    await self._start_account(waiting.account, store)
                self._waiting.remove(waiting)
                waiting.release()
        await self._follow_shipping()

    async def _follow_shipping(self) -> None:
        """The store is copied elsewhere, as the options want it now."""
        if self._stopped:
            return
        wanted = self.options.jetstream.ship
        self._prepare_shipping()
        if self.shipping is not None:
            await self.shipping.follow(None if wanted is None else _shipping_task(self.options.store_path, wanted))

    def _prepare_shipping(self) -> None:
        """Monitoring tells of it from the start."""
        if self.shipping is None and self.options.jetstream.ship is not None:
            from jetbroker.store.shipping.background import BackgroundShipping  # most brokers do without

            self.shipping = BackgroundShipping(self.tick.loop, self.log)

    def _reservations(self) -> ServerReservations:
        memory, storage = self.options.jetstream.max_memory_store, self.options.jetstream.max_file_store
        if memory < 0:
            memory = int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * DEFAULT_SHARE)
        if storage < 0:
            disk = os.statvfs(self.options.store_path)  # what shutil gives, without its imports
            storage = int(disk.f_bavail * disk.f_frsize * DEFAULT_SHARE)
        configured = self.options.jetstream.limits
        reservations = ServerReservations(
            memory, storage, max_payload=self.options.max_payload, max_pending=self.options.max_pending
        )
        reservations.tell_exceeded = Exceeded(self.log).tell
        reservations.limits = ServerLimits(
            max_request_batch=max(configured.max_request_batch, 0),
            max_ack_pending=max(configured.max_ack_pending, 0),
            duplicate_window=max(round(configured.duplicate_window * SECOND), 0),
        )
        reservations.batches = self._batch_limits(reservations.batches)
        reservations.fast_batches = self._batch_limits(reservations.fast_batches)
        return reservations

    def _batch_limits(self, usual: BatchLimits) -> BatchLimits:
        """As configured, else the usual ones."""
        wanted = self.options.jetstream.limits.batches
        return BatchLimits(
            messages=wanted.max_msgs if wanted.max_msgs > 0 else usual.messages,
            per_stream=wanted.max_inflight_per_stream if wanted.max_inflight_per_stream > 0 else usual.per_stream,
            total=wanted.max_inflight_total if wanted.max_inflight_total > 0 else usual.total,
            idle_seconds=wanted.timeout if wanted.timeout > 0 else usual.idle_seconds,
        )

    def _log_settings(self, server: ServerReservations) -> None:
        wanted = self.options.jetstream
        interval = wanted.sync_interval
        if not wanted.store_dir:
            self.log.warn("Temporary storage directory used, data could be lost on system reboot")
        if wanted.max_memory_store <= 0 or wanted.max_file_store <= 0:
            bounds = f"{friendly_bytes(server.max_memory)} memory, {friendly_bytes(server.max_storage)} disk"
            self.log.debug(f"JetStream creating dynamic configuration - {bounds}")
        self.log.info("---------------- JETSTREAM ----------------")
        if wanted.strict:
            self.log.info("  Strict:          true")
        self.log.info(f"  Max Memory:      {friendly_bytes(server.max_memory)}")
        self.log.info(f"  Max Storage:     {friendly_bytes(server.max_storage)}")
        self.log.info(f'  Store Directory: "{os.path.abspath(self.options.store_path)}"')
        self.log.info(f"  Sync Interval:   {'always' if interval is None else f'{interval:g}s'}")
        if wanted.domain:
            self.log.info(f"  Domain:          {wanted.domain}")
        self.log.info(f"  API Level:       {API_LEVEL}")
        self.log.info("-------------------------------------------")
        self.log.debug("  Exports:")
        self.log.debug("     $JS.API.>")
        if self._shares_system_account():
            self.log.info("Standalone server started in clustered mode do not support extending domains")

    def _shares_system_account(self) -> bool:
        """Does the first link of the system account carry what the servers of a cluster would tell each other?"""
        system = self.options.system_account or SYSTEM_ACCOUNT
        shared = (remote for remote in self.options.leafnodes.remotes if remote.account == system)
        first = next(shared, None)
        return first is not None and not any(denied.startswith("$NRG.") for denied in first.deny_imports)


def _shipping_task(store: str, wanted: ShipOptions) -> "Task":
    from jetbroker.store.shipping.task import Task

    return Task(
        store=os.path.abspath(store),
        url=wanted.url,
        interval=wanted.interval,
        rate=wanted.rate if wanted.rate > 0 else None,
        unsealed=wanted.unsealed,
        check=wanted.check,
        keep_dropped=wanted.keep_dropped,
    )


def is_enabled(account: Account) -> bool:
    """Does the account have a JetStream by its options?"""
    return account.jetstream_options is not None and account.jetstream_options.enabled


def has_own_api(account: Account) -> bool:
    """False for an account without JetStream that imports `$JS.API.INFO` of another one: that one answers then."""
    return is_enabled(account) or not account.takes_service(b"$JS.API.INFO")


class _WaitingAccount:
    """Holds an account's API requests until its JetStream is there."""

    def __init__(self, account: Account, tick: Tick) -> None:
        self.account = account
        self._requests: list[tuple[bytes, bytes | None, bytes, bytes, Origin | None]] = []
        receiver = CallbackReceiver(tick, lambda *request: self._requests.append(request))
        self._subscription: Subscription = account.router.subscribe(receiver, b"$JS.API.>")

    def release(self) -> None:
        """Hand the requests on; 503 to those nobody answers (pulls and direct gets of what there is not).

        Only to the broker's own receivers: clients that listen and links had them when they came.
        """
        router = self.account.router
        router.unsubscribe(self._subscription)
        for subject, reply, headers, payload, origin in self._requests:
            own = Router(router.account_name, router.tick)
            told = False
            for subscription in router.matching(subject):
                if subscription.sid or isinstance(subscription.receiver, LinkReceiver):
                    told = True
                else:
                    own.subscribe(subscription.receiver, subject)
            if not own.publish_for(origin, subject, reply, headers, payload) and not told and reply:
                router.publish_bytes(reply, None, _NO_RESPONDERS % subject, b"")


def load_engine() -> None:
    """What a start does without until it finds streams, or is asked for one."""
    for module in ENGINE:
        importlib.import_module(f"jetbroker.jetstream.{module}")
