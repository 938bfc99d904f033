from collections.abc import Callable
from typing import Any

from jetbroker.jetstream.config import ConsumerConfig
from jetbroker.jetstream.interest import StreamConsumer
from jetbroker.jetstream.tracker import AckTracker
from jetbroker.store.log import SubjectFilter

def filter_of(config: ConsumerConfig) -> SubjectFilter: ...
def required_level_met(headers: bytes) -> bool: ...

class Consumer(StreamConsumer):
    stream: Any
    config: ConsumerConfig
    name: str
    stream_name: str
    created_ns: int
    running: bool
    is_push: bool
    tracker: AckTracker
    state_log: Any
    on_inactive: Callable[[Consumer], None] | None
    clock: Callable[[], int] | None
    def __init__(
        self,
        stream: Any,
        config: ConsumerConfig,
        state_log: Any,
        created_ns: int,
        name: str = "",
        clock: Callable[[], int] | None = None,
    ) -> None: ...
    def start(self) -> None: ...
    def record_start(self) -> None: ...
    def stop(self, reason: str = "") -> None: ...
    def update(self, config: ConsumerConfig) -> None: ...
    def reset(self) -> None: ...
    def has_delivery_interest(self) -> bool: ...
    def still_inactive(self) -> bool: ...
    def info(self) -> dict[str, Any]: ...
    def look(self) -> None: ...
