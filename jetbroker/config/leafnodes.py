"""`leafnodes {}`: who may link to this broker, and the remotes it dials itself."""

import os
import re

from jetbroker import limits
from jetbroker.config import keys, nkeys, values
from jetbroker.config.certificates import check_files
from jetbroker.config.durations import format_duration, parse_duration
from jetbroker.config.options import (
    DEFAULT_HOST,
    DEFAULT_LEAF_PORT,
    GLOBAL_ACCOUNT,
    SYSTEM_ACCOUNT,
    LeafAuthorization,
    LeafCompression,
    LeafOptions,
    LeafRemote,
    LeafUrl,
    LeafUser,
    Options,
    TlsOptions,
)
from jetbroker.config.parser import Node
from jetbroker.config.report import Report
from jetbroker.config.tls import read_tls
from jetbroker.config.users import Users, read_timeout
from jetbroker.errors import ConfigError
from jetbroker.forms.gotext import quoted
from jetbroker.forms.gourl import Url, format_url, parse_url

_HIDDEN_PASSWORD = "xxxxx"
_VARIABLE = re.compile(r"\$(?:\{([^{}]*)\}|(\w+))")
_RTT_THRESHOLDS = [0.01, 0.05, 0.1]  # seconds: uncompressed below the first, then fast, better, best
_MOST_THRESHOLDS = 4
_AUTO = "s2_auto"
_MODES = {
    **dict.fromkeys(("on", "enabled", "true", "auto", _AUTO), _AUTO),
    **dict.fromkeys(("not supported", "not_supported"), "not supported"),
    **dict.fromkeys(("disabled", "off", "false"), "off"),
    "accept": "accept",
    **dict.fromkeys(("fast", "s2_fast"), "s2_fast"),
    **dict.fromkeys(("better", "s2_better"), "s2_better"),
    **dict.fromkeys(("best", "s2_best"), "s2_best"),
}


