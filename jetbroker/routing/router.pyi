from collections.abc import Callable
from typing import Any

from jetbroker.routing.mapping import Mappings
from jetbroker.tick import Tick, TickTask

class Receiver(TickTask): ...

class Subscription:
    receiver: Receiver
    subject: bytes
    queue: bytes | None
    sid: bytes
    delivered: int
    max_deliveries: int
    closed: bool
    filter: Any
    shadows: Any

class Router:
    account_name: str
    tick: Tick
    jetstream: Any
    mappings: Mappings | None
    domain: Mappings | None
    imports: Any
    subscriptions: int
    route_count: int
    generation: int
    builds: int
    def __init__(self, account_name: str, tick: Tick) -> None: ...
    def interested(self, subject: bytes) -> bool: ...
    def has_queue_interest(self, subject: bytes, queue: bytes) -> bool: ...
    def subscribe(
        self, receiver: Receiver, subject: bytes, queue: bytes | None = None, sid: bytes = b""
    ) -> Subscription: ...
    def fanout(self) -> tuple[int, int]: ...
    def subscription_list(self, offset: int, count: int) -> list[Subscription]: ...
    def matching(self, subject: bytes) -> list[Subscription]: ...
    def unsubscribe(self, sub: Subscription) -> int: ...
    def publish_bytes(self, subject: bytes, reply: bytes | None, headers: bytes, payload: bytes) -> int: ...

class CallbackReceiver(Receiver):
    def __init__(self, tick: Tick, callback: Callable[[bytes, bytes | None, bytes, bytes, Any], None]) -> None: ...
