"""A stream's way in: each publish is checked, appended to the log, and acked once it is committed.

Read `ingest` first, then `headers` and `judge` (what a message asks for, and whether it may), `room` (what fits, and
what has to go), `dedup`, `batches`, `fast_batches`, `schedules`, and `pub_acks`. Knows the log, but neither the
stream's life nor its consumers.
"""
