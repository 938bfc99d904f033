"""Benchmarks: jetbroker and nats-server in turn on one machine, loaded by our own generator.

Imports nothing of jetbroker but its version: the broker is started as users start it.
"""
