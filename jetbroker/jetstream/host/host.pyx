# cython: language_level=3
"""What streams know of their account and server (see host.pxd)."""
from jetbroker.jetstream.timing.work_turns cimport WorkTurns
from jetbroker.routing.router cimport Router


cdef class Host:
    """Made once for each account."""

    def __init__(self, Router router not None, WorkTurns turns not None, object server_info, object log,
                 object advisories) -> None:
        self.router = router
        self.tick = router.tick
        self.account_name = router.account_name
        self.turns = turns
        self.server_info = server_info
        self.log = log
        self.advisories = advisories
        self.streams = {}
