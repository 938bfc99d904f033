from collections.abc import Callable
from typing import Any

from jetbroker.accounts.graph import ServiceImport
from jetbroker.routing.router import Router
from jetbroker.routing.subscription import Receiver

# (connection or None, what was crossed, the reply subject of a message in a fast batch or None) -> value of the header
_Describe = Callable[[Any, list[Any], bytes | None], bytes]

class Responses(Receiver):
    router: Router
    prefix: bytes
    owed: dict[bytes, Any]
    def __init__(self, router: Router) -> None: ...
    def asker_of(self, subject: bytes) -> tuple[Router, bytes] | None: ...
    def unsubscribed(self, subject: bytes) -> None: ...
    def clear(self) -> None: ...

class ServiceReceiver(Receiver):
    rule: ServiceImport
    importer: Responses
    exporter: Responses
    def __init__(self, rule: ServiceImport, importer: Responses, exporter: Responses, describe: _Describe) -> None: ...

def with_request_info(block: bytes, value: bytes) -> bytes: ...
