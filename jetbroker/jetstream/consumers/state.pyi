from collections.abc import Sequence
from dataclasses import dataclass, field

@dataclass
class StateEntry:
    cseq: int
    delivered_ns: int
    count: int = 1
    exhausted: bool = False
    wait_ns: int = -1
    waits_from_ns: int = 0

@dataclass
class ConsumerState:
    delivered_cseq: int = 0
    delivered_seq: int = 0
    floor_cseq: int = 0
    floor_seq: int = 0
    resume: int = 0
    pending: dict[int, StateEntry] = field(default_factory=dict)
    started: bool = False

def replay(recovered: Sequence[bytes], first_seq: int = 0, last_seq: int = ..., slots: int = 0) -> ConsumerState: ...
