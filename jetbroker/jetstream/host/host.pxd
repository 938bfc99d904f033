"""What a stream, its consumers and its sourcing know of the account and of the server they belong to."""
from jetbroker.jetstream.timing.work_turns cimport WorkTurns
from jetbroker.routing.router cimport Router
from jetbroker.tick cimport Tick


cdef class Host:
    cdef readonly Router router
    cdef readonly Tick tick
    cdef readonly str account_name
    cdef readonly WorkTurns turns      # one time for the work of all streams of the server
    cdef readonly object server_info   # ServerInfo
    cdef readonly object log           # Logger
    cdef readonly object advisories    # Advisories
    cdef readonly dict streams         # the account's, by name: JetStream keeps them
