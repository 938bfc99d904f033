def highway_hash(key: bytes, data: bytes) -> bytes:
    """The hash of `data` as nats-server writes it, 8 bytes; the key has 32."""
