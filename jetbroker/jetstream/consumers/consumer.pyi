from collections.abc import Callable
from typing import Any, final

from jetbroker.jetstream.consumers.core import ConsumerAdvisories, ConsumerCore, ConsumerTurn, Delivery
from jetbroker.jetstream.consumers.cursor import StreamCursor
from jetbroker.jetstream.consumers.dead_letters import DeadLetters
from jetbroker.jetstream.consumers.tracker import AckTracker
from jetbroker.jetstream.models.config import ConsumerConfig
from jetbroker.jetstream.models.interest import StreamConsumer
from jetbroker.routing.subscription import Receiver
from jetbroker.store.log.stream_log import SubjectFilter
from jetbroker.turns import Steps

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
        log: Any = None,
        who: str = "",
    ) -> None: ...

class AckReceiver(Receiver):
    def __init__(self, acks: Acks, delivery: Delivery, prefix_len: int) -> None: ...
    def close(self) -> None: ...

@final
class Vigil:
    """Keeps what the last look has seen of one consumer."""

    def __init__(self, core: ConsumerCore, delivery: Delivery) -> None: ...

def filter_of(config: ConsumerConfig) -> SubjectFilter: ...
def filter_steps(config: ConsumerConfig) -> Steps[SubjectFilter]: ...

class Consumer(StreamConsumer):
    stream: Any
    config: ConsumerConfig
    name: str
    created_ns: int
    running: bool
    letters: DeadLetters
    on_inactive: Callable[[Consumer], None] | None
    @property
    def state_log(self) -> Any: ...
    def __init__(
        self,
        stream: Any,
        config: ConsumerConfig,
        state_log: Any,
        created_ns: int,
        name: str = "",
        clock: Callable[[], int] | None = None,
        matching: SubjectFilter | None = None,
    ) -> None: ...
    def keep_in(self, state_log: Any) -> None: ...
    def follow_retention(self) -> None: ...
    def start(self) -> None: ...
    def record_start(self) -> None: ...
    def snapshot(self) -> bytes:
        """Its present state as one record."""
    def stop(self, reason: str = "") -> None: ...
    def release(self) -> None: ...
    def update(self, config: ConsumerConfig, matching: SubjectFilter | None = None) -> None: ...
    def reset(self, seq: int = 0) -> int: ...
    def pause(self, config: ConsumerConfig) -> None: ...
    def pause_fields(self) -> dict[str, Any]: ...
    def unpin(self, group: str) -> None: ...
    def still_inactive(self) -> bool: ...
    def standing(self) -> tuple[int, int, int]: ...
    def info(self) -> dict[str, Any]: ...
    def look(self) -> None: ...
    def is_stalled(self) -> bool:
        """Asked once a second: could it have delivered something since the last time, and has not?"""
    def describe(self) -> dict[str, Any]:
        """All of its state, for the log."""
    def set_going(self) -> None:
        """Take a turn, whatever it seems to wait for."""
    def placing(self) -> Steps[None]:
        """Find where a new consumer begins."""
    def settling(self) -> Steps[None]:
        """Let the stream go of all that is finished."""
    def counting(self) -> Steps[None]:
        """Count what is ahead: info() is exact right behind the last step."""
    def counted_in(self, first: int, last: int) -> list[int]:
        """How many messages of a short piece of the log are counted as pending; for removed_in()."""
    def removed_in(self, first: int, last: int, before: list[int], purged: bool) -> None:
        """Messages of this piece are gone, and nothing else has changed since counted_in() returned `before`."""
