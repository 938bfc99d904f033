from typing import final

from jetbroker.jetstream.consumers.core import ConsumerAdvisories, ConsumerTurn, Forsaken
from jetbroker.jetstream.consumers.tracker import AckTracker
from jetbroker.jetstream.models.config import ConsumerConfig
from jetbroker.jetstream.streams.stream import Stream

class Letter:
    """One message on its way to the stream for dead letters."""

    def __init__(self, seq: int, cseq: int, reason: str) -> None: ...

@final
class Complaint:
    """Keeps the log from telling the same again and again."""

@final
class DeadLetters(Forsaken):
    """What one consumer has given up and not got rid of yet; `stored`: letters since the start."""

    stored: int
    replies: list[bytes]
    def __init__(
        self, stream: Stream | None, tracker: AckTracker, turn: ConsumerTurn, advisories: ConsumerAdvisories
    ) -> None: ...
    def configure(self, config: ConsumerConfig) -> None: ...
    def waiting(self) -> int: ...
    def forget(self) -> None: ...
