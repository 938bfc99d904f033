"""A stream around its log: subjects, limits, expiry, removals, and direct gets past the API.

Read `stream`, then `expiry` and `removals`. Consumers are known by `models.interest` only.
"""
