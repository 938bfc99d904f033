from typing import final

from jetbroker.jetstream.consumers.core import ConsumerCore, Delivery, Inactivity
from jetbroker.routing.subscription import Receiver

@final
class PullDelivery(Delivery):
    def __init__(self, core: ConsumerCore, idle: Inactivity, replay_until: int = 0) -> None: ...
    def group_state(self) -> dict[str, str]: ...
    def unpin(self, group: str) -> None: ...

class SilentReceiver(Receiver):
    """On `$JS.API.>`: takes API requests that mean nothing."""
