from collections.abc import Callable
from typing import Any

from jetbroker.routing.links import Links
from jetbroker.routing.mapping import Mappings
from jetbroker.routing.subscription import Receiver, Subscription
from jetbroker.tick import Tick

class Router:
    account_name: str
    tick: Tick
    jetstream: Any
    mappings: Mappings | None
    domain: Mappings | None
    imports: Any
    traces: Any
    links: Links | None
    subscriptions: int
    route_count: int
    generation: int
    builds: int
    def __init__(self, account_name: str, tick: Tick) -> None: ...
    def interested(self, subject: bytes) -> bool: ...
    def has_queue_interest(self, subject: bytes, queue: bytes) -> bool: ...
    def subscribe(
        self, receiver: Receiver, subject: bytes, queue: bytes | None = None, sid: bytes = b"", weight: int = 1
    ) -> Subscription: ...
    def weigh(self, sub: Subscription, weight: int) -> int: ...
    def fanout(self) -> tuple[int, int]: ...
    def subscription_list(self, offset: int, count: int) -> list[Subscription]: ...
    def close(self) -> None: ...
    def matching(self, subject: bytes) -> list[Subscription]: ...
    def unsubscribe(self, sub: Subscription) -> int: ...
    def publish_bytes(self, subject: bytes, reply: bytes | None, headers: bytes, payload: bytes) -> int: ...
    def publish_for(
        self, origin: object, subject: bytes, reply: bytes | None, headers: bytes, payload: bytes
    ) -> int: ...

class CallbackReceiver(Receiver):
    def __init__(
        self,
        tick: Tick,
        callback: Callable[[bytes, bytes | None, bytes, bytes, Any], None],
        target: Callable[[bytes], bytes | None] | None = None,
    ) -> None: ...
