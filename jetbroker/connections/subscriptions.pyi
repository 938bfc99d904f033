from typing import final

from jetbroker.routing.router import Router
from jetbroker.routing.subscription import Subscription

@final
class ClientSubscriptions:
    most: int
    def __len__(self) -> int: ...

def retire(router: Router, gone: list[Subscription], start: int) -> int: ...
