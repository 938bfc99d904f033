"""Streams read from their files while a broker runs on them or not: what Spark and tools use.

Read `reader`, then `columns` (a segment's columns) and `arrow`.
"""
