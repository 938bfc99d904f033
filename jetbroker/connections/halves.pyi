from asyncio import BufferedProtocol
from enum import IntEnum
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

class Flow(IntEnum):
    READING = 0
    STALLED = 1
    OVER = 2
    OVER_STALLED = 3
    PARKED = 4
    CLOSED = 5

class FlowEvent(IntEnum):
    SPENT = 0
    STALLS = 1
    CAUGHT_UP = 2
    TURN = 3
    PARKS = 4
    UNPARKS = 5
    CLOSES = 6

FLOWS: dict[tuple[Flow, FlowEvent], Flow]

class ConnectionInput(BufferedProtocol):
    transport: Any
    output: ConnectionOutput
    @property
    def closed(self) -> bool: ...
    in_msgs: int
    in_bytes: int
    stalls: int
    def get_buffer(self, sizehint: int) -> memoryview: ...
    def buffer_updated(self, nbytes: int) -> None: ...
    @property
    def says_no_more(self) -> bool: ...
    def park(self) -> None: ...
    def unpark(self) -> None: ...
    def go_on(self) -> None: ...
    def next_turn(self) -> None: ...
