"""`accounts {}`: users, limits, mappings, and what the accounts give each other."""

from jetbroker.config import keys, values
from jetbroker.config.exchange import read_exports, read_imports
from jetbroker.config.jetstream import read_account_jetstream
from jetbroker.config.mappings import read_mappings
from jetbroker.config.msg_trace import read_msg_trace
from jetbroker.config.options import GLOBAL_ACCOUNT, AccountLimits, AccountOptions
from jetbroker.config.options import PermissionsOptions as Permissions
from jetbroker.config.parser import Node, Place
from jetbroker.config.report import Report
from jetbroker.config.users import Users, apply_default
from jetbroker.forms.gotext import quoted


class Accounts:
    """Reads the block into `options`, accounts by name."""

    def __init__(self, report: Report, users: Users, options: dict[str, AccountOptions]) -> None:
        self.report = report
        self.users = users
        self.options = options
        self.place: Place | None = None

    def read(self, key: str, node: Node) -> None:
        """`accounts { NAME {...} }`, or a list of names. Anything else means nothing, as in nats-server."""
        self.place = node.place
        if isinstance(node.value, list):
            for entry in node.value:
                name = self.report.read(key, entry, values.string)
                if name in self.options:
                    self.report.fail(entry.place, f"Duplicate Account Entry: {name}")
                elif name is not None and not self._reserved(name, entry):
                    self._add(name, entry)
        elif isinstance(node.value, dict):
            for name, entry in node.value.items():
                if not isinstance(entry.value, dict):
                    if not entry.used:
                        self.report.fail(entry.place, "Expected map entries for accounts")
                elif not self._reserved(name, entry):
                    self._account(name, entry, entry.value)

    def check_names(self) -> None:
        """Once all accounts are known: those that exports and imports name must be among them."""
        if self.place is None:
            return
        for account in self.options.values():
            for export in account.exports:
                for name in export.accounts or ():
                    self._check_name(name, f"{export.kind} export")
            for entry in account.imports:
                self._check_name(entry.account, f"{entry.kind} import")

    def _check_name(self, name: str, what: str) -> None:
        if self.place is not None and name not in self.options:
            self.report.fail(self.place, f"{quoted(name)} account not defined for {what}")

    def _reserved(self, name: str, node: Node) -> bool:
        if name == GLOBAL_ACCOUNT:
            self.report.fail(node.place, f"{quoted(name)} is a Reserved Account")
        return name == GLOBAL_ACCOUNT

    def _add(self, name: str, node: Node) -> AccountOptions:
        if not values.is_utf8(name):
            self.report.fail(node.place, "the name of the account is not valid UTF-8")
            name = ""
        account = self.options[name] = AccountOptions(name=name)
        return account

    def _account(self, name: str, node: Node, tree: dict[str, Node]) -> None:
        account = self._add(name, node)
        default: Permissions | None = None

        def users(key: str, entry: Node) -> None:
            account.users = self.users.read_list(entry, entry.place)

        def permissions(key: str, entry: Node) -> None:
            nonlocal default
            default = self.users.permissions(entry)

        def jetstream(key: str, entry: Node) -> None:
            account.jetstream = read_account_jetstream(self.report, entry)

        def mappings(key: str, entry: Node) -> None:
            account.mappings = read_mappings(self.report, entry)

        def exports(key: str, entry: Node) -> None:
            account.exports = read_exports(self.report, entry)

        def imports(key: str, entry: Node) -> None:
            account.imports = read_imports(self.report, entry)

        def limits(key: str, entry: Node) -> None:
            account.limits = self._limits(entry)

        def traces(key: str, entry: Node) -> None:
            account.traces = read_msg_trace(self.report, key, entry)

        blocks = {
            "users": users,
            "default_permissions": permissions,
            "jetstream": jetstream,
            "mappings": mappings,
            "maps": mappings,
            "exports": exports,
            "imports": imports,
            "limits": limits,
            "msg_trace": traces,
            "trace_dest": traces,
        }
        self.report.fill(account, tree, keys.ACCOUNT, blocks)
        apply_default(account.users, default)

    def _limits(self, node: Node) -> AccountLimits:
        limits = AccountLimits()
        tree = self.report.map(node, "Expected account limits to be a map/struct, got {}") or {}
        unknown = "Unknown field {} parsing account limits"
        self.report.fill(limits, tree, keys.ACCOUNT_LIMITS, {}, unknown=unknown)
        return limits
