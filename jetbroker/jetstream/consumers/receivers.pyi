from jetbroker.routing.router import Receiver

class SilentReceiver(Receiver):
    """On `$JS.API.>`: takes API requests that mean nothing."""
