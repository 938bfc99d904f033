"""Dead letters: which stream receives them, and what they look like.

A letter is the message that a consumer has given up, under its own subject, with headers that name its origin.
"""

from collections.abc import Mapping
from typing import NamedTuple

from jetbroker import limits

DEAD_LETTER = "jetbroker.dead_letter"
"""Key of the metadata of a consumer, or of a stream for all of its consumers: the stream that receives them."""

PREFIX = b"Dead-Letter-"
TRAIL = b"Dead-Letter-Trail"  # the streams it had died in before, the last one excepted


class Origin(NamedTuple):
    """Where a message died, and why."""

    stream: str
    consumer: str
    subject: bytes
    sequence: int
    time_ns: int
    deliveries: int
    reason: str


def receiver_of(consumer: Mapping[str, str], stream: Mapping[str, str]) -> str:
    """Name of the stream for dead letters by both metadata, "": none; a consumer's own word counts, "" too."""
    return consumer.get(DEAD_LETTER, stream.get(DEAD_LETTER, ""))


def message_id(stream: str, consumer: str, sequence: int, time_ns: int) -> bytes:
    """The same for the same message and consumer. A stream that is made anew has other times."""
    return f"{stream}.{sequence}.{consumer}.{time_ns}".encode()


def letter_headers(block: bytes, origin: Origin) -> bytes:
    """The headers of a letter, made of those of the message.

    What a publisher tells the server (`Nats-…`) is left out: it has had its effect, and would have another one here.
    """
    kept: list[bytes] = []
    before: dict[bytes, bytes] = {}
    for line in block.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.startswith(PREFIX) or name == b"Nats-Msg-Id":
            before.setdefault(name, value.strip())
        elif line and not name[:5].lower() == b"nats-":
            kept.append(line)
    own = {
        b"Nats-Msg-Id": message_id(origin.stream, origin.consumer, origin.sequence, origin.time_ns),
        b"Dead-Letter-Stream": origin.stream.encode(),
        b"Dead-Letter-Consumer": origin.consumer.encode(),
        b"Dead-Letter-Subject": origin.subject,
        b"Dead-Letter-Sequence": str(origin.sequence).encode(),
        b"Dead-Letter-Deliveries": str(origin.deliveries).encode(),
        b"Dead-Letter-Reason": header_value(origin.reason),
    }
    trail = trail_of(before)
    if trail:
        own[TRAIL] = b" ".join(trail)
    first_id = before.get(b"Dead-Letter-Msg-Id") or (b"" if trail else before.get(b"Nats-Msg-Id", b""))
    if first_id:
        own[b"Dead-Letter-Msg-Id"] = first_id
    lines = [b"NATS/1.0", *kept, *(name + b": " + value for name, value in own.items())]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def trail_of(headers: Mapping[bytes, bytes]) -> list[bytes]:
    """The streams in which this message has died before, in order."""
    last = headers.get(b"Dead-Letter-Stream", b"")
    return [*headers.get(TRAIL, b"").split(), *([last] if last else [])]


def has_died_in(block: bytes, stream: str) -> bool:
    """Has the message with these headers died in this stream before?"""
    found = dict(line.partition(b":")[::2] for line in block.split(b"\r\n") if line.startswith(PREFIX))
    return stream.encode() in trail_of({name: value.strip() for name, value in found.items()})


def header_value(text: str) -> bytes:
    """A client's words as the value of one header: one line, of bounded length."""
    line = " ".join(text[: limits.JS_DEAD_LETTER_REASON_BYTES].split())
    line = "".join(letter if letter.isprintable() else "?" for letter in line)
    return line.encode("utf-8", "replace")[: limits.JS_DEAD_LETTER_REASON_BYTES].decode("utf-8", "ignore").encode()
