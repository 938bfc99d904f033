"""From the tree of a configuration file to :class:`~jetbroker.config.options.Options`.

The plain keys are rows of the tables in :mod:`jetbroker.config.keys`; the few blocks of a shape of their own are
methods here. What nats-server knows and this broker does not do is refused by name, never silently ignored. All
errors of a file are told at once, one per line, each with its place.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from jetbroker.config import keys, values
from jetbroker.config.options import (
    GLOBAL_ACCOUNT,
    AccountJetStreamOptions,
    AccountOptions,
    Options,
    UserOptions,
)
from jetbroker.config.parser import Node, Place, Plain, parse_file, parse_text, plain
from jetbroker.config.start import Loaded
from jetbroker.errors import ConfigError

_NO_KEYS: frozenset[str] = frozenset()
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # a byte that is no UTF-8
_LINE_END = "\n"
_HIGH_TIMEOUT_SECONDS = 60.0


class ConfigErrors(ConfigError):
    """Everything that is wrong with a configuration, one line each."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("".join(f"{line}\n" for line in lines))
        self.lines = lines


def load_file(path: str, env: Mapping[str, str] | None = None) -> Loaded:
    """Read a configuration file. `env` is what its variables fall back to, the process environment if None."""
    return load_tree(parse_file(path, env), path)


def load_text(text: str, file: str = "", env: Mapping[str, str] | None = None) -> Loaded:
    """Read a configuration from a string; `file` is the name used in errors."""
    return load_tree(parse_text(text, file, env), file)


def load_tree(tree: dict[str, Node], file: str) -> Loaded:
    """Read a parsed configuration; raises :class:`ConfigErrors`."""
    loader = _Loader()
    loader.top(tree)
    notices = [*loader.notices]
    if not tree:
        notices.append(f"{file}: config has no values or is empty")
    if loader.errors:
        raise ConfigErrors([*loader.notices, *loader.errors])
    loader.options.config_file = file
    loader.options.config_digest = digest(tree)
    return Loaded(loader.options, notices)


def digest(tree: dict[str, Node]) -> str:
    """`sha256:<hex>` of what a configuration says, the same as nats-server's: equal for equal values, whatever the
    order, the comments and the way of writing them."""
    text = _LONE_SURROGATE.sub("\\\\ufffd", _go_json(plain(tree)))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return f"sha256:{hashlib.sha256((text + _LINE_END).encode()).hexdigest()}"


