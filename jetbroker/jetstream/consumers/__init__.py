"""The consumer engine.

Read `cursor` (where a consumer stands) and `tracker` (what it has delivered, and what became of that), then `core`,
which has both and sends a message, and as delivery either `pull` (with the queue of requests, and what chooses from it)
or `push`. `consumer` takes acks, has these parts and calls them in its turn; `placement` finds where it begins; `state`
brings it to disk.
"""
