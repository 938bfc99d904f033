"""JetStream of the whole server: one store, and a JetStream for each account."""

import os

from jetbroker.accounts.account import Account
from jetbroker.config.options import Options
from jetbroker.jetstream.account import JetStream, ServerInfo
from jetbroker.jetstream.contracts import ServerReservations
from jetbroker.logs import Logger
from jetbroker.store.store import Store
from jetbroker.tick import Tick

API_LEVEL = 4  # of nats-server 2.14
DEFAULT_SHARE = 0.75  # of the machine's memory and of the free disk, as nats-server takes


class JetStreamServer:
    """Opens the store and recovers every account's streams."""

    def __init__(
        self, options: Options, tick: Tick, accounts: dict[str, Account], facts: dict[str, str], log: Logger
    ) -> None:
        self.options = options
        self.tick = tick
        self.accounts = accounts
        self.info = ServerInfo(**facts)
        self.log = log
        self.store: Store | None = None
        self.by_account: dict[str, JetStream] = {}

    async def start(self) -> None:
        """Open, recover, subscribe. Raises StorageError when the store cannot be used."""
        options = self.options.jetstream
        self.store = Store.open(self.options.store_path, self.tick, sync=options.sync_interval)
        server = self._reservations()
        self._log_settings(server)
        for account in self.accounts.values():
            jetstream = JetStream(
                account.router,
                account.name,
                self.store,
                self.tick,
                account.jetstream_options,
                self.info,
                self.log,
                strict=options.strict,
                server=server,
            )
            self.by_account[account.name] = jetstream
            account.router.jetstream = jetstream
            await jetstream.start()

    async def stop(self) -> None:
        """Stop every stream, then sync and close the store."""
        self.log.info("Initiating JetStream Shutdown...")
        for jetstream in self.by_account.values():
            await jetstream.stop()
        if self.store is not None:
            await self.store.close()
        self.log.info("JetStream Shutdown")

    def _reservations(self) -> ServerReservations:
        memory, storage = self.options.jetstream.max_memory_store, self.options.jetstream.max_file_store
        if memory < 0:
            memory = int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * DEFAULT_SHARE)
        if storage < 0:
            disk = os.statvfs(self.options.store_path)  # what shutil gives, without its imports
            storage = int(disk.f_bavail * disk.f_frsize * DEFAULT_SHARE)
        return ServerReservations(max_memory=memory, max_storage=storage)

    def _log_settings(self, server: ServerReservations) -> None:
        interval = self.options.jetstream.sync_interval
        self.log.info("Starting JetStream")
        self.log.info("---------------- JETSTREAM ----------------")
        self.log.info(f"  Max Memory:      {_size(server.max_memory)}")
        self.log.info(f"  Max Storage:     {_size(server.max_storage)}")
        self.log.info(f'  Store Directory: "{os.path.abspath(self.options.store_path)}"')
        self.log.info(f"  Sync Interval:   {'always' if interval is None else f'{interval:g}s'}")
        self.log.info(f"  API Level:       {API_LEVEL}")
        if self.options.jetstream.domain:
            self.log.info(f"  Domain:          {self.options.jetstream.domain}")
        self.log.info("-------------------------------------------")


def _size(size: int) -> str:
    """Bytes as nats-server's log shows them."""
    value = float(size)
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if value < 1024 or unit == "TB":
            break
        value /= 1024
    return f"{value:.2f} {unit}"
