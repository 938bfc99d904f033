"""Every account's streams on disk or in memory. Knows nothing of sockets, accounts' rules or JetStream's API.

Read `format` (the bytes), `log` (a stream's log), then `recovery`, `cache` and `compression`; `store.py` holds them
together, `offline` reads the same files without a broker, as Spark does.
"""
