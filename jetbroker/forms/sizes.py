"""Sizes as nats-server's log shows them."""

_UNITS = "KMGTPE"


def friendly_bytes(size: int) -> str:
    """As nats-server's friendlyBytes: `512 B`, `1.50 KB`, `2.00 GB`; powers of 1024."""
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, len(_UNITS))
    return f"{size / 1024**power:.2f} {_UNITS[power - 1]}B"
