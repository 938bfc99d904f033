from jetbroker.routing.subscription import Receiver

class LinkReceiver(Receiver):
    cluster: bytes | None
    is_spoke: bool
    ended: bool

class Links: ...
