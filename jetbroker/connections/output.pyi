from typing import Any, final

from jetbroker.routing.subscription import Receiver
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
    def __new__(cls, tick: Tick, server: Any) -> Shared: ...
    def set_control_line(self, max_control_line: int) -> None: ...

@final
class ClientOutput(Receiver):
    protocol: Any
