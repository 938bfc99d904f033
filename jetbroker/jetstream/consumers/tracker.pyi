from enum import IntEnum
from typing import final

from jetbroker.jetstream.consumers.state import ConsumerState

class AckPolicy(IntEnum):
    POLICY_NONE = 0
    POLICY_ALL = 1
    POLICY_EXPLICIT = 2

@final
class AckTracker:
    def __init__(self, policy: int, batch: object = None) -> None: ...
    policy: int
    delivered_cseq: int
    delivered_seq: int
    floor_cseq: int
    floor_seq: int
    redelivered: int
    max_deliver: int
    report_finished: bool
    def configure(self, ack_wait_ns: int, backoff_ns: list[int], max_deliver: int) -> None: ...
    def start_at(self, seq: int) -> None: ...
    def restore(self, state: ConsumerState, now_ns: int, wall_ns: int) -> None: ...
    def rewind(self, seq: int) -> None: ...
    def begin_at(self, seq: int) -> None: ...
    def queue_all(self) -> None: ...
    def counts(self) -> tuple[int, int, int]: ...
