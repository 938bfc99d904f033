from typing import Any

from jetbroker.routing.router import Router
from jetbroker.routing.subscription import Receiver
from jetbroker.tick import Tick

class DirectGet(Receiver):
    def __init__(self, router: Router, tick: Tick, log: Any, name: str, origin: str = "") -> None: ...
    def forget(self) -> None: ...
