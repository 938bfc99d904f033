"""`jetstream {}` of the server and of an account."""

from collections.abc import Callable

from jetbroker.config import keys, values
from jetbroker.config.options import AccountJetStreamOptions, JetStreamOptions, ShipOptions
from jetbroker.config.parser import Node
from jetbroker.config.report import Report
from jetbroker.errors import ConfigError


class JetStreamBlock:
    """Reads the server's block. The store directory may stand at the top level as well, but only once in all."""

    def __init__(self, report: Report, options: JetStreamOptions) -> None:
        self.report = report
        self.options = options
        self.has_store_dir = False

    def read(self, key: str, node: Node) -> None:
        """`jetstream`: a word, a boolean, or a map."""
        options = self.options
        if not isinstance(node.value, dict):
            try:
                options.enabled = values.switch(node.value)
            except ConfigError as error:
                self.report.fail(node.place, error)
            return
        options.enabled = True
        blocks: dict[str, Callable[[str, Node], None]] = dict.fromkeys(keys.STORE_DIR, self.store_dir)
        blocks.update(dict.fromkeys(("sync", "sync_interval"), self._sync_interval))
        blocks |= {"limits": self._limits, "ship": self._ship}
        self.report.fill(options, node.value, keys.JETSTREAM, blocks, keys.JETSTREAM_UNSUPPORTED)

    def _limits(self, key: str, node: Node) -> None:
        found = self._map(node, "JetStreamLimits")
        if found is not None:
            self.report.fill(self.options.limits, found, keys.JETSTREAM_LIMITS, {"batch": self._batches})

    def _batches(self, key: str, node: Node) -> None:
        found = self._map(node, "batch limits")
        if found is not None:
            self.report.fill(self.options.limits.batches, found, keys.JETSTREAM_BATCHES, {})

    def _ship(self, key: str, node: Node) -> None:
        if node.value is False:  # as for everything that can be switched off
            self.options.ship = None
            return
        found = self._map(node, "ship")
        if found is None:
            return
        ship = self.options.ship = ShipOptions()
        before = len(self.report.errors)
        self.report.fill(ship, found, keys.JETSTREAM_SHIP, {})
        if not ship.url and len(self.report.errors) == before:
            self.report.fail(node.place, 'ship needs "url": the folder or URL that the store is copied to')

    def _map(self, node: Node, what: str) -> dict[str, Node] | None:
        if isinstance(node.value, dict):
            return node.value
        self.report.fail(node.place, f"Expected a map to define {what}, got {values.type_name(node.value)}")
        return None

    def store_dir(self, key: str, node: Node) -> None:
        """The store directory."""
        if self.has_store_dir:
            self.report.fail(node.place, "Duplicate 'store_dir' configuration")
            return
        value = self.report.read(key, node, values.string)
        if value is not None:
            self.options.store_dir = value
            self.has_store_dir = True

    def _sync_interval(self, key: str, node: Node) -> None:
        # Not a row of the table: None is a value here.
        before = len(self.report.errors)
        seconds = self.report.read(key, node, values.sync_interval)
        if len(self.report.errors) == before:
            self.options.sync_interval = seconds


def read_account_jetstream(report: Report, node: Node) -> AccountJetStreamOptions | None:
    """`jetstream` of an account; None: switched off, or wrong."""
    if isinstance(node.value, dict):
        limits = AccountJetStreamOptions()
        report.fill(limits, node.value, keys.ACCOUNT_JETSTREAM, {}, keys.ACCOUNT_JETSTREAM_UNSUPPORTED)
        return limits
    try:
        return AccountJetStreamOptions() if values.switch(node.value) else None
    except ConfigError as error:
        report.fail(node.place, error)
        return None
