"""A broker in a process of its own, for users' own tests.

May import everything; nothing in jetbroker imports it.
"""

from jetbroker.testing.server import Server, ServerError

__all__ = ["Server", "ServerError"]
