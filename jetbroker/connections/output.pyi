from typing import Any, final

from jetbroker.routing.subscription import Receiver
from jetbroker.tick import Tick

class Turn: ...

class Shared:
    tick: Tick
    server: Any
    turn: Turn
    max_pending: int
    max_payload: int
    max_control_line: int
    max_subscriptions: int
    max_sub_tokens: int
    stall: bool
    tracer: Any
    slow_consumers: int
    stalls: int
    def __new__(cls, tick: Tick, server: Any, turn: Turn | None = None) -> Shared: ...
    def set_control_line(self, max_control_line: int) -> None: ...

class ConnectionOutput(Receiver):
    protocol: Any
    out_msgs: int
    out_bytes: int

@final
class ClientOutput(ConnectionOutput): ...
