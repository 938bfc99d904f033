"""What an account gives to its streams: the way to clients and to the tick, names, log and advisories, and its usage.

Read `host` first, then `advisories` and `usage`. docs/ARCHITECTURE.md says what it may import.
"""
