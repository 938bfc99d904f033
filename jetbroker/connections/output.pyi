from typing import Any

from jetbroker.routing.router import Receiver
from jetbroker.tick import Tick

class Shared:
    tick: Tick
    server: Any
    max_pending: int
    max_payload: int
    max_control_line: int
    max_subscriptions: int
    max_sub_tokens: int
    stall: bool
    tracer: Any
    slow_consumers: int
    stalls: int
    def __init__(self, tick: Tick, server: Any) -> None: ...
    def set_control_line(self, max_control_line: int) -> None: ...

class ClientOutput(Receiver):
    protocol: Any
