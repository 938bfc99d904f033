"""JetStream, in rooms from the configuration to the wire.

Read `models` and `host` first, then `publish` (how a message gets into a stream), `streams`, `consumers` (how it gets
out), `sourcing`, `api`; `account.py` holds them together for one account, `server.py` for all. docs/ARCHITECTURE.md
says who may import whom.
"""
