"""What the headers of a message ask of its trace, and what comes of that when it arrives."""

from dataclasses import dataclass
from random import randrange
from typing import NamedTuple, Protocol

from jetbroker.forms.gotext import quoted
from jetbroker.tracing.headers import DESTINATION, DISABLED, decoded, read_lines, with_header
from jetbroker.tracing.trace import Connected, MessageTrace
from jetbroker.wire.headers import header_value
from jetbroker.wire.subjects import valid_literal

_ACCEPTED = b"Accept-Encoding"
_TRUE = (b"1", b"true", b"on")


class Publisher(Connected, Protocol):
    """The connection that a message came over."""

    def may_trace_to(self, destination: bytes) -> bool:
        """May it publish there? It is told when it may not."""
        ...


class Arrival(NamedTuple):
    """What is done with the message. `block`: its headers when they are not what they were."""

    trace: MessageTrace | None = None
    dropped: bool = False
    block: bytes | None = None
    fault: str = ""  # for the log


@dataclass(slots=True)
class Asked:
    """`destination` None: a traceparent asks for it, and the account says where."""

    headers: dict[str, list[str]]
    destination: bytes | None
    only: bool = False
    outdated: str = ""  # a header of old, which is not supported any more
    hop: str = ""
    encoding: str = ""


def arrive(publisher: Publisher, subject: bytes, block: bytes, size: int) -> Arrival:
    """A message came that may ask for a trace. `block` is its headers, `size` theirs and its payload's together.

    The checks come in nats-server's order.
    """
    is_link = bool(publisher.server)
    asked = read(block)
    if asked is None:
        return Arrival()
    if asked.outdated:
        fault = f'Message tracing disabled because of header "Nats-Trace-Origin-Account" with value={asked.outdated}'
        return Arrival(dropped=asked.only, block=with_header(block, DESTINATION, DISABLED), fault=fault)
    destination = asked.destination
    if destination is None:
        rule = publisher.account.router.traces
        if rule is None:
            return Arrival()
        if not is_link and randrange(100) >= rule.sampling:
            return Arrival(block=with_header(block, DESTINATION, DISABLED))
        destination = rule.destination
    if not valid_literal(destination):
        fault = f"Destination {quoted(destination)} is not valid, won't be able to trace events"
        return Arrival(dropped=asked.only, fault=fault)
    if not publisher.may_trace_to(destination):
        return Arrival(dropped=True)
    trace = MessageTrace(publisher, subject, destination, asked.headers, size)
    trace.only, trace.encoding = asked.only, asked.encoding
    trace.hop = asked.hop if is_link else ""
    return Arrival(trace)


def read(block: bytes) -> Asked | None:
    """None: it asks for no trace."""
    first: dict[bytes, bytes] = {}
    headers: dict[str, list[str]] = {}
    sampled = False
    for name, value in read_lines(block):
        if not sampled and name.lower() == b"traceparent":
            sampled = _is_sampled(value)
        elif name == DESTINATION and name not in first and value == DISABLED:
            return None
        first.setdefault(name, value)
        headers.setdefault(decoded(name), []).append(decoded(value))
    destination = first.get(DESTINATION)
    if destination is None and not sampled:
        return None
    outdated = first.get(b"Nats-Trace-Origin-Account")
    return Asked(
        headers,
        destination,
        only=destination is not None and first.get(b"Nats-Trace-Only", b"").lower() in _TRUE,
        outdated="" if outdated is None else quoted(outdated),
        hop=decoded(first.get(b"Nats-Trace-Hop", b"")),
        encoding=_encoding(first.get(_ACCEPTED, b"")),
    )


def _is_sampled(parent: bytes) -> bool:
    """Four parts, of which the last says so in two hexadecimal digits that fit a signed byte."""
    parts = parent.split(b"-")
    if len(parts) != 4 or len(parts[3]) != 2:
        return False
    try:
        flags = int(parts[3], 16)
    except ValueError:
        return False
    return flags <= 0x7F and bool(flags & 1)


def accepted_encoding(block: bytes) -> str:
    """How what is told may be encoded, by the headers of who asks: "" as it is, "identity" for what nobody knows."""
    return _encoding(header_value(block, _ACCEPTED) or b"")


def _encoding(accepted: bytes) -> str:
    if not accepted:
        return ""
    accepted = accepted.lower()
    if b"snappy" in accepted or b"s2" in accepted:
        return "snappy"
    return "gzip" if b"gzip" in accepted else "identity"