def _go_json(value: Plain) -> str:
    """JSON as Go writes it; Python differs in floats and in the order of keys outside of ASCII."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_go_json(key)}:{_go_json(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_go_json, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return f'"{value:%Y-%m-%dT%H:%M:%SZ}"'
    if isinstance(value, float):
        return _go_float(value)
    if isinstance(value, int):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def _go_float(value: float) -> str:
    """The shortest text of a float; with an exponent only below 1e-6 and from 1e21."""
    from decimal import Decimal  # only configurations with floats need it

    size = abs(value)
    if size and (size < 1e-6 or size >= 1e21):
        return repr(value).replace("e-0", "e-")
    text = f"{Decimal(repr(value)):f}"
    return text.removesuffix(".0")


class _Loader:
    """Walks one tree, filling the options and collecting what is wrong."""

    def __init__(self) -> None:
        self.options = Options()
        self.errors: list[str] = []
        self.notices: list[str] = []
        self.users: set[str] = set()
        self.has_store_dir = False
        self.auth_place: Place | None = None

    # --- what all blocks share ---

    def fail(self, place: Place, what: str | Exception) -> None:
        self.errors.append(f"{place}: {what}")

    def read(self, key: str, node: Node, reader: keys.Reader) -> Any:
        """The value of a key, None when it is wrong (that is noted)."""
        try:
            return reader(key, node.value)
        except values.DurationWanted as notice:
            self.notices.append(f"{node.place}: {notice}")
            try:
                return float(values.integer(key, node.value))
            except ConfigError as error:
                self.fail(node.place, error)
        except ConfigError as error:
            self.fail(node.place, error)
        return None

    def fill(
        self,
        target: object,
        tree: dict[str, Node],
        table: keys.Table,
        blocks: Mapping[str, Callable[[str, Node], None]],
        unsupported: frozenset[str] = _NO_KEYS,
    ) -> None:
        """Set the options of `target` from a map: rows of `table`, methods for the others, errors for the rest."""
        for name, node in tree.items():
            key = name.lower()
            if key in table:
                field, reader = table[key]
                value = self.read(key, node, reader)
                if value is not None:
                    setattr(target, field, value)
            elif key in blocks:
                blocks[key](key, node)
            elif key in unsupported:
                if node.value is not False:
                    self.fail(node.place, f'"{name}" not supported yet')
            elif not node.used:
                self.fail(node.place, f'unknown field "{_escaped(name)}"')

    # --- blocks ---

    def top(self, tree: dict[str, Node]) -> None:
        blocks = {
            "listen": self.listen,
            "http": self.http,
            "authorization": self.authorization,
            "accounts": self.accounts,
            "jetstream": self.jetstream,
            "store_dir": self.store_dir,
            "storedir": self.store_dir,
        }
        # The store directory of the top level comes first, so that a second one is the error.
        ordered = dict(sorted(tree.items(), key=lambda item: item[0].lower() not in keys.STORE_DIR))
        self.fill(self.options, ordered, keys.TOP, blocks, keys.TOP_UNSUPPORTED)
        options = self.options.authorization
        if self.users and self.auth_place is not None:
            if options.user or options.password:
                self.fail(self.auth_place, "Can not have a single user/pass and a users array")
            if options.token:
                self.fail(self.auth_place, "Can not have a token and a users array")

    def listen(self, key: str, node: Node) -> None:
        try:
            host, self.options.port = values.address(node.value)
        except ConfigError as error:
            self.fail(node.place, error)
            return
        if host is not None:
            self.options.host = host

    def http(self, key: str, node: Node) -> None:
        try:
            host, self.options.http_port = values.address(node.value)
        except ConfigError as error:
            self.fail(node.place, error)
            return
        if host is not None:
            self.options.http_host = host

    def store_dir(self, key: str, node: Node) -> None:
        if self.has_store_dir:
            self.fail(node.place, "Duplicate 'store_dir' configuration")
            return
        value = self.read(key, node, values.string)
        if value is not None:
            self.options.jetstream.store_dir = value
            self.has_store_dir = True

    def jetstream(self, key: str, node: Node) -> None:
        options = self.options.jetstream
        if not isinstance(node.value, dict):
            try:
                options.enabled = values.switch(node.value)
            except ConfigError as error:
                self.fail(node.place, error)
            return
        options.enabled = True
        blocks: dict[str, Callable[[str, Node], None]] = dict.fromkeys(keys.STORE_DIR, self.store_dir)
        blocks.update(dict.fromkeys(("sync", "sync_interval"), self.sync_interval))
        self.fill(options, node.value, keys.JETSTREAM, blocks, keys.JETSTREAM_UNSUPPORTED)

    def sync_interval(self, key: str, node: Node) -> None:
        # Not a row of the table: None is a value here.
        before = len(self.errors)
        seconds = self.read("sync_interval", node, values.sync_interval)
        if len(self.errors) == before:
            self.options.jetstream.sync_interval = seconds

    def authorization(self, key: str, node: Node) -> None:
        options = self.options.authorization
        if not isinstance(node.value, dict):
            self.fail(node.place, values.wrong_type(node.value, "map[string]interface {}"))
            return

        def users(key: str, entry: Node) -> None:
            options.users = self.user_list(entry, node.place)

        blocks = {"users": users, "timeout": self.auth_timeout}
        self.fill(options, node.value, keys.AUTHORIZATION, blocks, keys.AUTHORIZATION_UNSUPPORTED)
        if options.token and (options.user or options.password):
            self.fail(node.place, "Cannot have a user/pass and token")
        self.auth_place = node.place

    def auth_timeout(self, key: str, node: Node) -> None:
        try:
            seconds = values.auth_timeout(node.value)
        except ConfigError as error:
            self.fail(node.place, error)
            return
        if seconds > _HIGH_TIMEOUT_SECONDS:
            self.notices.append(
                f'{node.place}: invalid use of field "timeout": timeout of {values.shown(node.value)} '
                f"({seconds:f} seconds) is high, consider keeping it under 60 seconds. possibly caused by unquoted "
                "duration; use '1m' instead of 1m, for example"
            )
        self.options.authorization.timeout = seconds

    def user_list(self, node: Node, duplicates: Place) -> list[UserOptions]:
        """The users of a list; a name that came before, in whichever list, is told at `duplicates`."""
        if not isinstance(node.value, list):
            self.fail(node.place, f"Expected users field to be an array, got {values.shown(node.value)}")
            return []
        users = []
        for entry in node.value:
            if not isinstance(entry.value, dict):
                what = values.shown(entry.value)
                self.fail(entry.place, f"Expected user entry to be a map/struct, got {what}")
                continue
            user = UserOptions()
            before = len(self.errors)
            self.fill(user, entry.value, keys.USER, {}, keys.USER_UNSUPPORTED)
            if len(self.errors) > before:
                continue
            if not user.user:
                self.fail(entry.place, "User entry requires a user")
            elif user.user in self.users:
                self.fail(duplicates, f'Duplicate user "{user.user}" detected')
            else:
                self.users.add(user.user)
                users.append(user)
        return users

    def accounts(self, key: str, node: Node) -> None:
        """`accounts { NAME {...} }`, or a list of names. Anything else means nothing, as in nats-server."""
        if isinstance(node.value, list):
            for entry in node.value:
                name = self.read(key, entry, values.string)
                if name in self.options.accounts:
                    self.fail(entry.place, f"Duplicate Account Entry: {name}")
                elif name is not None:
                    self.add_account(name, entry)
        elif isinstance(node.value, dict):
            for name, entry in node.value.items():
                if not isinstance(entry.value, dict):
                    if not entry.used:
                        self.fail(entry.place, "Expected map entries for accounts")
                else:
                    self.account(name, entry, entry.value)

    def add_account(self, name: str, node: Node) -> AccountOptions:
        if not values.is_utf8(name):
            self.fail(node.place, "the name of the account is not valid UTF-8")
            name = ""
        if name == GLOBAL_ACCOUNT:
            self.fail(node.place, f'"{name}" is a Reserved Account')
        account = self.options.accounts[name] = AccountOptions(name=name)
        return account

    def account(self, name: str, node: Node, tree: dict[str, Node]) -> None:
        account = self.add_account(name, node)

        def users(key: str, entry: Node) -> None:
            account.users = self.user_list(entry, entry.place)

        def jetstream(key: str, entry: Node) -> None:
            account.jetstream = self.account_jetstream(entry)

        self.fill(account, tree, {}, {"users": users, "jetstream": jetstream}, keys.ACCOUNT_UNSUPPORTED)

    def account_jetstream(self, node: Node) -> AccountJetStreamOptions | None:
        if isinstance(node.value, dict):
            limits = AccountJetStreamOptions()
            self.fill(limits, node.value, keys.ACCOUNT_JETSTREAM, {}, keys.ACCOUNT_JETSTREAM_UNSUPPORTED)
            return limits
        try:
            return AccountJetStreamOptions() if values.switch(node.value) else None
        except ConfigError as error:
            self.fail(node.place, error)
            return None


def _escaped(name: str) -> str:
    """A key inside of double quotes, its own quotes and backslashes escaped."""
    return name.replace("\\", "\\\\").replace('"', '\\"')
