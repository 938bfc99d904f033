from typing import final

from jetbroker.jetstream.consumers.core import ConsumerCore, Delivery

@final
class Vigil:
    """Keeps what the last look has seen of one consumer."""

    def __init__(self, core: ConsumerCore, delivery: Delivery) -> None: ...
