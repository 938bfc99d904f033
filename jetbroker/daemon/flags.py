"""The command line's flags: nats-server's names, read the way Go's `flag` package reads them.

One or two dashes, the value behind `=` or in the next word; booleans take a value only behind `=`. The first word
without a dash ends the flags.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from jetbroker.errors import JetbrokerError

FlagValue: TypeAlias = str | int | bool

_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class FlagError(JetbrokerError):
    """A flag is not known, or its value is missing or wrong. `unknown` is the name of one that is not known."""

    def __init__(self, text: str, unknown: str = "") -> None:
        super().__init__(text)
        self.unknown = unknown


class Flag(NamedTuple):
    """One flag. `kind` is bool, int or str; `field` the option it sets (dotted when nested), or an action's name.

    `supported` is False for what nats-server has and this broker has not: recognised, then refused.
    """

    kind: type
    field: str
    supported: bool = True


_SUPPORTED: dict[str, tuple[type, str]] = {
    "a addr net": (str, "host"),
    "p port": (int, "port"),
    "n name server_name": (str, "server_name"),
    "P pid": (str, "pid_file"),
    "m http_port": (int, "http_port"),
    "ms https_port": (int, "https_port"),
    "client_advertise": (str, "client_advertise"),
    "ports_file_dir": (str, "ports_file_dir"),
    "l log": (str, "log_file"),
    "log_size_limit": (int, "log_size_limit"),
    "s syslog": (bool, "syslog"),
    "r remote_syslog": (str, "remote_syslog"),
    "T logtime": (bool, "logtime"),
    "logtime_utc": (bool, "logtime_utc"),
    "D debug": (bool, "debug"),
    "V trace": (bool, "trace"),
    "VV": (bool, "trace trace_verbose"),
    "DV": (bool, "debug trace"),
    "DVV": (bool, "debug trace trace_verbose"),
    "max_traced_msg_len": (int, "max_traced_msg_len"),
    "js jetstream": (bool, "jetstream.enabled"),
    "sd store_dir": (str, "jetstream.store_dir"),
    "user": (str, "authorization.user"),
    "pass": (str, "authorization.password"),
    "auth": (str, "authorization.token"),
    # one setting together: see config.start
    "tls": (bool, "tls"),
    "tlsverify": (bool, "tls.verify"),
    "tlscert": (str, "tls.cert_file"),
    "tlskey": (str, "tls.key_file"),
    "tlscacert": (str, "tls.ca_file"),
}
_ACTIONS: dict[str, tuple[type, str]] = {
    "c config": (str, "config"),
    "t": (bool, "test"),
    "sl signal": (str, "signal"),
    "v version": (bool, "version"),
    "h help": (bool, "help"),
    "help_tls": (bool, "help_tls"),
}
_UNSUPPORTED: dict[str, type] = {
    "profile connect_retries": int,
    "no_advertise": bool,
    "routes cluster cluster_name cluster_advertise cluster_listen": str,
}


REFUSED = {
    "profile": "there is no profiling port",
    **dict.fromkeys(
        "connect_retries no_advertise routes cluster cluster_name cluster_advertise cluster_listen".split(),
        "this broker is no member of a cluster",
    ),
}
"""What is refused, and why."""


def _table() -> dict[str, Flag]:
    flags = {}
    for rows in (_SUPPORTED, _ACTIONS):
        for names, (kind, field) in rows.items():
            flags.update(dict.fromkeys(names.split(), Flag(kind, field)))
    for names, kind in _UNSUPPORTED.items():
        flags.update({name: Flag(kind, name, supported=False) for name in names.split()})
    return flags


_ACTION_FIELDS = frozenset(field for _, field in _ACTIONS.values())
FLAGS = _table()
"""Every flag nats-server knows, by name without dashes."""


class CommandLine:
    """A command line taken apart: options to set in order, actions, the flags that are refused, and other words."""

    def __init__(self) -> None:
        self.settings: list[tuple[str, FlagValue]] = []
        self.actions: dict[str, FlagValue] = {}
        self.refused: list[str] = []
        self.words: list[str] = []

    def take(self, name: str, flag: Flag, value: FlagValue) -> None:
        """Note one flag with its value."""
        if not flag.supported:
            if value is not False:
                self.refused.append(name)
        elif flag.field in _ACTION_FIELDS:
            self.actions[flag.field] = value
        else:
            self.settings.extend((field, value) for field in flag.field.split())


def parse(argv: Sequence[str]) -> CommandLine:
    """Take a command line (without the program's name) apart; raises :class:`FlagError`."""
    line = CommandLine()
    words = list(argv)
    while words:
        word = words[0]
        if len(word) < 2 or word[0] != "-":
            break
        words.pop(0)
        if word == "--":
            break
        body = word[2:] if word[1] == "-" else word[1:]
        if not body or body[0] in "-=":
            raise FlagError(f"bad flag syntax: {word}")
        name, given, text = body.partition("=")
        flag = FLAGS.get(name)
        if flag is None:
            raise FlagError(f"flag provided but not defined: -{name}", name)
        if flag.kind is bool:
            line.take(name, flag, _boolean(name, text) if given else True)
            continue
        if not given:
            if not words:
                raise FlagError(f"flag needs an argument: -{name}")
            text = words.pop(0)
        line.take(name, flag, _integer(name, text) if flag.kind is int else text)
    line.words = words
    return line


def _boolean(name: str, text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise FlagError(f'invalid boolean value "{text}" for -{name}: parse error')


def _integer(name: str, text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    try:
        # As Go: 0x, 0o, 0b and a leading 0 for octal.
        octal = digits[:1] == "0" and digits.isdecimal() and digits.isascii()
        value = int(digits, 8 if octal else 0) if digits[:1].isdecimal() and len(digits) < 100 else None
    except ValueError:
        value = None
    if value is None:
        raise FlagError(f'invalid value "{text}" for flag -{name}: parse error')
    value = -value if text[0] == "-" else value
    if not _INT64_MIN <= value <= _INT64_MAX:
        raise FlagError(f'invalid value "{text}" for flag -{name}: value out of range')
    return value
