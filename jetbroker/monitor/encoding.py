"""Answers and events, compressed as whoever asked for them accepts."""

import gzip

_LEVEL = 6  # Go's


def encoded(body: bytes, encoding: str) -> tuple[bytes, bytes]:
    """Header block and body. `encoding`: "" for none, "identity" for one that nobody knows. May run in a thread."""
    if encoding == "gzip":
        body = gzip.compress(body, _LEVEL)
    elif encoding == "snappy":
        body = _snappy(body)
    return (f"NATS/1.0\r\nContent-Encoding: {encoding}\r\n\r\n".encode() if encoding else b""), body


def _snappy(body: bytes) -> bytes:
    from jetbroker.jetstream.backup.archive.s2 import S2Writer

    writer = S2Writer()
    writer.begin()
    writer.write(body)
    return writer.read(0, writer.size)
