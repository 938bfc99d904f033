"""Logs of streams: segment log, memory log, recovery, the LMDB cache, and the offline reader that Spark uses.

May import limits, errors, tick and wire.subjects; knows nothing of sockets, accounts or JetStream.
"""
