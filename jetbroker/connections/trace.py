"""Protocol traffic as log lines, as nats-server's `trace` writes them.

[TRC] 127.0.0.1:4242 - cid:5 - <<- [PUB foo 5]
[TRC] 127.0.0.1:4242 - cid:5 - <<- MSG_PAYLOAD: ["hello"]
[TRC] 127.0.0.1:4242 - cid:5 - ->> [OK]
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from jetbroker.forms.gotext import quoted

if TYPE_CHECKING:
    from jetbroker.config.options import Options
    from jetbroker.connections.connection import Connection
    from jetbroker.logs.logger import Logger

RECEIVED: Final = "<<-"
SENT: Final = "->>"
INTERNAL: Final = "<->"

_SECRETS: Final = {"sig", "proxy_sig", "nkey", "jwt"}
_SECRET_PREFIXES: Final = ("pass", "auth_token")  # `password` is wrong, and a secret nevertheless
# a key, and a value behind it; strings may be cut short, values may be bare: what is no JSON is traced as well
_KEY: Final = re.compile(r'"((?:[^"\\]|\\.)*+)')
_VALUE: Final = re.compile(r'"\s*:\s*("(?:[^"\\]|\\.)*+"?|[^",\r\n}]*)')


def redacted(connect: bytes) -> bytes:
    """CONNECT's JSON with passwords, tokens, keys and signatures replaced."""

    text = connect.decode("utf-8", "surrogateescape")
    shown, written, place = [], 0, 0
    while key := _KEY.search(text, place):
        value = _VALUE.match(text, key.end())
        if value is None:
            place = key.end()  # the quote there may begin another one: none within this one has another end
            continue
        place = value.end()
        if _is_secret(_key(key[1])) and value[1].strip() != "null":
            shown += [text[written : value.start(1)], '"[REDACTED]"' if value[1].startswith('"') else "[REDACTED]"]
            written = place
    return "".join([*shown, text[written:]]).encode("utf-8", "surrogateescape")


def _is_secret(key: str) -> bool:
    return key in _SECRETS or key.startswith(_SECRET_PREFIXES)


def _key(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"')).lower()
    except ValueError:
        return text.lower()


class Tracer:
    """Writes the traffic of connections to the log. `max_payload` bytes of each message are shown; 0: all."""

    def __init__(
        self, log: Logger, who: Callable[[Any], str], max_payload: int = 0, headers_only: bool = False
    ) -> None:
        self._log = log
        self._who = who
        self.max_payload = max_payload
        self.headers_only = headers_only

    def line(self, client: Connection, arrow: str, text: bytes) -> None:
        """A command that was received or sent, or (INTERNAL) something done because of one."""
        self._log.trace(f"{self._who(client)} - {arrow} [{text.decode('utf-8', 'backslashreplace')}]")

    def connect(self, client: Connection, options: bytes) -> None:
        """CONNECT was received; secrets are not shown."""
        self.line(client, RECEIVED, b"CONNECT " + redacted(options))

    def payload(self, client: Connection, arrow: str, body: bytes, headers_len: int) -> None:
        """What a message holds; nothing for an empty one."""
        if self.headers_only:
            body = body[: max(headers_len - 4, 0)]  # the blank line, and the end of the one before
        if not body:
            return
        if 0 < self.max_payload < len(body):
            shown = quoted(body[: self.max_payload])[:-1] + '..."'
        else:
            shown = quoted(body)
        self._log.trace(f"{self._who(client)} - {arrow} MSG_PAYLOAD: [{shown}]")


def tracer_of(options: Options, log: Logger, who: Callable[[Any], str]) -> Tracer | None:
    """As the options say; None: traffic is not logged."""
    if not (options.trace or options.trace_verbose):
        return None
    return Tracer(log, who, options.max_traced_msg_len, options.trace_headers)
