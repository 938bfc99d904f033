from typing import final

from jetbroker.jetstream.consumers.core import ConsumerAdvisories, ConsumerTurn, Delivery
from jetbroker.jetstream.consumers.cursor import StreamCursor
from jetbroker.jetstream.consumers.dead_letters import DeadLetters
from jetbroker.jetstream.consumers.tracker import AckTracker
from jetbroker.routing.subscription import Receiver

@final
class Acks:
    sample_percent: int
    replies: list[bytes]
    def __init__(
        self,
        tracker: AckTracker,
        cursor: StreamCursor,
        turn: ConsumerTurn,
        advisories: ConsumerAdvisories,
        letters: DeadLetters | None = None,
    ) -> None: ...

class AckReceiver(Receiver):
    def __init__(self, acks: Acks, delivery: Delivery, prefix_len: int) -> None: ...
    def close(self) -> None: ...
