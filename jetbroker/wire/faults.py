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
_LEAF_STATES: Final = {
    **_STATES, "A": 48, "A+": 49, "A-": 52, "AU": 52, "HM": 24, "HMS": 25, "HMSG": 26, "L": 55, "LS": 56,
    "R": 57, "RS": 58, "LS+": 45, "RS+": 45, "LS-": 63, "RS-": 63,
    "LM": 66, "RM": 66, "LMS": 67, "RMS": 67, "LMSG": 68, "RMSG": 68,
}  # fmt: skip
CLIENT: Final = "Client"
LEAF: Final = "Leafnode"
BEHIND_PAYLOAD: Final = 41  # CR is due
BEHIND_CR: Final = 42  # LF is due


def unknown_operation(peer: str, command: bytes, at: int, unread: int) -> ProtocolError:
    """No command of such a peer begins like this. `at`: where `command` is in what was read last; `unread` bytes begin
    there."""
    states = _LEAF_STATES if peer == LEAF else _STATES
    length = 0
    while length < len(command) and command[: length + 1].decode("latin-1").upper() in states:
        length += 1
    state = states[command[:length].decode("latin-1").upper()]
    return parser_error(peer, state, command[length:], at + length, unread - length)


def parser_error(peer: str, state: int, rest: bytes, at: int, unread: int) -> ProtocolError:
    """The byte that `rest` begins with is wrong in this state; it was number `at` of what was read last, the first of
    `unread`."""
    most = limits.LOGGED_INPUT_BYTES
    shown = quoted(rest[: most if len(rest) >= most else len(rest) - 1])
    detail = f"{peer} parser ERROR, state={state}, i={max(at, 0)}: proto='{shown}...'"
    return ProtocolError("Unknown Protocol Operation", detail=detail, unread=unread)


def bad_leaf_arguments(command: str, what: str, shown: bytes) -> ProtocolError:
    """The same of a link, where nats-server quotes nothing; a long line is cut."""
    text = shown[: limits.MAX_CONTROL_LINE_BYTES].decode("utf-8", "backslashreplace")
    return ProtocolError("", detail=f"processLeaf{command} {what}: '{text}'")


def bad_arguments(command: str, what: str, arguments: bytes) -> ProtocolError:
    """Wrong arguments close the connection without a word."""
    return ProtocolError("", detail=f"process{command} {what}: {quoted(arguments)}")
