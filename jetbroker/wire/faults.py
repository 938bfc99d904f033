"""What the log says of input that is no protocol, in nats-server's words: operators and other suites look for them."""

from __future__ import annotations

from typing import Final

from jetbroker import limits
from jetbroker.errors import ProtocolError
from jetbroker.forms.gotext import quoted

# numbers of nats-server's states, by what was read of a command
_STATES: Final = {
    "": 0, "+": 1, "+O": 2, "-": 4, "-E": 5, "-ER": 6, "-ERR": 7,
    "C": 10, "CO": 11, "CON": 12, "CONN": 13, "CONNE": 14, "CONNEC": 15,
    "H": 18, "HP": 19, "HPU": 20, "HPUB": 21, "P": 29, "PU": 30, "PUB": 31, "PI": 34, "PIN": 35, "PO": 37, "PON": 38,
    "S": 43, "SU": 44, "SUB": 45, "U": 59, "UN": 60, "UNS": 61, "UNSU": 62, "UNSUB": 63, "I": 71, "IN": 72, "INF": 73,
}  # fmt: skip
BEHIND_PAYLOAD: Final = 41  # CR is due
BEHIND_CR: Final = 42  # LF is due


def unknown_operation(command: bytes, at: int, unread: int) -> ProtocolError:
    """No command begins like this. `at`: where `command` is in what was read last; `unread` bytes begin there."""
    length = 0
    while length < len(command) and command[: length + 1].decode("latin-1").upper() in _STATES:
        length += 1
    return parser_error(
        _STATES[command[:length].decode("latin-1").upper()], command[length:], at + length, unread - length
    )


def parser_error(state: int, rest: bytes, at: int, unread: int) -> ProtocolError:
    """The byte that `rest` begins with is wrong in this state; it was number `at` of what was read last, the first of
    `unread`."""
    most = limits.LOGGED_INPUT_BYTES
    shown = quoted(rest[: most if len(rest) >= most else len(rest) - 1])
    detail = f"Client parser ERROR, state={state}, i={max(at, 0)}: proto='{shown}...'"
    return ProtocolError("Unknown Protocol Operation", detail=detail, unread=unread)


def bad_arguments(command: str, what: str, arguments: bytes) -> ProtocolError:
    """Wrong arguments close the connection without a word."""
    return ProtocolError("", detail=f"process{command} {what}: {quoted(arguments)}")
