"""The event that tells of a traced message, compressed as the message asks."""

import gzip
from typing import Any

from jetbroker.forms.gojson import dumps


def encoded(event: dict[str, Any], encoding: str) -> tuple[bytes, bytes]:
    """Header block and body. `encoding`: "" for none, "identity" for one that nobody knows."""
    body = dumps(event)
    if encoding == "gzip":
        body = gzip.compress(body)
    elif encoding == "snappy":
        body = _snappy(body)
    return (f"NATS/1.0\r\nContent-Encoding: {encoding}\r\n\r\n".encode() if encoding else b""), body


def _snappy(body: bytes) -> bytes:
    from jetbroker.jetstream.backup.archive.s2 import S2Writer

    writer = S2Writer()
    writer.begin()
    writer.write(body)
    return writer.read(0, writer.size)
