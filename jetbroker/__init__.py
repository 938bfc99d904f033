"""jetbroker: a NATS and JetStream broker.

General layout
--------------

One rule decides where code lives: what runs once per message is Cython, what runs once per event is Python.
The rooms depend on each other in one direction only; `tests/test_house.py` keeps the table in
`docs/ARCHITECTURE.md`:

    limits, errors, tick         every bound, the error taxonomy, the order of work at the end of a tick
    config/                      the configuration language and the options
    wire/                        what travels on a socket, without I/O
    routing/                     interest and delivery
    store/                       segment log, memory log, recovery, the offline reader
    auth/, accounts/             who somebody is, and what belongs to whom
    connections/                 sockets
    jetstream/                   streams, consumers and their API
    monitor/                     the HTTP monitoring port
    broker, cli                  the whole, and its command line
    tables/                      streams as Arrow tables
    testing/                     a broker for users' own tests
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jetbroker.tables.scanning import scan

__all__ = ["NATS_VERSION", "__version__", "scan"]

__version__ = "0.1.0"
NATS_VERSION = "2.14.5"  # the release whose behaviour this is; clients choose features by it


def __getattr__(name: str) -> Any:
    """`jetbroker.scan` is loaded when it is asked for: the broker needs nothing of it."""
    if name == "scan":
        from jetbroker.tables.scanning import scan

        return scan
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