class Leafnodes:
    """Reads the block into `options`; what is wrong is in the report."""

    def __init__(self, report: Report, users: Users, options: LeafOptions) -> None:
        self.report = report
        self.users = users
        self.options = options

    def read(self, key: str, node: Node) -> None:
        """The block itself."""
        if not isinstance(node.value, dict):
            self.report.fail(node.place, f"Expected map to define a leafnode, got {values.type_name(node.value)}")
            return
        self.options.defined = True
        blocks = {
            "listen": self._listen,
            "authorization": self._authorization,
            "remotes": self._remotes,
            "tls": self._tls,
            "compression": self._compression,
        }
        self.report.fill(self.options, node.value, keys.LEAFNODES, blocks)

    def default_domains(self, key: str, node: Node) -> None:
        """`default_js_domain {}`, of the top level."""
        if not isinstance(node.value, dict):
            got = values.type_name(node.value)
            self.report.fail(node.place, f"error default_js_domain config: unsupported type {got}")
            return
        found = {name: self.report.read(name, entry, values.string) for name, entry in node.value.items()}
        self.options.default_js_domain = {name: domain for name, domain in found.items() if domain is not None}

    def _listen(self, key: str, node: Node) -> None:
        try:
            host, self.options.port = values.address(node.value)
        except ConfigError as error:
            self.report.fail(node.place, error)
            return
        self.options.host = host or ""

    def _tls(self, key: str, node: Node) -> None:
        self.options.tls = self._read_tls(node)

    def _read_tls(self, node: Node) -> TlsOptions | None:
        tls = read_tls(self.report, node)
        if tls is not None:
            check_files(self.report, node.place, tls)
        return tls

    def _compression(self, key: str, node: Node) -> None:
        self.options.compression = read_compression(self.report, key, node)

    # --- who may come in ---

    def _authorization(self, key: str, node: Node) -> None:
        tree = self.report.map(node)
        if tree is None:
            return
        options = self.options.authorization = LeafAuthorization()

        def timeout(key: str, entry: Node) -> None:
            options.timeout = read_timeout(self.report, "leafnode authorization", entry)

        def users(key: str, entry: Node) -> None:
            options.users = self._users(entry)

        before = len(self.report.errors)
        self.report.fill(options, tree, keys.LEAF_AUTHORIZATION, {"timeout": timeout, "users": users})
        if len(self.report.errors) == before:
            try:
                _check_authorization(options)
            except ConfigError as error:
                self.report.fail(node.place, error)

    def _users(self, node: Node) -> list[LeafUser]:
        if not isinstance(node.value, list):
            self.report.fail(node.place, f"Expected users field to be an array, got {values.shown(node.value)}")
            return []
        users = []
        for entry in node.value:
            tree = self.report.map(entry, "Expected user entry to be a map/struct, got {}")
            if tree is not None:
                user = LeafUser()
                self.report.fill(user, tree, keys.LEAF_USER, {})
                users.append(user)
        return users

    # --- who is dialled ---

    def _remotes(self, key: str, node: Node) -> None:
        wrong = "Expected remotes field to be an array, got {}"
        names: set[str] = set()
        self.options.remotes = []
        for entry in self.report.list(node, wrong) or ():
            tree = self.report.map(entry, "Expected remote leafnode entry to be a map/struct, got {}")
            if tree is None:
                continue
            remote = self._remote(tree)
            name = remote_name(remote)
            if name in names:
                place = next(iter(tree.values()), entry).place
                self.report.fail(place, f"duplicate remote {remote_name(remote, redacted=True)}")
                continue
            names.add(name)
            self.options.remotes.append(remote)

    def _remote(self, tree: dict[str, Node]) -> LeafRemote:
        remote = LeafRemote()

        def urls(key: str, entry: Node) -> None:
            remote.urls = self._urls(entry)

        def credentials(key: str, entry: Node) -> None:
            path = self.report.read(key, entry, values.string)
            if path is not None:
                self._set_credentials(remote, entry, path)

        def nkey(key: str, entry: Node) -> None:
            seed = self.report.read(key, entry, values.string)
            if seed is not None:
                self._set_nkey(remote, entry, seed)

        def tls(key: str, entry: Node) -> None:
            remote.tls = self._read_tls(entry)

        def deny_imports(key: str, entry: Node) -> None:
            remote.deny_imports = self.users.subject_list(entry, queues=False) or []

        def deny_exports(key: str, entry: Node) -> None:
            remote.deny_exports = self.users.subject_list(entry, queues=False) or []

        def compression(key: str, entry: Node) -> None:
            remote.compression = read_compression(self.report, key, entry)

        blocks = {
            **dict.fromkeys(("url", "urls"), urls),
            **dict.fromkeys(("creds", "credentials"), credentials),
            **dict.fromkeys(("nkey", "seed"), nkey),
            "tls": tls,
            **dict.fromkeys(("deny_imports", "deny_import"), deny_imports),
            **dict.fromkeys(("deny_exports", "deny_export"), deny_exports),
            "compression": compression,
        }
        self.report.fill(remote, tree, keys.LEAF_REMOTE, blocks, keys.LEAF_REMOTE_UNSUPPORTED)
        return remote

    def _urls(self, node: Node) -> list[LeafUrl]:
        if not isinstance(node.value, (str, list)):
            got = values.shown(node.value)
            self.report.fail(node.place, f"Expected remote leafnode url to be an array or string, got {got}")
            return []
        entries = node.value if isinstance(node.value, list) else [node]
        seen: set[str] = set()
        urls = []
        for entry in entries:
            text = self.report.read("url", entry, values.string)
            if text is None:
                continue
            if text in seen:
                what = f'invalid use of field "{text}": Duplicate leafnode entry detected'
                self.report.notice(entry.place, what)
                continue
            seen.add(text)
            try:
                urls.append(leaf_url(text))
            except ValueError:
                self.report.fail(entry.place, f"error parsing leafnode url [{quoted(text.strip())}]")
        return urls

    def _set_credentials(self, remote: LeafRemote, node: Node, path: str) -> None:
        try:
            path = _expanded(path)
        except ConfigError as error:
            self.report.fail(node.place, error)
            return
        if remote.nkey:
            self.report.fail(node.place, "Remote leafnode can not have both creds and nkey defined")
            return
        remote.credentials = path

    def _set_nkey(self, remote: LeafRemote, node: Node, seed: str) -> None:
        if nkeys.decode_seed("user", seed) is None:
            self.report.fail(node.place, f"Remote leafnode nkey is not a valid seed: {quoted(seed)}")
        elif remote.credentials:
            self.report.fail(node.place, "Remote leafnode can not have both creds and nkey defined")
        else:
            remote.nkey = seed


