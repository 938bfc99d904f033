from typing import Any

from jetbroker.tick import TickTask

class Receiver(TickTask): ...

class Subscription:
    receiver: Receiver
    subject: bytes
    queue: bytes | None
    sid: bytes
    delivered: int
    max_deliveries: int
    closed: bool
    weight: int
    filter: bytes | None
    shadows: Any
