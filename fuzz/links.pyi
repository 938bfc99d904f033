from typing import Any

from jetbroker.routing.links import LinkReceiver
from jetbroker.routing.router import Router
from jetbroker.routing.subscription import Receiver, Subscription

class RecordingLink(LinkReceiver):
    sent: list[tuple[bytes, bytes | None, Any]]
    replies: list[bytes]
    answer: int
    def __init__(self, cluster: bytes | None = None) -> None: ...
    def end(self) -> None: ...

class RecordingReceiver(Receiver):
    got: list[tuple[Subscription, bytes]]
    answer: int

def publish(router: Router, skip: Receiver | None, subject: bytes) -> int: ...
def publish_from_link(
    router: Router, link: LinkReceiver, queues: list[bytes] | None, subject: bytes, reply: bytes | None = None
) -> int: ...
def send(router: Router, target: bytes, stored: bytes) -> int: ...
def deliver_once(router: Router, skip: Receiver | None, subject: bytes) -> int: ...
def reaches(router: Router, subject: bytes) -> tuple[bool, bool]: ...