def read_compression(report: Report, key: str, node: Node) -> LeafCompression:
    """`compression`: a mode, on or off, or a map. Whether there is such a mode is looked at before a start."""
    options = LeafCompression()
    value = node.value
    if isinstance(value, bool):
        options.mode = _AUTO if value else "off"
    elif isinstance(value, str):
        options.mode = report.read(key, node, values.string) or ""
    elif isinstance(value, dict):

        def thresholds(key: str, entry: Node) -> None:
            for one in report.list(entry) or ():
                text = report.read(key, one, values.string)
                if text is None:
                    return
                try:
                    options.rtt_thresholds.append(parse_duration(text))
                except ConfigError as error:
                    report.fail(entry.place, error)
                    return

        rows = {"mode": ("mode", values.string)}
        report.fill(options, value, rows, dict.fromkeys(("rtt_thresholds", "thresholds", "rtts", "rtt"), thresholds))
    else:
        what = f"field {quoted(key)} should be a boolean or a structure, got {values.type_name(value)}"
        report.fail(node.place, what)
    return options


def _expanded(path: str) -> str:
    """A path with the variables of the environment, and the home directory for `~`."""
    path = _VARIABLE.sub(lambda found: os.environ.get(found[1] or found[2], ""), path)
    if not path.startswith("~"):
        return path
    home = os.environ.get("HOME", "")
    if not home:
        raise ConfigError("failed to get home dir, require $HOME")
    return os.path.normpath(f"{home}/{path[1:]}")


# --- URLs and names of remotes ---


def leaf_url(text: str) -> LeafUrl:
    """One URL of a remote, or of a hub's list. Raises ValueError when it is none."""
    url = parse_url(text.strip())
    host = url.host[1:-1] if url.host.startswith("[") else url.host
    return LeafUrl(url.scheme, host, int(url.port or 0), url.user, url.password, url.rest, url.opaque)


def url_text(url: LeafUrl, *, redacted: bool = False) -> str:
    """A URL as it is written; `redacted`: without its password."""
    password = _HIDDEN_PASSWORD if redacted and url.password is not None else url.password
    host = f"[{url.host}]" if ":" in url.host else url.host
    port = str(url.port) if url.port else ""
    return format_url(Url(url.scheme, url.user, password, host, port, url.rest, url.opaque))


def remote_name(remote: LeafRemote, *, redacted: bool = False) -> str:
    """What tells a remote from others: URLs, account, login. `redacted` it may stand in a log."""
    login = ""
    if remote.credentials:
        login = f", credentials={quoted(remote.credentials)}"
    elif remote.nkey:
        login = f", nkey={quoted('[REDACTED]' if redacted else remote.nkey)}"
    return f"urls={_url_list(remote, redacted)}, account={quoted(remote.account or GLOBAL_ACCOUNT)}{login}"


def _url_list(remote: LeafRemote, redacted: bool) -> str:
    return f"[{' '.join(quoted(url_text(url, redacted=redacted)) for url in remote.urls)}]"


# --- before a start ---


def settle_leafnodes(options: LeafOptions) -> None:
    """Put the defaults of the block where the configuration says 0 or nothing."""
    if options.port:
        options.host = options.host or DEFAULT_HOST
        options.compression.mode = options.compression.mode or _AUTO
    for remote in options.remotes:
        for url in remote.urls:
            url.port = url.port or DEFAULT_LEAF_PORT
        remote.compression.mode = remote.compression.mode or _AUTO
        if remote.first_info_timeout <= 0:
            remote.first_info_timeout = limits.LEAF_FIRST_INFO_SECONDS
        if remote.tls is not None and remote.tls.timeout <= 0:
            remote.tls.timeout = limits.TLS_TIMEOUT_SECONDS


