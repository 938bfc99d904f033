from jetbroker.routing.subscription import Receiver

class LinkReceiver(Receiver):
    cluster: bytes | None
    ended: bool

class Links: ...
