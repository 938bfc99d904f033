"""Header blocks of messages that ask for a trace: read and changed as nats-server does."""

from collections.abc import Iterator

DESTINATION = b"Nats-Trace-Dest"
DISABLED = b"trace disabled"
HOP = b"Nats-Trace-Hop"
_LINE = b"NATS/1.0\r\n"


def read_lines(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Names and values that are not empty, trimmed; up to the first line that is no header."""
    if not block.startswith(_LINE):
        return
    at = len(_LINE)
    while at < len(block):
        colon = block.find(b":", at)
        end = block.find(b"\r\n", colon + 1) if colon >= 0 else -1
        if end < 0:
            return
        value = block[colon + 1 : end].strip(b" \t")
        if colon > at and value:
            yield block[at:colon], value
        at = end + 2


def with_header(block: bytes, name: bytes, value: bytes) -> bytes:
    """With one header of this name, at the end."""
    first, *others = block.removesuffix(b"\r\n").split(b"\r\n") if block else _LINE.split(b"\r\n")
    start = name + b":"
    kept = [line for line in others if not line.startswith(start)]
    return b"%b%b: %b\r\n\r\n" % (b"\r\n".join((first, *kept)), name, value)


def disabled_in_place(block: bytes) -> bytes:
    """As a stream stores it: the first destination has this value where it stands; without one it comes last."""
    found = block.find(b"\r\n%b:" % DESTINATION)
    end = block.find(b"\r", found + 2)
    if found < 0 or end < 0:
        return with_header(block, DESTINATION, DISABLED)
    start = found + len(DESTINATION) + 3
    start += block[start : start + 1] == b" "
    return block[:start] + DISABLED + block[end:]


def decoded(text: bytes) -> str:
    """As JSON has it."""
    return text.decode("utf-8", "replace")
