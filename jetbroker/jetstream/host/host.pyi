from typing import Any

from jetbroker.jetstream.host.advisories import Advisories
from jetbroker.jetstream.models.contracts import ServerInfo
from jetbroker.jetstream.timing.work_turns import WorkTurns
from jetbroker.logs.logger import Logger
from jetbroker.routing.router import Router
from jetbroker.tick import Tick

class Host:
    """Made once for each account."""

    router: Router
    tick: Tick
    account_name: str
    turns: WorkTurns
    server_info: ServerInfo
    log: Logger
    advisories: Advisories
    streams: dict[str, Any]
    def __init__(
        self, router: Router, turns: WorkTurns, server_info: ServerInfo, log: Logger, advisories: Advisories
    ) -> None: ...
