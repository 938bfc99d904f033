"""Tamper-evident streams: the keys of a stream's metadata."""

HASH_CHAIN = "jetbroker.hash_chain"
"""What a client sets: the algorithm."""

HASH_CHAIN_HEAD = "jetbroker.hash_chain.head"
"""What the server shows: the last sequence that is chained, and its hash."""
