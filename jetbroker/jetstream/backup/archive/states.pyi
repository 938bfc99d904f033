def to_nats(record: bytes, now_s: int) -> bytes:
    """A consumer's snapshot record as nats-server's `o.dat`."""

def from_nats(data: bytes, max_deliver: int, now_ns: int, most: int) -> bytes:
    """A consumer's snapshot record from nats-server's `o.dat`. Raises ValueError, also for more than `most` entries."""
