def highway_hash(key: bytes, data: bytes, wide: bool = True) -> bytes:
    """The hash of `data` as nats-server writes it, 8 bytes; the key has 32. `wide`: with AVX2, where there is any."""
