from enum import IntEnum
from typing import Any, final

from jetbroker.auth.permissions import Permissions
from jetbroker.connections.connection import Connection
from jetbroker.connections.halves import ClientOutput, Shared
from jetbroker.connections.identity import Identity
from jetbroker.connections.subscriptions import ClientSubscriptions
from jetbroker.errors import ProtocolError
from jetbroker.routing.router import Router
from jetbroker.routing.subscription import Subscription

class Stage(IntEnum):
    LOGIN_DUE = 0
    SILENT = 1
    LET_IN = 2
    CONNECTED = 3
    LET_IN_GREETED = 4
    GREETED = 5

class StageEvent(IntEnum):
    ACCEPTED = 0
    ADMITTED = 1
    PINGED = 2

STAGES: dict[tuple[Stage, StageEvent], Stage]

@final
class ClientProtocol(Connection):
    receiver: ClientOutput
    account: Any
    identity: Identity
    permissions: Permissions | None
    kind: str
    upgrade: Any
    unheard: ClientOutput | None
    subscriptions: ClientSubscriptions
    protocol_level: int
    name: str
    lang: str
    version: str
    proxy: str
    arrival: Any
    def __init__(self, shared: Shared, router: Router, account: Any, cid: int, login_due: bool) -> None: ...
    @property
    def subscription_count(self) -> int: ...
    @property
    def connected(self) -> bool: ...
    @property
    def greeted(self) -> bool: ...
    @property
    def anonymous(self) -> bool: ...
    @property
    def server(self) -> str: ...
    @property
    def user(self) -> str | None: ...
    @property
    def login_pending(self) -> bool: ...
    def apply_connect(
        self, options: Any, router: Router, account: Any, permissions: Permissions | None = None
    ) -> None: ...
    def apply_anonymous(self, router: Router, account: Any, permissions: Permissions | None) -> None: ...
    def remember_options(self, options: Any) -> None: ...
    def apply_permissions(self, permissions: Permissions | None) -> None: ...
    def set_trace(self, traced: bool) -> None: ...
    def fail(self, error: ProtocolError) -> None: ...
    def ping(self) -> None: ...
    def subscription_list(self) -> list[Subscription]: ...
    def cut_off(self) -> None: ...
    def forget(self, sub: Subscription) -> None: ...
    def release(self, sub: Subscription) -> None: ...
    def may_trace_to(self, destination: bytes) -> bool: ...