def check_leafnodes(options: Options) -> None:
    """What must hold before a start. Raises :class:`~jetbroker.errors.ConfigError`."""
    leafnodes = options.leafnodes
    _check_authorization(leafnodes.authorization)
    names: set[str] = set()
    for remote in leafnodes.remotes:
        remote.account = remote.account or GLOBAL_ACCOUNT
        name = remote_name(remote)
        if name in names:
            raise ConfigError(f"duplicate remote {remote_name(remote, redacted=True)}")
        names.add(name)
    if options.operator.tokens:
        _check_operator_mode(leafnodes)
    else:
        _check_accounts(options)
    _settle_compression(leafnodes.compression)
    for remote in leafnodes.remotes:
        if len({url.is_websocket for url in remote.urls}) > 1:
            mixed = "a mix of websocket and non-websocket urls"
            urls = _url_list(remote, redacted=True)
            raise ConfigError(f"remote leaf node configuration cannot have {mixed}: {urls}")
        _settle_compression(remote.compression)


def _check_authorization(options: LeafAuthorization) -> None:
    if not options.users:
        return
    for what, given in (("user/pass", options.user), ("nkey", options.nkey)):
        if given:
            raise ConfigError(f"can not have a single {what} and a users array")
    seen: set[str] = set()
    for user in options.users:
        if user.user in seen:
            raise ConfigError(f"duplicate user {quoted(user.user)} detected in leafnode authorization")
        seen.add(user.user)


def _check_accounts(options: Options) -> None:
    known = {"", GLOBAL_ACCOUNT, *options.accounts}
    if not options.system_account and not options.no_system_account:
        known.add(SYSTEM_ACCOUNT)
    block = options.leafnodes.authorization
    wanted = [(name, "authorization") for name in (block.account, *(user.account for user in block.users))]
    wanted += [(remote.account, "remote") for remote in options.leafnodes.remotes]
    for name, where in wanted:
        if name not in known:
            raise ConfigError(f"cannot find local account {quoted(name)} specified in leafnode {where}")


def _check_operator_mode(options: LeafOptions) -> None:
    if options.authorization.users:
        raise ConfigError("operator mode does not allow specifying users in leafnode config")
    if not all(nkeys.is_public_key("account", remote.account) for remote in options.remotes):
        raise ConfigError(
            "operator mode requires account nkeys in remotes. Please add an `account` key to each remote in your "
            "`leafnodes` section, to assign it to an account. Each account value should be a 56 character public key, "
            "starting with the letter 'A'"
        )
    account = options.authorization.account
    if options.port and account and not nkeys.is_public_key("account", account):
        raise ConfigError("operator mode and non account nkeys are incompatible")


def _settle_compression(options: LeafCompression) -> None:
    if not options.mode:
        return
    mode = _MODES.get(options.mode.lower())
    if mode is None:
        raise ConfigError(f"unsupported compression mode {quoted(options.mode)}")
    if mode == _AUTO:
        options.rtt_thresholds = _thresholds(options)
    options.mode = mode


def _thresholds(options: LeafCompression) -> list[float]:
    """In ascending order; 0 leaves a level out, and those at the end mean nothing."""
    if not options.rtt_thresholds:
        return [*_RTT_THRESHOLDS]
    shown = f"[{' '.join(map(format_duration, options.rtt_thresholds))}]"
    found: list[float] = []
    for seconds in options.rtt_thresholds:
        if 0 < seconds < max(found, default=0.0):
            raise ConfigError(f"RTT threshold values {shown} should be in ascending order")
        found.append(max(seconds, 0.0))
    while found and not found[-1]:
        found.pop()
    if len(found) > _MOST_THRESHOLDS:
        what = f"should have no more than {_MOST_THRESHOLDS} RTT thresholds: {shown}"
        raise ConfigError(f"compression mode {quoted(options.mode)} {what}")
    if not found:
        raise ConfigError(f"compression mode {quoted(options.mode)} requires at least one RTT threshold")
    return found
