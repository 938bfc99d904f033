from typing import Any, final

from jetbroker.connections.connection import Connection
from jetbroker.connections.output import Shared
from jetbroker.errors import ProtocolError
from jetbroker.leafnodes.interest import Ledger, LinkView
from jetbroker.routing.links import LinkReceiver
from jetbroker.routing.router import Router
from jetbroker.routing.subscription import Subscription

@final
class LinkOutput(LinkReceiver):
    is_spoke: bool
    isolated: bool

@final
class LinkInterest(LinkView):
    def go_on(self) -> None: ...

@final
class Link(Connection):
    receiver: LinkOutput
    ledger: Ledger | None
    remote: Any
    kind: str
    def __init__(self, shared: Shared, cid: int, login_due: bool = False) -> None: ...
    def begin(self, router: Router, ledger: Ledger, rules: Any, is_spoke: bool) -> None: ...
    def apply_rules(self, rules: Any) -> None: ...
    def fail(self, error: ProtocolError) -> None: ...
    def send_error(self, text: str) -> None: ...
    @property
    def headers(self) -> bool: ...
    @headers.setter
    def headers(self, value: bool) -> None: ...
    @property
    def login_due(self) -> bool: ...
    @property
    def is_spoke(self) -> bool: ...
    @property
    def subscription_count(self) -> int: ...
    def subscription_list(self) -> list[Subscription]: ...
