"""JetStream of the whole server: one store, and a JetStream for each account that has it."""

import os
from typing import TYPE_CHECKING

from jetbroker.accounts.account import Account
from jetbroker.config.options import Options
from jetbroker.logs import Logger
from jetbroker.store.store import Store
from jetbroker.tick import Tick

if TYPE_CHECKING:
    from jetbroker.jetstream.account import JetStream


class JetStreamServer:
    """Opens the store and recovers every account's streams."""

    def __init__(
        self, options: Options, tick: Tick, accounts: dict[str, Account], facts: dict[str, str], log: Logger
    ) -> None:
        self.options = options
        self.tick = tick
        self.accounts = accounts
        self.facts = facts
        self.log = log
        self.store: Store | None = None
        self.by_account: dict[str, JetStream] = {}

    async def start(self) -> None:
        """Open, recover, subscribe. Raises StorageError when the store cannot be used."""
        from jetbroker.jetstream.account import JetStream, ServerInfo

        self.store = Store.open(self.options.store_path, self.tick, sync=self.options.jetstream.sync_interval)
        self._log_settings()
        info = ServerInfo(**self.facts)
        for account in self.accounts.values():
            if account.is_system:
                continue
            jetstream = JetStream(
                account.router, account.name, self.store, self.tick, account.jetstream_options, info, self.log
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

    def _log_settings(self) -> None:
        interval = self.options.jetstream.sync_interval
        self.log.info("Starting JetStream")
        self.log.info("---------------- JETSTREAM ----------------")
        self.log.info(f'  Store Directory: "{os.path.abspath(self.options.store_path)}"')
        self.log.info(f"  Sync Interval:   {'always' if interval is None else f'{interval:g}s'}")
        if self.options.jetstream.domain:
            self.log.info(f"  Domain:          {self.options.jetstream.domain}")
        self.log.info("-------------------------------------------")
