"""The API level that is served, and the one rule for requests and messages that ask for one."""

from jetbroker.bounds import INT64_MAX, decimal

API_LEVEL = 4  # of nats-server 2.14
LEVEL_HEADER = b"Nats-Required-Api-Level"


def level_supported(level: bytes | None) -> bool:
    """True for a required level that is served here; None and b"" ask for none, what is no number is not served."""
    if not level:
        return True
    number = decimal(level[1:] if level[:1] in (b"+", b"-") else level, INT64_MAX)
    return number is not None and (number <= API_LEVEL or level[:1] == b"-")
