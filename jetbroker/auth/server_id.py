"""Server ids: public nkeys of a server (`N...`)."""

import os

from jetbroker.config import nkeys


def new_server_id() -> str:
    """A fresh public server id of 56 characters."""
    return nkeys.encode(nkeys.SERVER, os.urandom(nkeys.KEY_BYTES))
