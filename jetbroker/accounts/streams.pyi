from jetbroker.accounts.graph import StreamImport
from jetbroker.routing.router import Router
from jetbroker.routing.subscription import Receiver, Subscription

class Shadow(Receiver):
    original: Subscription

def shadow_subject(subscribed: bytes, stream: StreamImport) -> bytes | None: ...
def add_shadow(exporter: Router, original: Subscription, subject: bytes, stream: StreamImport) -> Shadow: ...
def remove_shadow(shadow: Shadow) -> None: ...
