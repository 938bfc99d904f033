"""From the tree of a configuration file to :class:`~jetbroker.config.options.Options`.

The plain keys are rows of the tables in :mod:`jetbroker.config.keys`; each block of a shape of its own has a module.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from jetbroker.config import keys, values
from jetbroker.config.digest import digest
from jetbroker.config.jetstream import JetStreamBlock
from jetbroker.config.options import Loaded, Options
from jetbroker.config.parser import MissingVariables, Node, Place, parse_file, parse_text
from jetbroker.config.report import ConfigErrors, Report
from jetbroker.config.users import Users
from jetbroker.errors import ConfigError
from jetbroker.program import NATS_SERVER, program_name

if TYPE_CHECKING:
    from jetbroker.config.operator import OperatorKeys


def load_file(path: str, env: Mapping[str, str] | None = None) -> Loaded:
    """Read a configuration file. `env` is what its variables fall back to, the process environment if None."""
    try:
        return load_tree(parse_file(path, env), path)
    except MissingVariables as missing:
        raise _with_the_rest(missing, path) from None


def load_text(text: str, file: str = "", env: Mapping[str, str] | None = None) -> Loaded:
    """Read a configuration from a string; `file` is the name used in errors."""
    try:
        return load_tree(parse_text(text, file, env), file)
    except MissingVariables as missing:
        raise _with_the_rest(missing, file) from None


def _with_the_rest(missing: MissingVariables, file: str) -> ConfigError:
    """Also what else is wrong; nats-server reads no further, and under its name neither do we."""
    lines, hints = list(missing.lines), list[str]()
    try:
        load_tree(missing.tree, file)
    except ConfigErrors as error:
        lines += error.lines
        hints += error.hints
    is_all = len(lines) == 1 or program_name() == NATS_SERVER
    return missing if is_all else ConfigErrors(lines, hints)


def load_tree(tree: dict[str, Node], file: str) -> Loaded:
    """Read a parsed configuration; raises :class:`~jetbroker.config.report.ConfigErrors`."""
    report = Report()
    top = _Top(report)
    top.read(tree)
    notices = [*report.notices]
    if not tree:
        notices.append(f"{file}: config has no values or is empty")
    if report.errors:
        raise ConfigErrors([*report.notices, *report.errors], report.hints)
    top.options.config_file = file
    top.options.config_digest = digest(tree)
    return Loaded(top.options, notices, is_empty=not tree)


class _Top:
    """The top level. The modules of larger blocks are imported where one stands: a start is quicker without them."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.options = Options()
        self.users = Users(report)
        self.jetstream = JetStreamBlock(report, self.options.jetstream)
        self.auth_place: Place | None = None
        self.operator_keys: OperatorKeys | None = None
        self.finish: list[Callable[[], None]] = []  # what needs all of the file

    def read(self, tree: dict[str, Node]) -> None:
        blocks = {
            "listen": self._listen,
            "http": self._http,
            "https": self._https,
            **dict.fromkeys(keys.MONITORING, self._monitoring),
            "trace_verbose": self._trace,
            "trace_headers": self._trace,
            "tls": self._tls,
            **dict.fromkeys(("websocket", "ws"), self._websocket),
            "authorization": self._authorization,
            "accounts": self._accounts,
            **dict.fromkeys(("mappings", "maps"), self._mappings),
            **dict.fromkeys(keys.OPERATOR_MODE, self._operator_mode),
            "default_sentinel": self._default_sentinel,
            "jetstream": self.jetstream.read,
            "store_dir": self.jetstream.store_dir,
            "storedir": self.jetstream.store_dir,
            "leafnodes": self._leafnodes,
            "leaf": self._leafnodes,
            "default_js_domain": self._leafnodes,
        }
        # The store directory of the top level comes first, so that a second one is the error.
        ordered = dict(sorted(tree.items(), key=lambda item: item[0].lower() not in keys.STORE_DIR))
        self.report.fill(self.options, ordered, keys.TOP, blocks, keys.TOP_UNSUPPORTED)
        options = self.options.authorization
        if (self.users.seen or self.users.listed) and self.auth_place is not None:
            if options.user:
                self.report.fail(self.auth_place, "Can not have a single user/pass and a users array")
            if options.token:
                self.report.fail(self.auth_place, "Can not have a token and a users array")
        if not self.report.errors:
            for check in self.finish:
                check()

    def _address(self, node: Node) -> tuple[str | None, int] | None:
        try:
            return values.address(node.value)
        except ConfigError as error:
            self.report.fail(node.place, error)
            return None

    def _listen(self, key: str, node: Node) -> None:
        if (address := self._address(node)) is not None:
            host, self.options.port = address
            if host is not None:
                self.options.host = host

    def _http(self, key: str, node: Node) -> None:
        if (address := self._address(node)) is not None:
            host, self.options.http_port = address
            if host is not None:
                self.options.http_host = host

    def _https(self, key: str, node: Node) -> None:
        if (address := self._address(node)) is not None:
            host, self.options.https_port = address
            if host is not None:
                self.options.https_host = host

    def _monitoring(self, key: str, node: Node) -> None:
        self.report.fill(self.options.monitoring, {key: node}, keys.MONITORING, {})

    def _trace(self, key: str, node: Node) -> None:
        wanted = self.report.read(key, node, values.boolean)
        if wanted is not None:
            setattr(self.options, key, wanted)
        if wanted:
            self.finish.append(self._trace_on)  # whatever `trace` says, before or behind

    def _trace_on(self) -> None:
        self.options.trace = True

    def _tls(self, key: str, node: Node) -> None:
        from jetbroker.config.certificates import check_files
        from jetbroker.config.tls import read_tls

        self.options.tls = read_tls(self.report, node)
        if self.options.tls is not None:
            check_files(self.report, node.place, self.options.tls)

    def _websocket(self, key: str, node: Node) -> None:
        from jetbroker.config.websocket import read_websocket

        read_websocket(self.report, node, self.options.websocket)

    def _leafnodes(self, key: str, node: Node) -> None:
        from jetbroker.config.leafnodes import Leafnodes

        block = Leafnodes(self.report, self.users, self.options.leafnodes)
        (block.default_domains if key == "default_js_domain" else block.read)(key, node)

    def _authorization(self, key: str, node: Node) -> None:
        self.users.authorization(node, self.options.authorization)
        self.auth_place = node.place

    def _operator_mode(self, key: str, node: Node) -> None:
        from jetbroker.config.operator import OperatorKeys

        if self.operator_keys is None:
            self.operator_keys = OperatorKeys(self.report, self.options.operator)
            self.finish.append(partial(self.operator_keys.finish, self.options))
        self.operator_keys.read(key, node)

    def _default_sentinel(self, key: str, node: Node) -> None:
        token = self.report.read(key, node, values.string)
        if token is not None:
            self.options.operator.default_sentinel = token

    def _accounts(self, key: str, node: Node) -> None:
        from jetbroker.config.accounts import Accounts

        accounts = Accounts(self.report, self.users, self.options.accounts)
        accounts.read(key, node)
        self.finish.append(accounts.check_names)

    def _mappings(self, key: str, node: Node) -> None:
        from jetbroker.config.mappings import read_mappings

        self.options.mappings = read_mappings(self.report, node)
