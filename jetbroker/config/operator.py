"""Operator mode in the configuration: `operator`, `trusted_keys`, `resolver` and what belongs to them.

Accounts come from tokens that are in the file (`resolver_preload`). Resolvers that fetch them from elsewhere, and
those that keep them in a directory, are refused by name.
"""

import re
import time

from jetbroker import NATS_VERSION, limits
from jetbroker.config import values
from jetbroker.config.nkeys import is_public_key
from jetbroker.config.options import OperatorOptions, Options
from jetbroker.config.parser import Node, Value
from jetbroker.config.report import Report
from jetbroker.config.tokens.claims import OperatorClaims, read_account, read_operator, read_user
from jetbroker.config.tokens.fields import TokenError
from jetbroker.errors import ConfigError
from jetbroker.forms.gotext import quoted

MEMORY = "MEMORY"
_INLINE = "eyJ"  # how all tokens begin
_TOKEN = re.compile(r"[\w\-.=]+")
_DASHES = "---"  # at least, before and behind what the lines around a token say
_NO_RESOLVER = (
    'error parsing account resolver, should be MEM or  URL("url") or a map containing dir and type state=[FULL|CACHE])'
)
_NUMBER = re.compile(r"[0-9]{1,9}")
_PARTS = ("major", "minor", "update")


class OperatorKeys:
    """Reads the keys of the top level that belong to operator mode."""

    def __init__(self, report: Report, options: OperatorOptions) -> None:
        self.report = report
        self.options = options
        self.claims: list[OperatorClaims] = []

    def read(self, key: str, node: Node) -> None:
        """Read one of the keys, in lower case."""
        if key in ("trusted", "trusted_keys"):
            self._trusted(node)
        elif key == "resolver_preload":
            self._preload(node)
        elif key == "resolver_pinned_accounts":
            self.options.pinned_accounts = frozenset(self._strings(node, key))
        elif key.endswith("resolver"):
            self._resolver(key, node)
        else:
            self._operators(node)

    def _operators(self, node: Node) -> None:
        """One token or several, as files or in place."""
        if isinstance(node.value, str):
            words: list[Value] = [node.value]
        elif isinstance(node.value, list):
            words = [entry.value for entry in node.value]
        else:
            got = values.type_name(node.value)
            self.report.fail(node.place, f"error parsing operators: unsupported type {got}")
            return
        for word in words:
            if not isinstance(word, str):
                what = "error parsing operators: unsupported type *conf.token where string is expected"
                self.report.fail(node.place, what)
                return
            try:
                token = _token_of(word)
                self.claims.append(read_operator(token))
            except (TokenError, OSError) as error:
                why = _why(error, word) if isinstance(error, OSError) else str(error)
                self.report.fail(node.place, f"error parsing operator JWT: {why}")
                continue
            self.options.tokens.append(token)
            self.options.names.append(self.claims[-1].name)

    def _trusted(self, node: Node) -> None:
        """Public keys of operators, in place of their tokens."""
        self.options.trusted_keys = self._strings(node, "trusted")
        for found in self.options.trusted_keys:
            if not is_public_key("operator", found):
                what = f"trust key {quoted(found)} required to be a valid public operator nkey"
                self.report.fail(node.value[-1].place if isinstance(node.value, list) else node.place, what)

    def _resolver(self, key: str, node: Node) -> None:
        """Where accounts come from: MEMORY, the tokens of this file, is what there is."""
        if isinstance(node.value, str):
            kind = node.value.upper()
            if "MEM" in kind:
                self.options.resolver = MEMORY
                return
            known = kind.startswith("URL")
        elif isinstance(node.value, dict):
            entry = node.value.get("type")
            kind = str(entry.value).upper() if entry is not None else ""
            if kind in ("MEM", MEMORY):
                self.options.resolver = MEMORY
                return
            known = kind in ("FULL", "CACHE")
        else:
            what = f"error parsing operator resolver, wrong type {values.type_name(node.value)}"
            self.report.fail(node.place, what)
            return
        self.report.fail(node.place, f'"{key}" other than MEMORY not supported yet' if known else _NO_RESOLVER)

    def _preload(self, node: Node) -> None:
        """The accounts' tokens by their public keys."""
        if not isinstance(node.value, dict):
            self.report.fail(node.place, "preload should be a map of account_public_key:account_jwt")
            return
        self.options.preload = {}
        for name, entry in node.value.items():
            if not isinstance(entry.value, str):
                self.report.fail(entry.place, "preload map value should be a string JWT")
                continue
            try:
                read_account(entry.value)
            except TokenError:
                self.report.fail(entry.place, "invalid account JWT")
                continue
            self.options.preload[name] = entry.value

    def _strings(self, node: Node, what: str) -> list[str]:
        if isinstance(node.value, str):
            return [node.value]
        if not isinstance(node.value, list):
            got = values.type_name(node.value)
            self.report.fail(node.place, f"error parsing {what}: unsupported type {got}")
            return []
        found = []
        for entry in node.value:
            if isinstance(entry.value, str):
                found.append(entry.value)
            else:
                got = values.type_name(entry.value)
                self.report.fail(entry.place, f"error parsing {what}: unsupported type in array {got}")
        return found

    def finish(self, options: Options) -> None:
        """Once all of the file is known: a single operator names the system account."""
        if len(self.claims) == 1 and not options.system_account:
            options.system_account = self.claims[0].system_account


