from collections.abc import Callable
from typing import Any

from jetbroker.jetstream.streams.stream import Stream
from jetbroker.routing.subscription import Receiver
from jetbroker.tick import Tick

def stream_name(subject: bytes) -> str: ...
def hand_over(stream: Stream, subject: bytes, messages: list[tuple[bytes | None, bytes, bytes]]) -> None: ...

class Catcher(Receiver):
    def __init__(
        self, tick: Tick, streams: dict[str, Any], take: Callable[[bytes, bytes | None, bytes, bytes], None]
    ) -> None: ...
