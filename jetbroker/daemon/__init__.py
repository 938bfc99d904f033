"""The daemon around the broker: command line, signals, pid and ports files, listeners, reloads.

Read `cli`, then `broker`, the composition root: options in, listeners out.
"""