def _token_of(word: str) -> str:
    """A file's token, or the word itself where there is no such file and it looks like one. Raises OSError."""
    try:
        with open(word, "rb") as file:
            text = file.read(limits.TOKEN_BYTES + 1).decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        if not word.startswith(_INLINE):
            raise error if isinstance(error, OSError) else OSError(str(error)) from error
        text = word
    return _between_dashes(text) or text.strip("\r\n")


def _between_dashes(text: str) -> str:
    """The first token on a line of its own between lines of dashes, as tools write them; empty when there is none."""
    lines = text.split("\n")
    last = lines.pop()
    lines = [*(line.removesuffix("\r") for line in lines), last]
    for before, token, after in zip(lines, lines[1:], lines[2:], strict=False):
        head = before[max(before.find(_DASHES), 0) :]
        if _TOKEN.fullmatch(token) and _is_dashed(head) and _is_dashed(after):
            return token
    return ""


def _is_dashed(line: str) -> bool:
    return len(line) >= 2 * len(_DASHES) and line.startswith(_DASHES) and line.endswith(_DASHES)


def _why(error: OSError, path: str) -> str:
    verb = "read" if isinstance(error, IsADirectoryError) else "open"
    return f"{verb} {path}: {(error.strerror or str(error)).lower()}"


def check_operators(options: Options) -> None:
    """What must hold before a start; takes the trusted keys from the operators' tokens. Raises ConfigError."""
    operator = options.operator
    if not operator.tokens:
        if operator.default_sentinel:
            raise ConfigError("default sentinel requires operators and accounts")
        return
    claims = [read_operator(token) for token in operator.tokens]
    if operator.default_sentinel:
        _check_sentinel(operator.default_sentinel)
    if not operator.resolver:
        if claims[0].account_server_url:
            raise ConfigError("the operator's account_server_url not supported yet: add resolver: MEMORY")
        raise ConfigError("operators require an account resolver to be configured")
    if options.accounts:
        raise ConfigError("operators do not allow Accounts to be configured directly")
    if options.all_users():
        raise ConfigError("operators do not allow users to be configured directly")
    if operator.trusted_keys:
        raise ConfigError("conflicting options for 'TrustedKeys' and 'TrustedOperators'")
    named = [one.system_account for one in claims if one.system_account]
    if options.system_account and named and options.system_account not in named:
        raise ConfigError("system_account in config and operator JWT must be identical")
    for one in claims:
        _check_version(one)
    for one in claims:
        operator.trusted_keys += [*(() if one.strict_signing_keys else (one.subject,)), *one.signing_keys]
    operator.strict_keys = frozenset(key for one in claims if one.strict_signing_keys for key in one.signing_keys)
    for key in operator.trusted_keys:
        if not is_public_key("operator", key):
            raise ConfigError(f"trusted Keys {quoted(key)} are required to be a valid public operator nkey")
    _pin(options)


def start_lines(options: Options) -> list[str]:
    """What the log tells of the operators."""
    lines = ["Trusted Operators"]
    for claims in map(read_operator, options.operator.tokens):
        lines += [f"  System  : {quoted(claims.audience)}", f"  Operator: {quoted(claims.name)}"]
        lines.append(f"  Issued  : {_date(claims.issued_at)}")
        lines.append(f"  Expires : {_date(claims.expires) if claims.expires else 'Never'}")
    return lines


def _date(seconds: int) -> str:
    """A time in the local zone, as Go shows it."""
    found = time.localtime(seconds)
    return time.strftime("%Y-%m-%d %H:%M:%S %z ", found) + (found.tm_zone or "")


def _pin(options: Options) -> None:
    operator = options.operator
    if not operator.pinned_accounts:
        return
    for key in sorted(operator.pinned_accounts):
        if not is_public_key("account", key):
            raise ConfigError(f"pinned account key {quoted(key)} is not a valid public account nkey")
    if options.system_account:
        operator.pinned_accounts |= {options.system_account}


def _check_sentinel(token: str) -> None:
    try:
        claims = read_user(token)
    except TokenError:
        raise ConfigError("default sentinel JWT not valid") from None
    if not claims.may.bearer and not (claims.issuer_account and claims.may.unset):
        raise ConfigError("default sentinel must be a bearer token")


def _check_version(claims: OperatorClaims) -> None:
    """An operator may ask for a version of nats-server, or a later one."""
    text = claims.assert_server_version
    if not text:
        return
    words = text.split(".")
    wrong = next((word for word in words if not _NUMBER.fullmatch(word)), None)
    why = f"asserted server version cant parse {wrong} to int"
    if len(words) != len(_PARTS):
        why = "asserted server version must be of the form <major>.<minor>.<update>"
    if wrong is not None or len(words) != len(_PARTS):
        raise ConfigError(f"operator {claims.subject} expects version {text} got error instead: {why}")
    for name, wanted, own in zip(_PARTS, map(int, words), map(int, NATS_VERSION.split(".")), strict=True):
        if wanted > own:
            what = f"expected {name} version {wanted} > server {name} version {own}"
            raise ConfigError(f"operator {claims.subject} {what}")
        if wanted < own:
            return
