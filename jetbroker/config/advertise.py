"""Addresses with ports: `client_advertise: host[:port]` taken apart as Go does it."""

from jetbroker.errors import ConfigError
from jetbroker.forms.strconv import atoi


def advertised(text: str, default_port: int) -> tuple[str, int]:
    """Host and port that INFO shows; without a port, or with 0 or -1, `default_port`. Raises ConfigError."""
    parts = _split(text) or _split(f"{text}:{default_port}")
    if parts is None:
        raise ConfigError(f"address {text}:{default_port}: missing port in address")
    host, port_text = parts
    digits = port_text.strip()
    try:
        port = atoi(digits)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return host.strip(), default_port if port in (0, -1) else port


def _split(text: str) -> tuple[str, str] | None:
    """Host (without brackets) and port; None when there is no port. Raises ConfigError."""
    colon = text.rfind(":")
    if colon < 0:
        return None
    opened, closed = 0, 0  # behind these places no bracket may come
    if text.startswith("["):
        end = text.find("]")
        if end < 0:
            raise ConfigError(f"address {text}: missing ']' in address")
        if end + 1 != colon:
            if text[end + 1 : end + 2] == ":":
                raise ConfigError(f"address {text}: too many colons in address")
            return None
        host, opened, closed = text[1:end], 1, end + 1
    else:
        host = text[:colon]
        if ":" in host:
            raise ConfigError(f"address {text}: too many colons in address")
    for bracket, start in (("[", opened), ("]", closed)):
        if bracket in text[start:]:
            raise ConfigError(f"address {text}: unexpected '{bracket}' in address")
    return host, text[colon + 1 :]
